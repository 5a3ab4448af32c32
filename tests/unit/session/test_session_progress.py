"""The live line is shown on a terminal only; elsewhere there is a line now and then."""

from __future__ import annotations

import io
import re

import pytest
from _pytest.terminal import TerminalReporter
from experiment_builders import ALONE

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.records.errors import Retryable
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
    shared = BackendContext()
    for _ in range(3):
        circuit = shared.circuits.of("http://a/v1 key", "server http://a/v1")
        circuit.fail(Retryable("no server", kind="connection"), ("a",), 0.0, 0.0)
    return progress_display(config, "evals/test_math.py::test_sums", shared), screen


def test_counts_and_the_cause_of_a_wait_are_shown_and_cleared(pytester):
    show, screen = display(pytester)
    show(Progress(total=2000, done=500, lost=3))
    text = screen.getvalue()
    show(None)

    assert "test_sums  500/2,000  3 lost  waiting until server http://a/v1 answers again" in text
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


def test_without_a_terminal_there_is_a_line_now_and_then(pytester, monkeypatch):
    monkeypatch.setattr("pytest_crucible.session.progress.LOG_EVERY_S", 0.0)
    show, screen = display(pytester, is_terminal=False)
    show(Progress(total=300, done=120, lost=1))
    show(None)

    assert re.fullmatch(
        r"\ncrucible: test_sums  120/300  1 lost  waiting until server http://a/v1 answers again  0 s left\n",
        screen.getvalue(),
    )
