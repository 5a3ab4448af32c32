"""The whole analysis and gate on changed answers: the judge of what fragility says of a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from answer_builders import LOST, analysis_inputs, reply_rows
from report_builders import make_run

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.features.provenance.questions import Asked, ask
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.records import Contrast, MetricFacts, Run

Rows = list[list[Any]]
"""The scores of one arm: a row for each sample, with one entry for each repeat; LOST is a lost reply."""

SCORE = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)
FLAG = MetricFacts(name="m", kind="binary", low=0.0, high=1.0)


def inputs_of_rows(
    *arms: Rows,
    metric: MetricFacts,
    targets: Sequence[str] = (),
    contrasts: Sequence[Contrast] = (),
    groups: Any = None,
) -> AnalysisInputs:
    """Return the inputs of an analysis of one metric; the first arm is the candidate v2, the second the baseline v1."""
    inputs = analysis_inputs(
        *(reply_rows(rows) for rows in arms), n=len(arms[0]), metrics=(metric,), targets=targets,
        contrasts=tuple(contrasts), groups=groups, repeats=len(arms[0][0]),
    )  # fmt: skip
    return replace(inputs, sample_ids=[f"q{k}" for k in range(len(arms[0]))])


def decide_run(inputs: AnalysisInputs, *, family_size: int = 1, strict: bool = False) -> Run:
    """Return the run of one experiment with its verdicts, as a session decides them."""
    analysis = analyse(inputs, score_table(inputs), alpha=0.05, family_size=family_size)
    analyses = adjust_p_values([analysis], family_size=family_size)
    verdicts = decide_verdicts(analyses, alpha=0.05, strict=strict, family_size=family_size)
    return make_run(*analyses, verdicts=verdicts, family_size=family_size)


def ask_first(inputs: AnalysisInputs, **settings: Any) -> Asked:
    """Return the first verdict of a run as a question."""
    run = decide_run(inputs, **settings)
    return ask(run, run.verdicts[0], inputs, score_table(inputs), strict=settings.get("strict", False))


def turn(rows: Rows, places: Sequence[tuple[int, int]], score: Any) -> Rows:
    """Return the scores of an arm with others at some places."""
    changed = [list(row) for row in rows]
    for position, repeat in places:
        changed[position][repeat] = score
    return changed


def fewest_by_trying_all(
    arms: Sequence[Rows],
    *,
    metric: MetricFacts,
    best: Any,
    worst: Any,
    only_state: bool = False,
    settings: Any = None,
    **facts: Any,
) -> int | None:
    """Return the fewest answers of one arm that all turn one way and change the first verdict, by deciding on every set of them."""
    settings = settings or {}

    def decide(changed: Sequence[Rows]) -> tuple[str, bool]:
        verdict = decide_run(inputs_of_rows(*changed, metric=metric, **facts), **settings).verdicts[0]
        return verdict.state, False if only_state else verdict.proven

    decided = decide(arms)
    fewest = None
    for number, goal in _ways(arms, best, worst):
        scored = [
            (k, r) for k, row in enumerate(arms[number]) for r, score in enumerate(row) if score not in (LOST, goal)
        ]
        # An answer of a pair that the other arm lost is not one of the verdict's pairs.
        scored = [place for place in scored if all(LOST not in other[place[0]] for other in arms)]
        for size in range(1, min(len(scored), (fewest or len(scored) + 1) - 1) + 1):
            sets = combinations(scored, size)
            if any(
                decide([turn(rows, s, goal) if k == number else rows for k, rows in enumerate(arms)]) != decided
                for s in sets
            ):
                fewest = size
                break
    return fewest


def _ways(arms: Sequence[Rows], best: Any, worst: Any) -> Iterator[tuple[int, Any]]:
    for number in range(len(arms)):
        yield number, best
        yield number, worst
