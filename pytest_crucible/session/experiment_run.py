"""One run of an experiment by its item, as features change it before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.records import Unit
from pytest_crucible.sample.engine import Progress
from pytest_crucible.session.experiment import Experiment

if TYPE_CHECKING:
    from pytest_crucible.session.looks import LookRule

Show = Callable[[Progress | None], None]
"""Shows the progress; None when it ends."""


@dataclass
class ExperimentRun:
    """The requests of an experiment, their order and their end. The hook `pytest_crucible_run` may change all of it."""

    item: pytest.Function
    experiment: Experiment
    positions: Sequence[int] | None = None
    """The samples that are sent, in this order; None for all of them, in the order of the plan."""
    rule: LookRule | None = None
    """The rule of looks; None for a run that does not look before its end."""
    is_first: bool = True
    """Whether the experiment begins with this run, and is entered into the store."""
    is_last: bool = True
    """Whether the experiment is finished after this run."""
    answered: int = 0
    """The number of arms, from the first, that have had their requests in this session: trials of a search before the next."""
    is_over: Callable[[], bool] | None = None
    """Asked before each unit: whether to send no further unit."""
    show: Show = lambda progress: None
    before: list[Callable[[ExperimentRun], None]] = field(default_factory=list)
    """Called before anything is sent, while signals are deferred; may replace the experiment."""
    on_tick: list[Callable[[], None]] = field(default_factory=list)
    """Called by the main thread several times a second."""
    after: list[Callable[[], None]] = field(default_factory=list)
    """Called when all units are done."""

    def until_over(self, units: Iterator[Unit]) -> Iterator[Unit]:
        """Yield the units until the run is over."""
        is_over = self.is_over
        if is_over is None:
            yield from units
            return
        for unit in units:
            if is_over():
                return
            yield unit
