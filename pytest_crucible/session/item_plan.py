"""Builds the plan of a test from its markers, arms and samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features import left_out_sentence
from pytest_crucible.measures.table import feature_of
from pytest_crucible.metrics import Metric
from pytest_crucible.plan.design import (
    NO_VARIANTS,
    check_expected,
    contrasts_with_baselines,
    group_count,
    plan_metrics,
    plan_terms,
)
from pytest_crucible.plan.fingerprint import fingerprint
from pytest_crucible.plan.targets import with_declarations
from pytest_crucible.plan.variants import VariantNames
from pytest_crucible.records import Dataset, Fingerprint, Measure, MetricFacts, Plan, Reasoning
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.experiment_checks import check_known_numbers
from pytest_crucible.session.marks import comparisons, targets


def make_plan(
    item: pytest.Function,
    arms: Sequence[OpenedArm],
    dataset: Dataset,
    *,
    open_metrics: bool,
    declared: Sequence[MetricFacts] = (),
    further: Sequence[MetricFacts] = (),
    names: VariantNames = NO_VARIANTS,
    **facts: Any,
) -> Plan:
    """Return a plan with the item's targets and comparisons. Raises SpecError for those that cannot be computed."""
    quality_targets, contrasts = targets(item), with_declarations(comparisons(item), declared)
    _check_statistics(item, (*quality_targets, *contrasts))
    metrics = plan_metrics(
        declared, quality_targets, contrasts, open_metrics=open_metrics, further=further, variants=names
    )
    if not open_metrics:
        check_known_numbers(item, quality_targets, metrics)
    judged = [name for measure in (*quality_targets, *contrasts) for name in measure.metrics]
    check_expected(quality_targets, contrasts, dataset.samples)
    arm_records = tuple(arm.arm for arm in arms)
    return Plan(
        **{**_location(item), **facts},
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        planned=len(dataset.samples),
        groups=group_count(dataset),
        arms=arm_records,
        metrics=metrics,
        targets=quality_targets,
        contrasts=contrasts_with_baselines(contrasts, arm_records, dataset.samples),
        open_metrics=open_metrics,
        variant_metrics=tuple(names.metrics.values()),
        not_run={name: names.reason_not_run(name) for name in judged if names.reason_not_run(name)},
        variant_terms=plan_terms(metrics, quality_targets, contrasts, names, open_metrics=open_metrics),
    )


def _check_statistics(item: pytest.Item, measures: Sequence[Measure]) -> None:
    """Raise SpecError for a measure whose statistic belongs to a feature that is left out."""
    for measure in measures:
        feature = feature_of(measure)
        if feature is not None and item.config.pluginmanager.is_blocked(feature.plugin_name):
            raise SpecError(left_out_sentence(measure.expression, feature))


def fingerprint_of(
    item: pytest.Function,
    function: Callable[..., Any],
    dataset: Dataset,
    metrics: Sequence[Metric],
    timeout_s: float | None,
    reasoning: Reasoning,
) -> Fingerprint:
    """Return the fingerprint of an experiment: everything that its stored replies depend on but the arm."""
    return fingerprint(
        dataset=dataset.sha256,
        function=function,
        case=item.callspec.id if hasattr(item, "callspec") else "",
        metrics=metrics,
        sampling={"timeout_s": timeout_s},
        owner=item.cls,
        reasoning=reasoning,
    )


def _location(item: pytest.Function) -> dict[str, Any]:
    path, line, _ = item.location
    return {"nodeid": item.nodeid, "path": path, "line": line or 0}
