"""Targets on a training: `loss_reduction >= 0.95` judges how the candidate was trained, where no metric has that name."""

from __future__ import annotations

from collections.abc import Container

from pytest_crucible.records import MetricFacts, Target
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.training import TRAINING_RANGES

# Number -> its facts, with the values that it can have.
TRAINING = {name: MetricFacts(name=name, low=low, high=high) for name, (low, high) in TRAINING_RANGES.items()}


def check_form(target: Target) -> None:
    """Raise SpecError for a statistic of a single number: its share, count or percentile means nothing."""
    if target.expression != target.metric:
        relation, value = target.inner_relation or target.relation, target.inner_value
        instead = f"{target.metric} {relation} {target.value if value is None else value:g}"
        raise SpecError(
            f"target {target.text!r} asks for a statistic of {target.metric!r}, which is one number of the candidate's "
            f"training: write {instead!r}"
        )


def check_comparison(metric: str, of_training: Container[str]) -> None:
    """Raise SpecError for a comparison of trainings, which cannot be tested with one number in each arm."""
    if metric in of_training:
        raise SpecError(
            f"ab_compare({metric!r}) names a number of the training, of which each arm has one, so that nothing can be "
            f"tested: judge it with quality_target, or compare on a metric"
        )
