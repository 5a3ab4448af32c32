"""Changes of an estimate by features: the experiments that a run asks besides the planned ones, and further lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.experiment import Experiment


@dataclass(frozen=True)
class HelperEstimate:
    """An experiment that serves another one, and is sent before it."""

    experiment: Experiment
    family: str = ""
    """The name of the arms that are not known yet."""
    further: int = 0
    """The number of these arms."""
    least_share: float = 1.0
    """The share of the samples after which the scores may end it."""
    unsent: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The positions of samples that an arm is not sent, by its name."""


@dataclass
class ExperimentEstimate:
    """One experiment that is estimated; `pytest_crucible_estimate` may change it."""

    item: pytest.Function
    experiment: Experiment
    helpers: list[HelperEstimate] = field(default_factory=list)


@dataclass
class SessionEstimate:
    """The whole estimate; `pytest_crucible_estimate_session` may change it."""

    arms: tuple[OpenedArm, ...]
    """The arms that may have to be prepared."""
    settings: Settings
    forecast_seconds: Callable[[Sequence[float], int], str]
    """Returns the sum of so many further durations, drawn as the earlier ones, as text; `unknown` from fewer than two."""
    further: int = 0
    """The number of further arms like the first, which are not known yet."""
    lines: list[str] = field(default_factory=list)
    """Lines below the estimates."""
