"""Messages for the end of a session, gathered while it runs: by this process, and under xdist by its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.session.failures import ExpectedFailure


@dataclass
class Messages:
    """Lines and errors to show at the end; a worker sends them with its reports, and the controller merges them."""

    problems: list[str]
    """Errors of the configuration: no request is sent."""
    failures: dict[str, None] = field(default_factory=dict)
    """Errors of the run store during sampling, each once although several workers report it."""
    lines: list[str] = field(default_factory=list)
    complaints: dict[str, None] = field(default_factory=dict)
    """Sentences on listeners that raised, each once although several workers report it."""
    items: dict[str, list[str]] = field(default_factory=dict)
    """Nodeids of the items that ran, by the experiment that they belong to."""

    expected_failures: dict[str, ExpectedFailure] = field(default_factory=dict)
    """Markers `xfail`, by the experiment that they are on."""

    begun: bool = False
    """Whether an experiment is in the run store. Without one there is no run to conclude."""
    expected_verdicts: int = 0
    """Verdicts that are counted as tests already."""
    further_reports: int = 0
    """Test reports of features, which are counted as tests, too."""

    @property
    def errors(self) -> list[str]:
        """Errors that keep the session from sending requests, or further requests."""
        return [*self.problems, *self.failures]

    def add_item(self, owner: str, item: str) -> None:
        self.items.setdefault(owner, []).append(item)

    def add_failures(self, failures: Iterable[object]) -> None:
        self.failures |= dict.fromkeys(map(str, failures))

    def add_complaints(self, complaints: Iterable[str]) -> None:
        self.complaints |= dict.fromkeys(complaints)

    def pop_message(self) -> dict[str, Any]:
        """Return everything as a report carries it to the controller; lines are sent only once."""
        # Lines are appended by the controller, errors are merged by value: only lines could appear twice.
        lines, self.lines = self.lines, []
        return {
            "begun": self.begun,
            "problems": self.problems,
            "failures": list(self.failures),
            "lines": lines,
            "complaints": list(self.complaints),
            "expected_failures": self.expected_failures,
        }

    def merge(self, message: Mapping[str, Any]) -> None:
        """Add the message of a worker's report."""
        self.begun |= message["begun"]
        self.problems = message["problems"] or self.problems
        self.lines += message["lines"]
        self.add_failures(message["failures"])
        self.add_complaints(message["complaints"])
        self.expected_failures |= message["expected_failures"]
