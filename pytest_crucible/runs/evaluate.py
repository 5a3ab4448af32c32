"""Evaluates a run: analyses its stored replies, decides the verdicts and stores them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import (
    AnalysisInputs,
    ScoreTable,
    analyse,
    score_table,
    uses_expected,
    uses_fields,
)
from pytest_crucible.analyse.chosen_candidate import hold_for_all_members
from pytest_crucible.analyse.exclusions import add_reduced_evidence, without_excluded
from pytest_crucible.analyse.known_inapplicable import mark_inapplicable
from pytest_crucible.analyse.pooled_comparisons import decide_on_pools
from pytest_crucible.analyse.stopping import in_order, keep_answers, skip_samples, stop_early
from pytest_crucible.records import CUT_SHORT, Analysis, ArmOutcomes, Run, Verdict
from pytest_crucible.runs.complete_samples import complete_samples
from pytest_crucible.runs.plugins import Extensions
from pytest_crucible.runs.pools import add_pools
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.runs.run_analysis import alpha_at_end, begin_analysis
from pytest_crucible.runs.same_answers import add_same_answers
from pytest_crucible.sections import Section
from pytest_crucible.sections.inputs import StoredDetails, section_inputs
from pytest_crucible.sections.run import add_views, compute_sections
from pytest_crucible.store.events import load_budgets
from pytest_crucible.store.experiments import StoredExperiment, load_experiments
from pytest_crucible.store.outcomes import inapplicable_reasons
from pytest_crucible.store.runs import RunStore


def conclude(
    store: RunStore,
    run: str,
    *,
    alpha: float,
    strict: bool,
    interrupted: bool,
    amend: Callable[[Verdict], Verdict | None],
    extensions: Extensions,
    memory: str = "off",
) -> Run:
    """Analyse everything that a run has stored, decide all verdicts together, store and return them.

    `amend` may replace a verdict; `memory` is the setting crucible_memory.
    """
    alpha = alpha_at_end(store, run, extensions, alpha)
    by_key, family_size = analyse_run(
        store, run, extensions, alpha=alpha, interrupted=interrupted, memory=memory, strict=strict
    )
    analyses = list(by_key.values())
    decided = gate.decide_verdicts(analyses, alpha=alpha, strict=strict, family_size=family_size)
    verdicts = tuple(amend(verdict) or verdict for verdict in decided)
    for key, analysis in by_key.items():
        store.set_kinds(key, analysis.kinds)
        store.add_verdicts(key, [verdict for verdict in verdicts if verdict.nodeid == analysis.plan.nodeid])
    finished_at = utc_now()
    is_whole = not interrupted and all(analysis.finished for analysis in analyses)
    store.end_run(run, finished=finished_at, status="finished" if is_whole else "interrupted")
    return concluded_run(store, run, finished_at, family_size, analyses, verdicts, alpha=alpha)


def analyse_run(
    store: RunStore,
    run: str,
    extensions: Extensions,
    *,
    alpha: float,
    interrupted: bool,
    stored_claims: int = 0,
    memory: str = "off",
    strict: bool = False,
    at: Mapping[str, Any] | None = None,
    look_share: float = 1.0,
) -> tuple[dict[int, Analysis], int]:
    """Return the analysis of each experiment that began, by its key, and the size of the session's Holm family.

    Nothing is stored. `stored_claims` is the number of claims that the session decided: those of a plugin's section cannot
    be computed again without the plugin, and yet they share alpha. `at` is the place to look at, in the words of features;
    without it that at which the session ended. `look_share` is the share of the plan's alpha for looks (--crucible-stop) that
    this analysis spends.
    """
    whole = begin_analysis(store, run, extensions, alpha=alpha, strict=strict, at=at)

    def experiments() -> Iterator[tuple[AnalysisInputs, StoredExperiment]]:
        for stored in load_experiments(store, run):
            stored = _with_look_share(stored, look_share)
            inputs = analysis_inputs(stored, stored.finished or (stored.plan.by_item and not interrupted))
            for cut in whole.cuts:
                inputs = cut(inputs, stored)
            yield add_pools(inputs, stored, strict=strict) if memory == "pool" else inputs, stored

    analyses, family_size = analyse_together(
        experiments, extensions.sections, alpha=alpha, declared=whole.claims, stored_claims=stored_claims
    )
    keys = {plan.nodeid: key for key, plan, _ in store.experiments(run)}
    by_key = {keys[analysis.plan.nodeid]: analysis for analysis in analyses}
    return {key: _with_reasons(store, key, analysis) for key, analysis in by_key.items()}, family_size


def _with_look_share(stored: StoredExperiment, share: float) -> StoredExperiment:
    alpha = stored.plan.look_alpha
    if alpha is None or share == 1:
        return stored
    return dataclasses.replace(stored, plan=dataclasses.replace(stored.plan, look_alpha=alpha * share))


def analyse_together(
    experiments: Callable[[], Iterable[tuple[AnalysisInputs, StoredDetails]]],
    sections: Mapping[str, Section],
    *,
    alpha: float,
    declared: int,
    stored_claims: int = 0,
) -> tuple[list[Analysis], int]:
    """Return the analyses of all experiments of a session, and the size of its Holm family.

    `experiments` reads them one after the other: only the analyses stay in memory, not the replies. `declared` is the number
    of declared comparisons that share alpha; the claims of sections that can fail the session join them.
    """
    size = declared + stored_claims
    analyses = [_analyse(sections, *pair, alpha=alpha, family_size=size) for pair in experiments()]
    deciding = sum(
        claim.fails for analysis in analyses for section in analysis.sections.values() for claim in section.claims
    )
    family_size = declared + max(deciding, stored_claims)
    # The first pass shows how many claims of sections join the family, and power depends on how many claims share alpha.
    if family_size != size:
        analyses = [_analyse(sections, *pair, alpha=alpha, family_size=family_size) for pair in experiments()]
    adjusted = gate.adjust_p_values(analyses, family_size=family_size)
    return [add_views(sections, analysis) for analysis in adjusted], family_size


def _analyse(
    sections: Mapping[str, Section], inputs: AnalysisInputs, stored: StoredDetails, *, alpha: float, family_size: int
) -> Analysis:
    table = score_table(inputs)
    outcomes = compute_sections(sections, section_inputs(inputs, table, stored, alpha=alpha))
    analysis = _estimate(inputs, table, alpha=alpha, family_size=family_size)
    reduced = without_excluded(inputs, analysis.kinds)
    if reduced is not None:
        rest = _estimate(reduced, score_table(reduced), alpha=alpha, family_size=family_size)
        analysis = add_reduced_evidence(analysis, rest)
    return dataclasses.replace(analysis, sections=outcomes)


def _estimate(inputs: AnalysisInputs, table: ScoreTable, *, alpha: float, family_size: int) -> Analysis:
    if inputs.looked_at is not None:
        table = in_order(table, inputs.looked_at, inputs.plan.look_alpha)
    of_each = alpha / inputs.plan.chosen_among
    analysis = hold_for_all_members(analyse(inputs, table, alpha=of_each, family_size=family_size))
    return decide_on_pools(analysis, inputs, alpha=alpha, family_size=family_size)


def analysis_inputs(stored: StoredExperiment, finished: bool) -> AnalysisInputs:
    """Return the inputs of the analysis of a stored experiment. It is not finished where a budget or deadline cut it short."""
    expected = stored.expected_values() if uses_expected(stored.plan) else ()
    of_variants = _variant_answers(stored)
    inputs = AnalysisInputs(
        plan=stored.plan,
        answers=mark_inapplicable(stored.plan, stored.arms, expected),
        groups=stored.groups,
        finished=finished,
        known_kinds=stored.known_kinds,
        expected=expected,
        metadata=stored.metadata_values() if uses_fields(stored.plan) else (),
        variants={name: mark_inapplicable(stored.plan, arms, expected) for name, arms in of_variants.items()},
        sample_ids=stored.all_sample_ids(),
        seed=stored.seed(),
    )
    is_cut_short = any(lost.reason in CUT_SHORT for arm in inputs.all_answers for lost in arm.lost)
    inputs = add_same_answers(dataclasses.replace(inputs, finished=finished and not is_cut_short), stored)
    alpha = stored.plan.look_alpha
    return inputs if alpha is None else stop_early(inputs, complete_samples(stored), alpha)


def _variant_answers(stored: StoredExperiment) -> dict[str, tuple[ArmOutcomes, ...]]:
    """Return the arms' outcomes on each variant.

    Samples without a twin are skipped, not lost; so are those whose expected answer is no longer right by a person's label.
    """
    if not stored.variants:
        return {}
    without_twin, plan = stored.samples_without_twin(), stored.plan
    answers = {name: skip_samples(plan, arms, without_twin[name]) for name, arms in stored.variants.items()}
    kept = plan.robustness.kept if plan.robustness else {}
    if not kept:
        return answers
    positions = {sample: position for position, sample in enumerate(stored.all_sample_ids())}
    for name, labels in kept.items():
        wrong = {positions[sample] for sample, is_kept in labels.items() if not is_kept and sample in positions}
        left = sorted(wrong - set(without_twin[name]))
        others = [position for position in range(len(positions)) if position not in wrong]
        own = tuple(keep_answers(arm, others) for arm in stored.variants[name])
        answers[name] = skip_samples(plan, own, {*without_twin[name], *left})
    return answers


def _with_reasons(store: RunStore, key: int, analysis: Analysis) -> Analysis:
    """Return the analysis with the reasons why metrics do not apply, read only where some do not."""
    if not any(estimate.inapplicable for estimate in analysis.estimates):
        return analysis
    return dataclasses.replace(analysis, inapplicable=inapplicable_reasons(store, key, 0))


def concluded_run(
    store: RunStore,
    run: str,
    finished: str,
    family_size: int,
    analyses: Sequence[Analysis],
    verdicts: tuple[Verdict, ...],
    *,
    alpha: float,
) -> Run:
    """Return the whole run. Its exit status is 0 until the session sets it."""
    facts = store.run(run)
    return Run(
        id=run,
        started=facts["started"],
        finished=finished,
        seed=facts["seed"],
        git=facts["git"],
        environment=facts["environment"],
        alpha=alpha,
        correction=facts["correction"],
        family_size=family_size,
        experiments=tuple(analyses),
        verdicts=verdicts,
        exit_status=0,
        store=store.location,
        budgets=load_budgets(store, run),
    )
