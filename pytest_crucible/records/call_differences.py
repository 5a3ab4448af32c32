"""The differences between calls: of two arms, or of one arm at two times, beyond those that are declared.

Compared are the parameters of all calls and the messages of a unit's first call. Later messages of a conversation contain the
model's own replies, so that two arms differ in them by nature.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pytest_crucible.records.arms import Arm

MESSAGES = "messages"
"""Names a difference of messages beside those of parameters."""
ANYTHING = "*"
"""Declares that arms may differ in whatever the test sends."""
# Another seed is another draw of the same reply, as another repeat is.
DRAWS = frozenset({"seed"})
LONGEST_VALUE = 40
"""Characters of a value in a sentence."""

Differences = dict[str, tuple[Any, Any]]
"""Name of a parameter, or `messages`, -> the two values. Messages have none."""


class SentCalls(NamedTuple):
    """The calls of one unit."""

    messages: int | None
    """Key of the form of the first call's messages; None where the sample's input was sent unchanged."""
    settings: tuple[str, ...]
    """The different parameters of the calls, as canonical JSON, the first call's first."""


@lru_cache(maxsize=4096)
def parameters_of(settings: str) -> Mapping[str, Any]:
    """Return parameters from their canonical JSON, without the seed, which names a draw."""
    parameters = json.loads(settings)
    return {name: value for name, value in parameters.items() if name not in DRAWS}


class SentComparison:
    """Compares what two arms were sent, or one arm at two times, beyond the differences that are declared."""

    def __init__(
        self,
        ours: Arm,
        theirs: Arm,
        own: tuple[str, str],
        *,
        declared: Collection[str] = (),
        with_messages: bool = True,
    ) -> None:
        """`own` are the parameters of both adapters, as canonical JSON; `declared` are names, or `*`."""
        self._variables = dict(ours.variables), dict(theirs.variables)
        self._own = parameters_of(own[0]), parameters_of(own[1])
        self.declared = set(declared)
        self._with_messages = with_messages and self._variables[0] == self._variables[1]
        self._by_settings: dict[tuple[tuple[str, ...], tuple[str, ...]], Differences] = {}

    @property
    def compares_messages(self) -> bool:
        """True where messages are compared: the adapters' variables may be a part of them."""
        return self._with_messages and not self.declared & {MESSAGES, ANYTHING}

    def differences(self, ours: SentCalls, theirs: SentCalls) -> Differences:
        """Return the undeclared differences of two units, with our value and theirs."""
        key = ours.settings, theirs.settings
        settings = self._by_settings.get(key)
        if settings is None:
            settings = self._by_settings[key] = self._differing_settings(*key)
        if ours.messages != theirs.messages and self.compares_messages:
            return {**settings, MESSAGES: (None, None)}
        return settings

    def _differing_settings(self, ours: Sequence[str], theirs: Sequence[str]) -> Differences:
        """Return the differences of the first calls; or of later ones, where neither unit has sent all that the other has.

        A conversation that ended earlier lacks later calls.
        """
        if ANYTHING in self.declared:
            return {}
        first = self._differing(ours[0], theirs[0])
        only_ours = [mine for mine in ours if all(self._differing(mine, other) for other in theirs)]
        only_theirs = [other for other in theirs if all(self._differing(mine, other) for mine in ours)]
        if first or not (only_ours and only_theirs):
            return first
        return self._differing(only_ours[0], only_theirs[0])

    def _differing(self, ours: str, theirs: str) -> Differences:
        mine, other = parameters_of(ours), parameters_of(theirs)
        names = sorted({*mine, *other} - self.declared)
        pairs = {name: (mine.get(name), other.get(name)) for name in names}
        return {
            name: pair for name, pair in pairs.items() if pair[0] != pair[1] and not self._is_of_adapters(name, pair)
        }

    def _is_of_adapters(self, name: str, pair: tuple[Any, Any]) -> bool:
        """Return whether each value is that of the arm's own adapter: its parameter, or one of its variables."""
        if pair == (self._own[0].get(name), self._own[1].get(name)):
            return True
        mine, other = self._variables
        return any(pair == (mine[variable], other[variable]) for variable in mine.keys() & other.keys())


def changes_text(differences: Mapping[str, Any]) -> str:
    """Return parameters with their values before and now.

    >>> changes_text({"temperature": (0, 1), "messages": (None, None)})
    'temperature 0 then, 1 now; other messages'
    """
    return "; ".join(
        "other messages" if name == MESSAGES else f"{name} {value_text(then)} then, {value_text(now)} now"
        for name, (then, now) in differences.items()
    )


def arms_text(ours: str, theirs: str, differences: Mapping[str, Any]) -> str:
    """Return parameters with the values of two arms, by their names.

    >>> arms_text("v2", "v1", {"reasoning_effort": ("high", "low")})
    'v2: reasoning_effort high, v1: low'
    """
    return "; ".join(
        "other messages" if name == MESSAGES else f"{ours}: {name} {value_text(mine)}, {theirs}: {value_text(other)}"
        for name, (mine, other) in differences.items()
    )


def value_text(value: Any) -> str:
    """Return a parameter's value as a sentence has it: `none` where it was not sent, and the beginning of a long one.

    >>> value_text("low"), value_text(0.5), value_text(None)
    ('low', '0.5', 'none')
    """
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
