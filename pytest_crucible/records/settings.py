"""The settings of a session, merged from the command line, the environment and configuration, and the durations in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any

from pytest_crucible.quick_dataclass import dataclass

if TYPE_CHECKING:
    from pytest_crucible.records.measures import Reasoning


_UNITS_S = {
    **dict.fromkeys(("ms", "millisecond"), 0.001),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
    **dict.fromkeys(("d", "day"), 86400.0),
}
_PART = re.compile(
    rf"\s*(\d+(?:\.\d*)?|\.\d+)\s*({'|'.join(sorted(_UNITS_S, key=len, reverse=True))})s?(?![a-z])\s*", re.I
)
_PLAIN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*")


def seconds_of(text: str) -> float | None:
    """Return a duration in seconds, the unit of a bare number; None for other texts.

    >>> seconds_of("30 min"), seconds_of("1h30m"), seconds_of("2m59.56s"), seconds_of("17ms"), seconds_of("90")
    (1800.0, 5400.0, 179.56, 0.017, 90.0)
    >>> seconds_of("soon"), seconds_of("")
    (None, None)
    """
    if plain := _PLAIN.fullmatch(text):
        return float(plain[1])
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        total += float(part[1]) * _UNITS_S[part[2].lower()]
        at = part.end()
    return total if text else None


# The run store, below pytest's root directory.
DEFAULT_STORE = ".crucible/crucible.db"
# The error rate of a session's claims, and of commands on stored runs and files.
DEFAULT_ALPHA = 0.05


@dataclass(frozen=True)
class Settings:
    """One field per option of the core: command line over environment over configuration over default."""

    adapter: str | None
    compare: tuple[str, ...]
    concurrency: int
    timeout: float
    deadline: str | None
    budget: tuple[str, ...]
    seed: int
    alpha: float
    store: str
    tag: tuple[str, ...]
    strict: bool
    fresh: bool
    cache: str
    resume: bool
    run_code: bool
    sample: str | None
    json: str | None
    report: tuple[str, ...]
    trace: str
    otel: bool
    undecided: str
    memory: str
    reasoning: Reasoning
    equal_inputs: str
    tinker: str
    tinker_base: str | None
    features: Mapping[str, Any] = field(default_factory=dict)
    """The values of features' options by name."""

    @classmethod
    def of_options(cls, values: Mapping[str, Any]) -> Settings:
        """Return the settings with the value of each option by name."""
        names = {field.name for field in fields(cls)}
        own = {name: value for name, value in values.items() if name in names}
        return cls(**own, features={name: value for name, value in values.items() if name not in names})

    def option(self, name: str) -> Any:
        """Return the value of a feature's option; None if the feature is left out."""
        return self.features.get(name)

    def by_option(self) -> dict[str, Any]:
        """Return the value of each option by name, those of features beside the others."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "features"}
        return {**own, **self.features}

    @property
    def calls_again(self) -> bool:
        """Return whether baselines are called although replies of them are stored."""
        # A refreshed cache would be pointless if stored replies were used instead.
        return self.fresh or self.cache == "refresh"

    @property
    def deadline_s(self) -> float | None:
        """Return the seconds from the start of the run; None without a deadline."""
        return None if self.deadline is None else seconds_of(self.deadline)
