"""A run for experiment trackers: its parameters, numbers, and verdicts as tags."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_crucible.exports.results import RunResults, SampleResult, as_text
from pytest_crucible.records import Analysis, Run, experiment_names


def parameters(run: Run) -> dict[str, str]:
    """Return what the run depended on: its seed and error rate, its datasets and arms."""
    plans, names = [analysis.plan for analysis in run.experiments], _names(run)
    arms = {arm.name: arm for plan in plans for arm in plan.arms}
    return {
        "crucible_run": run.id,
        "seed": str(run.seed),
        "alpha": str(run.alpha),
        **{f"{names[plan.nodeid]}.dataset": f"{plan.dataset} sha256 {plan.dataset_sha256}" for plan in plans},
        **{f"{name}.adapter": f"{arm.adapter} {arm.identity}".strip() for name, arm in arms.items()},
        **{f"{name}.{key}": as_text(value) for name, arm in arms.items() for key, value in arm.parameters.items()},
    }


def numbers(run: Run) -> dict[str, float]:
    """Return each estimate and difference with the ends of its interval, n and lost. What is infinite or unknown is left out."""
    names = _names(run)
    pairs = (
        pair
        for analysis in run.experiments
        for name in [names[analysis.plan.nodeid]]
        for pair in (*_estimates(name, analysis), *_differences(name, analysis))
    )
    return {name: float(value) for name, value in pairs if value is not None and math.isfinite(value)}


def _names(run: Run) -> dict[str, str]:
    return experiment_names(analysis.plan.nodeid for analysis in run.experiments)


def _estimates(experiment: str, analysis: Analysis) -> Iterator[tuple[str, float | None]]:
    targets = [result.estimate for result in analysis.targets if result.estimate.statistic != "mean"]
    for estimate in (*analysis.estimates, *targets):
        metric = estimate.metric if estimate.statistic == "mean" else f"{estimate.statistic}({estimate.metric})"
        name = f"{experiment}.{estimate.arm}.{metric}"
        low, high = (None, None) if estimate.interval is None else (estimate.interval.low, estimate.interval.high)
        yield from ((name, estimate.value), (f"{name}.low", low), (f"{name}.high", high))
        yield from ((f"{name}.n", estimate.n), (f"{name}.lost", estimate.lost))


def _differences(experiment: str, analysis: Analysis) -> Iterator[tuple[str, float | None]]:
    """Yield candidate minus baseline, positive where it is better; of a ratio, candidate over baseline."""
    for pair in analysis.comparisons:
        name = f"{experiment}.{pair.contrast.subject(pair.candidate)}"
        value, interval = (
            (pair.difference, pair.interval) if pair.ratio is None else (pair.ratio.value, pair.ratio.interval)
        )
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        yield from ((name, value), (f"{name}.low", low), (f"{name}.high", high))
        yield from ((f"{name}.n", pair.pairs), (f"{name}.lost", pair.lost))


def verdict_tags(run: Run) -> dict[str, str]:
    """Return subject -> state of each verdict, and whether it is proven."""
    names = _names(run)
    return {
        f"{names[verdict.nodeid]}: {verdict.subject}": (
            "error in the suite" if verdict.suite_error else f"{verdict.state}{', proven' if verdict.proven else ''}"
        )
        for verdict in run.verdicts
    }


COLUMNS = ("run", "experiment", "arm", "sample", "group", "repeat", "metric", "value", "label", "lost", "reason")
"""Those of `crucible export --what observations` that a table of scores needs to be read again."""


def score_rows(results: RunResults) -> list[tuple[object, ...]]:
    """Return a row for each score as it counts, and for each lost one with the reason; a lost reply has no metric."""
    return [
        (arm.run, arm.plan.nodeid, arm.arm.name, result.sample.id, result.sample.cluster, result.repeat, *score)
        for arm in results.arms()
        for result in arm.read()
        for score in _scores(result)
    ]


def _scores(result: SampleResult) -> Iterator[tuple[object, ...]]:
    if result.error:
        yield (None, None, None, "error", result.error)
    for name, value in result.scores.items():
        yield (name, None, value, None, None) if isinstance(value, str) else (name, float(value), None, None, None)
    for name, why in result.lost.items():
        yield (name, None, None, "scorer", why)
