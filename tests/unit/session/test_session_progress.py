"""The live line is shown on a terminal only."""

from __future__ import annotations

import io

import pytest
from _pytest.terminal import TerminalReporter
from experiment_builders import ALONE

from pytest_crucible.sample.engine import Progress
from pytest_crucible.session.progress import Show, progress_display


class Screen(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def display(
    pytester: pytest.Pytester, *options: str, is_terminal: bool = True, worker: bool = False
) -> tuple[Show, Screen]:
    config = pytester.parseconfigure(*ALONE, *options)
    screen = Screen(is_terminal=is_terminal)
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(TerminalReporter(config, screen), "terminalreporter")
    if worker:
        config.workerinput = {}  # type: ignore[attr-defined]  # as xdist sets it
    return progress_display(config, "evals/test_math.py::test_sums", lambda: "waiting for a permit"), screen


def test_counts_and_the_cause_of_a_wait_are_shown_and_cleared(pytester):
    show, screen = display(pytester)
    show(Progress(total=2000, done=500, lost=3))
    text = screen.getvalue()
    show(None)

    assert "test_sums  500/2,000  3 lost  waiting for a permit" in text
    assert "evals" not in text
    assert screen.getvalue().endswith("\x1b[1G")


@pytest.mark.parametrize(
    ("options", "facts"),
    [((), {"is_terminal": False}), ((), {"worker": True}), (("-q",), {})],
    ids=["not a terminal", "a worker", "quiet"],
)
def test_nothing_is_shown_elsewhere(pytester, options, facts):
    show, screen = display(pytester, *options, **facts)
    show(Progress(total=10, done=5))
    show(None)

    assert screen.getvalue() == ""
