"""The verdicts of a stored run as questions: with the scores that they were decided on, so that they can be decided again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pytest_crucible.analyse.adjusted_analyses import without_excluded
from pytest_crucible.analyse.analysis import AnalysisInputs, ScoreTable, score_table
from pytest_crucible.analyse.slices import is_by_twin
from pytest_crucible.features.provenance.what_if import Question
from pytest_crucible.gate import decide_with_others
from pytest_crucible.gate.decide import withheld_reason
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Analysis, Comparison, Run, TargetResult, Verdict
from pytest_crucible.runs.evaluate import load_inputs
from pytest_crucible.store.runs import RunStore

Key = tuple[str, str]
"""The experiment's nodeid, and the subject of the verdict."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A verdict with its question, or the reason why it cannot be decided again from scores."""

    verdict: Verdict
    analysis: Analysis
    result: TargetResult | Comparison | None
    """None for a claim of a section, and for a metric without scores."""
    question: Question | None
    undefined: str = ""
    strict: bool = False
    """Whether --crucible-strict asked for proof."""


def load_questions(
    store: RunStore,
    run: Run,
    keys: Collection[Key] | None = None,
    loaded: Mapping[str, AnalysisInputs] = MappingProxyType({}),
) -> Iterator[Asked]:
    """Yield the run's verdicts, or those of the keys, in their order.

    Each experiment's scores are read once, unless they are among the inputs that are `loaded`, by name.
    """
    verdicts = [verdict for verdict in run.verdicts if keys is None or (verdict.nodeid, verdict.subject) in keys]
    nodeids = {verdict.nodeid for verdict in verdicts}
    facts = store.run(run.id)
    settings: Mapping[str, Any] = (facts["manifest"] or {}).get("settings") or {}
    strict = bool(settings.get("strict", False))
    inputs_by_node = {nodeid: loaded[nodeid] for nodeid in nodeids if nodeid in loaded}
    tables = {nodeid: score_table(inputs) for nodeid, inputs in inputs_by_node.items()}
    inputs_of_run = load_inputs(
        store, run.id, alpha=run.alpha, strict=strict, interrupted=facts["status"] != "finished"
    )
    missing = nodeids - inputs_by_node.keys()
    for inputs in inputs_of_run if missing else ():
        if inputs.plan.nodeid in missing:
            inputs_by_node[inputs.plan.nodeid], tables[inputs.plan.nodeid] = inputs, score_table(inputs)
    for verdict in verdicts:
        yield ask(run, verdict, inputs_by_node.get(verdict.nodeid), tables.get(verdict.nodeid), strict=strict)


def ask(
    run: Run,
    verdict: Verdict,
    inputs: AnalysisInputs | None,
    table: ScoreTable | None,
    *,
    strict: bool = False,
) -> Asked:
    """Return a verdict as a question; without one, with the reason why it cannot be decided again from these scores."""
    analysis = next(analysis for analysis in run.experiments if analysis.plan.nodeid == verdict.nodeid)
    result = find_result(verdict, analysis)
    undefined = (
        "its scores are not in the store" if inputs is None else _why_undefined(verdict, analysis, result, inputs)
    )
    if undefined or result is None or inputs is None or table is None:
        return Asked(verdict, analysis, result, None, undefined or "it has no scores", strict)
    rest_inputs = without_excluded(inputs, analysis.kinds) if result.reduced is not None else None
    is_by_bounds = isinstance(result, TargetResult) or result.contrast.limit is not None
    shared = analysis.bounds_share_alpha and is_by_bounds
    question = Question(
        analysis=analysis,
        result=result,
        inputs=inputs,
        table=table,
        rest=None if rest_inputs is None else score_table(rest_inputs),
        alpha=run.alpha / max(run.family_size, 1) if shared else run.alpha,
        family_size=max(run.family_size, 1),
        rule=decide_with_others(run.experiments, analysis, alpha=run.alpha, strict=strict, family_size=run.family_size),
    )
    # Amended by a hook, decided by earlier rules, or from what is not in the store any more.
    if question.decide() != (verdict.state, verdict.proven):
        return Asked(
            verdict, analysis, result, None, "the gate, asked again, decides it otherwise than its session did", strict
        )
    return Asked(verdict, analysis, result, question, strict=strict)


def find_result(verdict: Verdict, analysis: Analysis) -> TargetResult | Comparison | None:
    """Return what a verdict was decided from; None for a claim, and for a metric without scores."""
    if verdict.kind == "target":
        return next((result for result in analysis.targets if result.target.text == verdict.subject), None)
    pairs = (pair for pair in analysis.comparisons if pair.contrast.subject(pair.candidate) == verdict.subject)
    return next(pairs, None) if verdict.kind == "comparison" else None


def _why_undefined(
    verdict: Verdict, analysis: Analysis, result: TargetResult | Comparison | None, inputs: AnalysisInputs
) -> str:
    """Return why a verdict cannot be decided again from other scores; empty if it can."""
    if verdict.kind == "claim":
        return "it is a claim of a section, which is not decided from the scores of one metric"
    if verdict.suite_error or result is None:
        return "it is an error in the suite"
    if isinstance(result, TargetResult) and result.estimate.is_known:
        return "its number was known before sampling"
    if withheld := withheld_reason(analysis):
        return f"whatever the answers are, it is open: {withheld}"
    if inputs.looked_at is not None:
        return "the run stopped at a look, and other answers would have moved its end"
    if verdict.subject in analysis.looks or inputs.pools:
        return "it was decided on the replies of several sessions"
    plan, measure = analysis.plan, result.target if isinstance(result, TargetResult) else result.contrast
    if plan.chosen_among > 1:
        return f"its candidate was chosen among {plan.chosen_among}, by the same answers"
    if any(term.facts.name in measure.metrics for term in plan.variant_terms) or is_by_twin(measure.by, plan.variants):
        return "it is about twins of the samples, whose scores do not move alone"
    return ""
