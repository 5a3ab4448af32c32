"""What a session has to say at its end, gathered while it runs: by this process, and under xdist by its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Notices:
    """A worker puts them into its reports, one small message each; the controller takes them out again."""

    problems: list[str]
    """Why nothing is asked: the configuration is wrong."""
    failures: dict[str, None] = field(default_factory=dict)
    """Of the run store, while it was asked: of every worker its own."""
    told: list[str] = field(default_factory=list)
    complaints: dict[str, None] = field(default_factory=dict)
    """Of listeners: what every worker says is said once."""
    items: dict[str, list[str]] = field(default_factory=dict)
    """Nodeids of the items that ran, by the experiment that they belong to."""

    @property
    def wrong(self) -> list[str]:
        """Why nothing is asked, or nothing more."""
        return [*self.problems, *self.failures]

    def ran(self, owner: str, item: str) -> None:
        self.items.setdefault(owner, []).append(item)

    def failed(self, failures: Iterable[object]) -> None:
        self.failures |= dict.fromkeys(map(str, failures))

    def complained(self, complaints: Iterable[str]) -> None:
        self.complaints |= dict.fromkeys(complaints)

    def handed_over(self) -> dict[str, Any]:
        """As a report carries them to the controller. What is told is told once."""
        told, self.told = self.told, []
        return {
            "problems": self.problems,
            "failures": list(self.failures),
            "told": told,
            "complaints": list(self.complaints),
        }

    def take(self, message: Mapping[str, Any]) -> None:
        """What a worker has handed over."""
        self.problems = message["problems"] or self.problems
        self.told += message["told"]
        self.failed(message["failures"])
        self.complained(message["complaints"])
