"""Samples without which each verdict is decided again, because a part of the candidate was chosen or fitted on them."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.metrics import Metric
from pytest_crucible.records import Exclusion, Sample


def find_exclusions(
    arms: Sequence[OpenedArm], metrics: Sequence[Metric], samples: Sequence[Sample]
) -> tuple[Exclusion, ...]:
    """Return the samples that chose a guard's threshold, and those that a metric was fitted on."""
    return (*_threshold_exclusions(arms, samples), *_exclude_fitted(metrics))


def _threshold_exclusions(arms: Sequence[OpenedArm], samples: Sequence[Sample]) -> tuple[Exclusion, ...]:
    """Return the samples whose texts chose the threshold of a guard: on them the guard looks better than it is."""
    chosen = [threshold for arm in arms for threshold in arm.chosen_by]
    if not chosen:
        return ()
    # Most sessions have no guard.
    from pytest_crucible.adapters.guard import input_text
    from pytest_crucible.guards.normalise import find_used

    texts = [(sample.id, input_text(sample.input)) for sample in samples]
    used = [(f"chose the threshold of {threshold.guard}", find_used(threshold, texts)) for threshold in chosen]
    return tuple(Exclusion(reason=reason, sample_ids=ids) for reason, ids in dict(used).items() if ids)


def _exclude_fitted(metrics: Sequence[Metric]) -> tuple[Exclusion, ...]:
    """Return the samples that a metric was fitted on as those without which each verdict is decided again."""
    sample_ids = tuple(dict.fromkeys(name for metric in metrics for name in metric.fitted_on))
    return (Exclusion(reason="the thresholds were fitted on", sample_ids=sample_ids),) if sample_ids else ()
