"""An experiment while it is planned: what its markers declare, and what features add to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.metrics import Metric
from pytest_crucible.plan.variants import VariantNames
from pytest_crucible.records import Exclusion, MetricFacts, Sample, Variant
from pytest_crucible.records.plan import PlanValue
from pytest_crucible.records.settings import Settings
from pytest_crucible.score import FurtherScores
from pytest_crucible.session.experiment import BoundArgument, LateVariant
from pytest_crucible.session.experiment_data import ExperimentData
from pytest_crucible.session.experiment_metrics import ExperimentMetrics
from pytest_crucible.session.marks import ExperimentMark, comparisons, targets


@dataclass(kw_only=True)
class ExperimentDraft:
    """Markers, arguments and samples of a marked item, and what the hook `pytest_crucible_plan` adds to them."""

    config: pytest.Config
    settings: Settings
    item: pytest.Function
    function: Callable[..., Any]
    mark: ExperimentMark
    takes: Collection[str]
    """The arguments of the function."""
    arms: tuple[OpenedArm, ...]
    data: ExperimentData
    scored: ExperimentMetrics
    own_variants: tuple[Variant, ...]
    """Variants that the samples have themselves."""
    timeout_s: float | None

    variants: list[Variant] = field(default_factory=list)
    """Further variants. Twins are numbered from 1, and those of the samples come first."""
    names: VariantNames = field(default_factory=VariantNames)
    """The names that terms of targets may use."""
    variant_metrics: tuple[Metric, ...] = ()
    """Metrics that are applied only to replies to twins."""
    late_variants: Mapping[int, LateVariant] = field(default_factory=dict)
    """Variants whose texts are made while the experiment runs, by the number of their twins."""
    arguments: dict[str, BoundArgument] = field(default_factory=dict)
    """Further arguments of the function, by name."""
    facts: list[MetricFacts] = field(default_factory=list)
    """Further numbers that a reply has."""
    further_scores: list[FurtherScores] = field(default_factory=list)
    """Functions that score more of a reply than its metrics do."""
    exclusions: list[Exclusion] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the plan."""

    @property
    def samples(self) -> Sequence[Sample]:
        return self.data.dataset.samples

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        return (*self.own_variants, *self.variants)

    @property
    def judged(self) -> list[str]:
        """The metrics that targets and comparisons name."""
        return [name for measure in (*targets(self.item), *comparisons(self.item)) for name in measure.metrics]

    def add_variant(self, variant: Variant) -> None:
        """Send the samples in a further variant, which targets name in brackets."""
        self.variants.append(variant)
        self.names = replace(self.names, variants=(*self.names.variants, variant.name))

    def plan_value(self, name: PlanValue[Any], value: Any) -> None:
        """Keep a value of a feature in the plan; its default is not stored."""
        self.data.plan_value(name, value)
