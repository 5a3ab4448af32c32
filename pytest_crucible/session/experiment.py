"""A marked test function as an experiment: everything that is known before the first request is sent."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.metrics import Metric
from pytest_crucible.records import Dataset, Plan, Reasoning

# These arguments differ between the calls of one function, which fixtures cannot; all others are ordinary fixtures.
INJECTED = ("sample", "sampler", "score")


class CrucibleWarning(pytest.PytestWarning):
    """A suspicious but valid part of a suite, such as recorded replies to unknown samples."""


@dataclass(frozen=True)
class Experiment:
    """One marked function, planned."""

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

    def position(self, sample_id: str) -> int | None:
        """Return the position of a sample in the dataset; None for an unknown id."""
        ids = [sample.id for sample in self.dataset.samples]
        return ids.index(sample_id) if sample_id in ids else None

    @property
    def injected(self) -> frozenset[str]:
        return frozenset(INJECTED) & frozenset(inspect.signature(self.function).parameters)

    def fixture_values(self, item: pytest.Function) -> dict[str, Any]:
        """Return the function's own fixtures, without the arguments that differ between calls."""
        parameters = inspect.signature(self.function).parameters
        return {name: item.funcargs[name] for name in parameters if name in item.funcargs and name not in INJECTED}

    def bind_function(self, item: pytest.Function) -> Callable[..., Any]:
        """Return the function, bound to its instance if it is a method."""
        method = item.instance is not None and "self" in inspect.signature(self.function).parameters
        return self.function.__get__(item.instance) if method else self.function
