"""The table of a guard in the configuration, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from pytest_crucible.detectors.replacements import REDACTIONS, Redaction
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest

Action = Literal["block", "redact"]
OnError = Literal["lost", "block", "pass"]
ANY = "any"
"""The setting that lists other guards, and the kind of such a guard."""
STAND_IN = "This was blocked by a guard."
DEFAULT_THRESHOLD = 0.75
"""Names that `crucible guards` reads as a command."""
_COMMON = ("kind", ANY, "threshold", "action", "redaction", "stand_in", "on_error")
_CHOICES: Mapping[str, Sequence[str]] = {
    "action": get_args(Action),
    "redaction": REDACTIONS,
    "on_error": get_args(OnError),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """One guard of the configuration."""

    name: str
    kind: str
    """A row of `guards.kinds`, a "module:function", or `any`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The kind's own settings."""
    guards: tuple[str, ...] = ()
    """The guards of `any`."""
    threshold: float = DEFAULT_THRESHOLD
    threshold_file: str = ""
    """The file that the threshold is read from, as it is written; empty for a number."""
    action: Action = "block"
    redaction: Redaction = "placeholder"
    stand_in: str = STAND_IN
    on_error: OnError = "lost"

    @property
    def place(self) -> str:
        """The name of its table in messages."""
        return f"guards.{self.name}"


def read_guard(name: str, table: Any, kinds: Mapping[str, Sequence[str]]) -> GuardSettings:
    """Return the settings of one table `[guards.NAME]`. `kinds` are the options of each kind. Raises SpecError."""
    place = f"guards.{name}"
    if not isinstance(table, dict):
        raise SpecError(f'{place} = {table!r}: write a table, [{place}], with kind = "rules" or any = ["...", "..."]')
    kind = _read_kind(place, table, kinds)
    options = {key: value for key, value in table.items() if key not in _COMMON}
    allowed = kinds.get(kind, ())
    unknown = next((key for key in options if key not in allowed), None)
    if unknown is not None:
        names = [*_COMMON[2:], *allowed]
        hint = suggest(unknown, names, always=f"a guard of kind {kind!r} takes {', '.join(names)}")
        raise SpecError(f"{place} has {unknown!r}: {hint}")
    choices = {key: _read_choice(place, key, table[key]) for key in _CHOICES if key in table}
    threshold, file = _read_threshold(place, kind, table)
    return GuardSettings(
        name=name,
        kind=kind,
        options=options,
        guards=_read_members(place, table),
        threshold=threshold,
        threshold_file=file,
        stand_in=_read_text(place, "stand_in", table.get("stand_in", STAND_IN)),
        **cast(dict[str, Any], choices),
    )


def _read_kind(place: str, table: Mapping[str, Any], kinds: Mapping[str, Sequence[str]]) -> str:
    if (ANY in table) == ("kind" in table):
        given = "both kind and any" if ANY in table else "neither kind nor any"
        raise SpecError(f'{place} has {given}: write kind = "rules", or any = ["...", "..."]')
    kind = table.get("kind", ANY)
    if not isinstance(kind, str) or (kind not in kinds and ":" not in kind and kind != ANY):
        hint = suggest(str(kind), kinds, always=f'the kinds are {", ".join(kinds)}, and "module:function"')
        raise SpecError(f"{place} has kind = {kind!r}: {hint}")
    return kind


def _read_members(place: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    members = table.get(ANY, [])
    if (
        not isinstance(members, list)
        or not all(isinstance(member, str) for member in members)
        or (ANY in table and not members)
    ):
        raise SpecError(f'{place} has any = {members!r}: write a list of guards, any = ["inj", "pii"]')
    return tuple(members)


def _read_threshold(place: str, kind: str, table: Mapping[str, Any]) -> tuple[float, str]:
    value = table.get("threshold", DEFAULT_THRESHOLD)
    if kind == ANY and "threshold" in table:
        raise SpecError(f"{place} has a threshold, and its guards have their own: set it there")
    if isinstance(value, str) and value:
        return DEFAULT_THRESHOLD, value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise SpecError(
            f"{place} has threshold = {value!r}: expected a number above 0 and at most 1, or a file that "
            '`crucible guards threshold` has written, threshold = "inj.json"'
        )
    return float(value), ""


def _read_choice(place: str, key: str, value: Any) -> str:
    if value not in _CHOICES[key]:
        raise SpecError(f"{place} has {key} = {value!r}: write {' or '.join(map(_quote, _CHOICES[key]))}")
    return str(value)


def _read_text(place: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{place} has {key} = {value!r}: write a text")
    return value


def _quote(text: str) -> str:
    return f'"{text}"'
