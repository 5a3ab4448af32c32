"""The metrics of an experiment: those that it declares, and those of its arms' kinds of adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pytest

from pytest_crucible.adapters.kinds import kind_of_arm
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features import feature_of, left_out_sentence
from pytest_crucible.metrics import Metric
from pytest_crucible.records import MetricFacts, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.experiment_data import declared_metrics
from pytest_crucible.session.marks import ExperimentMark, scored_facts


@dataclass(frozen=True, slots=True)
class ExperimentMetrics:
    """Metrics that score replies, and the facts of these and of the test's own numbers."""

    metrics: tuple[Metric, ...]
    facts: tuple[MetricFacts, ...]


def find_metrics(
    item: pytest.Function,
    mark: ExperimentMark,
    arms: Sequence[OpenedArm],
    samples: Sequence[Sample],
    takes: Collection[str],
) -> ExperimentMetrics:
    """Return the metrics of an experiment whose function takes these arguments.

    Raises SpecError for metrics that are unknown or cannot score these samples.
    """
    declared = declared_metrics(item.config, mark.metrics)
    # A test that scores itself may return nothing that these could score.
    of_kinds = _metrics_of_kinds(arms, samples) if "sampler" in takes else ()
    # A metric that the suite declares replaces a kind's metric of the same name.
    names = {metric.name for metric in declared}
    metrics = (*declared, *(metric for metric in of_kinds if metric.name not in names))
    _check_features(metrics, item.config.pluginmanager.is_blocked)
    _check_samples(metrics, samples)
    scored = _read_scored_facts(item, "score" in takes)
    return ExperimentMetrics(metrics, (*(metric.facts for metric in metrics), *scored))


def _metrics_of_kinds(arms: Sequence[OpenedArm], samples: Sequence[Sample]) -> tuple[Metric, ...]:
    """Return the metrics of the arms' kinds of adapter, each once."""
    return tuple(
        {metric.name: metric for arm in arms for metric in kind_of_arm(arm.arm).find_metrics(samples)}.values()
    )


def _check_features(metrics: Sequence[Metric], is_left_out: Callable[[str], bool]) -> None:
    """Raise SpecError for a metric of a feature that is left out."""
    for metric in metrics:
        feature = feature_of(getattr(metric.function, "__module__", None) or "")
        if feature is not None and is_left_out(feature.plugin_name):
            raise SpecError(left_out_sentence(f"metric {metric.name!r}", feature))


def _check_samples(metrics: Sequence[Metric], samples: Sequence[Sample]) -> None:
    """Raise SpecError for a metric that cannot score these samples."""
    problem = next(filter(None, (metric.check(samples) for metric in metrics if metric.check is not None)), "")
    if problem:
        raise SpecError(problem)


def _read_scored_facts(item: pytest.Function, takes_score: bool) -> tuple[MetricFacts, ...]:
    scored = scored_facts(item)
    if scored and not takes_score:
        marker = next(name for name in ("score_bounds", "score_reach") if item.get_closest_marker(name))
        raise SpecError(
            f"@pytest.mark.{marker} is about numbers that a test scores itself, and {item.originalname} does not take "
            f"the argument score: add it, or give the {marker.removeprefix('score_')} to the metric, as in "
            f"@metric({'bounds=(0, 1)' if marker == 'score_bounds' else 'reach=0.25'})"
        )
    return tuple(scored)
