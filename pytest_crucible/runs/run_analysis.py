"""The analysis of a run while it is set up: features may change its alpha, its number of claims and its samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.stopping import answered_by_arm
from pytest_crucible.plan.arms import complete_length, look_order
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.runs.plugins import Extensions
from pytest_crucible.store.experiments import StoredExperiment
from pytest_crucible.store.runs import RunStore

Cut = Callable[[AnalysisInputs, StoredExperiment], AnalysisInputs]
"""Returns the inputs of an experiment with the samples that count."""


@dataclass
class RunAnalysis:
    """The common parts of a run's experiments. The hook `pytest_crucible_analyse_run` may change it."""

    store: RunStore
    run: str
    plans: Sequence[Plan]
    alpha: float
    """The error rate of the claims that this analysis makes."""
    alpha_at_end: float
    """The error rate of the session's claims when it ended, where `alpha` is that of the whole session."""
    strict: bool
    at: Mapping[str, Any]
    """The place at which to look, in the words of features, such as a decision of stages; empty for where the session ended."""
    claims: int
    """The number of declared claims that share alpha."""
    cuts: list[Cut] = field(default_factory=list)
    """Applied to each experiment, in this order. With one, no experiment is analysed in batches."""


def begin_analysis(
    store: RunStore,
    run: str,
    extensions: Extensions,
    *,
    alpha: float,
    strict: bool = False,
    at: Mapping[str, Any] | None = None,
) -> RunAnalysis:
    """Return the analysis of a run, as its features change it."""
    plans = [plan for _, plan, _ in store.experiments(run)]
    analysis = RunAnalysis(
        store=store,
        run=run,
        plans=plans,
        alpha=alpha,
        alpha_at_end=alpha,
        strict=strict,
        at=at or {},
        claims=sum(contrast.shares_alpha for plan in plans for contrast in plan.contrasts),
    )
    extensions.hook.pytest_crucible_analyse_run(analysis=analysis)
    return analysis


def alpha_at_end(store: RunStore, run: str, extensions: Extensions, alpha: float) -> float:
    """Return the error rate of a session's claims where it ended: alpha, or with stages the share of the last one."""
    return begin_analysis(store, run, extensions, alpha=alpha).alpha_at_end


def complete_samples(stored: StoredExperiment) -> list[int]:
    """Return the samples in look order, up to the first that some arm has not answered."""
    plan, order = stored.plan, look_order(stored.all_sample_ids(), stored.groups)
    queried = [
        (Counter(units), plan.draws(number).size)
        for number, units in enumerate(answered_by_arm(stored.arms, stored.variants))
        if plan.arms[number].stored_run is None
    ]
    without_twin = list(stored.samples_without_twin().values())

    def is_complete(position: int) -> bool:
        forms = 1 + sum(position not in samples for samples in without_twin)
        return all(counts[position] >= size * forms for counts, size in queried)

    return order[: complete_length(order, stored.groups, is_complete)]
