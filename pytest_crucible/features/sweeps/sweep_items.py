"""The tests of a session with a sweep: one chooses the winner before its own samples, and the others wait for it."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.sweeps.sweep_choice import SweepChoice
from pytest_crucible.features.sweeps.sweep_trials import RunChoosing
from pytest_crucible.features.sweeps.sweep_waiting import NoWinner, report_failure, signs_of_life, wait_for_winner
from pytest_crucible.session.experiment import Experiment


class SweepItems:
    """A pytest plugin, registered when a session has a sweep."""

    def __init__(self, choice: SweepChoice, *, worker: str | None, check_interrupt: Callable[[], None]) -> None:
        """`worker` is the name of this worker of pytest-xdist; None in a session without workers."""
        self._choice = choice
        self._worker = worker
        self._check_interrupt = check_interrupt

    @property
    def family(self) -> str:
        return self._choice.record.family

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Give signs of life while the winner is chosen, fixtures included, and report the end of a choice without one."""
        choice, family = self._choice, self._choice.record.family
        if self._worker is None or item.nodeid != choice.record.test:
            return (yield)
        try:
            with signs_of_life(choice.store, choice.run, family, self._worker):
                return (yield)
        finally:
            if choice.winner() is None:
                report_failure(choice.store, choice.run, family, f"{item.name} has ended without one")

    def with_winner(
        self, item: pytest.Item, experiment: Experiment, run_choosing: RunChoosing, flush: Callable[[], None]
    ) -> Experiment:
        """Return the experiment with the winner as its candidate. Skips the test if there will be none."""
        choice = self._choice
        if item.nodeid == choice.record.test:
            # Entered first: should this process die, its verdicts are undecided.
            choice.store.enter_unanswered(choice.run, experiment.plan, experiment.dataset.samples)
            return choice.apply(experiment, choice.choose(run_choosing, flush))
        try:
            return choice.apply(experiment, self._wait())
        except NoWinner as error:
            choice.store.enter_unanswered(choice.run, experiment.plan, experiment.dataset.samples)
            pytest.skip(f"not run: {error}")

    def _wait(self) -> OpenedArm:
        choice = self._choice
        if self._worker is not None:
            return wait_for_winner(choice.store, choice.run, choice.record.family, choice.winner, self._check_interrupt)
        winner = choice.winner()
        if winner is None:
            raise NoWinner(f"the sweep of {choice.record.family!r} has no winner: {choice.record.test} chose none")
        return winner
