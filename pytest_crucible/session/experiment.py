"""A marked test function as an experiment: everything that is known before the first request is sent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.metrics import Metric
from pytest_crucible.plan.variants import twin_sample
from pytest_crucible.records import Dataset, Draws, Outcome, Plan, Reasoning, Sample, Twin, Unit, Variant
from pytest_crucible.score import FurtherScores

# These arguments differ between the calls of one function, which fixtures cannot; all others are ordinary fixtures.
INJECTED = ("sample", "sampler", "score")
HAS_PROMPT_VARIABLE = pytest.StashKey[bool]()
"""Marks the items of experiments whose `prompt` is a variable of the adapters."""


class BoundArgument(Protocol):
    """Returns the value of an argument for a unit. `sample` is what the unit sends, such as a twin."""

    def __call__(self, experiment: Experiment, unit: Unit, sample: Sample) -> Any: ...


class FunctionCall(Protocol):
    """A call of an experiment's function for a unit."""

    @property
    def experiment(self) -> Experiment: ...

    async def run(self, outcome: Outcome, sample: Sample | None = None, draw: str = "") -> Outcome:
        """Call the function, or with another `sample`, whose requests are a `draw` of their own."""


class LateVariant(Protocol):
    """Makes the twins of a variant while an experiment runs, because their texts depend on replies of a model."""

    @property
    def requests(self) -> int:
        """The largest number of requests that the test function sent for one unit."""

    async def ask(self, call: FunctionCall, outcome: Outcome) -> Outcome:
        """Complete the outcome of a unit: make its text, and run the test function on it. Raises what requests raise."""


class CrucibleWarning(pytest.PytestWarning):
    """A suspicious but valid part of a suite, such as recorded replies to unknown samples."""


@dataclass(frozen=True)
class Experiment:
    """A marked function with its plan, its samples and its opened arms."""

    function: Callable[..., Any]
    plan: Plan
    dataset: Dataset
    metrics: tuple[Metric, ...]
    opened_arms: tuple[OpenedArm, ...]
    timeout_s: float | None
    is_async: bool
    warnings: tuple[str, ...]
    reasoning: Reasoning = "strip"
    """The setting `crucible_reasoning`."""
    variants: tuple[Variant, ...] = ()
    """Named variants of the samples, in the order of the plan."""
    variant_metrics: tuple[Metric, ...] = ()
    """Metrics that are applied only to replies to twins."""
    late_variants: Mapping[int, LateVariant] = field(default_factory=dict)
    """Variants whose texts are made while the experiment runs, by the number of their twins."""
    arguments: Mapping[str, BoundArgument] = field(default_factory=dict)
    """Further arguments of the function, by name."""
    further_scores: tuple[FurtherScores, ...] = ()
    """Functions that score more of a reply than its metrics do."""

    @cached_property
    def draws(self) -> tuple[Draws, ...]:
        """The table of replies that each sample has, by arm."""
        return tuple(self.plan.draws(number) for number in range(len(self.plan.arms)))

    def repeat(self, unit: Unit) -> int:
        """Return the number of a unit's reply, counted over all factors of its arm and sample."""
        return self.draws[unit.arm].place(unit.variant, unit.repeat)

    def twin(self, unit: Unit) -> int:
        """Return the number of a unit's twin; 0 is the original sample."""
        return self.draws[unit.arm].twin(unit.variant)

    def sample(self, unit: Unit) -> Sample:
        """Return the sample that a unit sends: the original, or its twin."""
        sample, number = self.dataset.samples[unit.position], self.twin(unit)
        twin = self.variants[number - 1].twin(sample.id) if number else None
        return twin_sample(sample, twin) if isinstance(twin, Twin) else sample

    @cached_property
    def twins(self) -> tuple[frozenset[int], ...]:
        """The positions of the samples that each variant applies to."""
        samples = self.dataset.samples
        return tuple(
            frozenset(position for position, sample in enumerate(samples) if isinstance(variant.twin(sample.id), Twin))
            for variant in self.variants
        )

    def position(self, sample_id: str) -> int | None:
        """Return the position of a sample in the dataset; None for an unknown id."""
        ids = [sample.id for sample in self.dataset.samples]
        return ids.index(sample_id) if sample_id in ids else None

    def metrics_of(self, unit: Unit) -> tuple[Metric, ...]:
        """Return the metrics that score the reply of a unit."""
        return (*self.metrics, *self.variant_metrics) if self.twin(unit) else self.metrics

    @property
    def injected(self) -> frozenset[str]:
        names = (*INJECTED, *self.arguments)
        return frozenset(names) & frozenset(inspect.signature(self.function).parameters)

    def fixture_values(self, item: pytest.Function) -> dict[str, Any]:
        """Return the function's own fixtures, without the arguments that differ between calls."""
        parameters, injected = inspect.signature(self.function).parameters, self.injected
        return {name: item.funcargs[name] for name in parameters if name in item.funcargs and name not in injected}

    def bind_function(self, item: pytest.Function) -> Callable[..., Any]:
        """Return the function, bound to its instance if it is a method."""
        method = item.instance is not None and "self" in inspect.signature(self.function).parameters
        return self.function.__get__(item.instance) if method else self.function
