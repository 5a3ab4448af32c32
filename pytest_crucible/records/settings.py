"""The settings of a session, merged from the command line, the environment and pytest's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_crucible.records.durations import seconds_of

if TYPE_CHECKING:
    from pytest_crucible.records.types import Reasoning

# The run store, below pytest's root directory.
DEFAULT_STORE = ".crucible/crucible.db"
# The error rate of a session's claims, and of commands on stored runs and files.
DEFAULT_ALPHA = 0.05


@dataclass(frozen=True)
class Settings:
    """One field per option: command line over environment over configuration over default."""

    adapter: str | None
    compare: tuple[str, ...]
    concurrency: int
    timeout: float
    deadline: str | None
    budget: tuple[str, ...]
    rounds: int
    seed: int
    attacks: str | None
    alpha: float
    store: str
    tag: tuple[str, ...]
    strict: bool
    fresh: bool
    cache: str
    checks: str
    resume: bool
    stop: bool
    stages: str | None
    until: str | None
    estimate: bool
    train: bool
    run_code: bool
    sample: str | None
    json: str | None
    report: tuple[str, ...]
    otel: bool
    undecided: str
    memory: str
    reasoning: Reasoning
    redact: str | None
    tinker: str
    tinker_base: str | None

    @property
    def deadline_s(self) -> float | None:
        """Return the seconds from the start of the run; None without a deadline."""
        return None if self.deadline is None else seconds_of(self.deadline)
