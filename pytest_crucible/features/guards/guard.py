"""A configured guard: its table in the configuration, its kind's score, and a threshold."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import BackendError, CrucibleError, SpecError, suggest
from pytest_crucible.records.outcomes import Detection, Span

if TYPE_CHECKING:
    from pytest_crucible.metrics.models.scorers import Judge

Action = Literal["block", "redact"]
OnError = Literal["lost", "block", "pass"]
Redaction = Literal["mask", "partial", "placeholder", "hash"]
REDACTIONS: tuple[str, ...] = get_args(Redaction)
ANY = "any"
"""The setting that lists other guards, and the kind of such a guard."""
STAND_IN = "This was blocked by a guard."
DEFAULT_THRESHOLD = 0.75
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
    """A row of `kinds.KINDS`, a "module:function", or `any`."""
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
        mistake = "both kind and any" if ANY in table else "neither kind nor any"
        raise SpecError(f'{place} has {mistake}: write kind = "rules", or any = ["...", "..."]')
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


FAILED = "error"
"""The category of a text that is blocked because its guard failed."""
FindSpans = Callable[[str], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A score with its category and places."""

    score: float
    category: str = ""
    spans: tuple[Span, ...] = ()


class Scorer(Protocol):
    """One kind of guard, opened."""

    identity: str
    """Changes when and only when scores may change."""

    async def score(self, text: str) -> ScoredText:
        """Return the score of a text, from 0 to 1. Raises BackendError if it has none."""


class Guard(Protocol):
    """A named guard, which flags texts."""

    settings: GuardSettings
    identity: str
    find_spans: FindSpans | None
    """Returns the places of what it finds, without waiting; None for a guard that waits, or has no places."""

    async def detect(self, text: str) -> Detection:
        """Return whether the guard flags a text, its score and its category.

        Raises BackendError if the guard failed and a failure loses the sample.
        """


class ThresholdGuard:
    """Flags texts whose score is at least the threshold."""

    def __init__(self, settings: GuardSettings, scorer: Scorer) -> None:
        self.settings = settings
        self.identity = _identify("threshold", scorer.identity, settings)
        self._scorer = scorer
        self.find_spans: FindSpans | None = getattr(scorer, "find_spans", None)

    async def detect(self, text: str) -> Detection:
        started = time.perf_counter()
        try:
            scored = await self._scorer.score(text)
        except CrucibleError as error:
            # Out of budget, refused by its server, not cached: the session knows what these mean.
            if type(error) is not BackendError:
                raise
            return self._detect_failure(error, started)
        except Exception as error:
            return self._detect_failure(error, started)
        is_flagged = scored.score >= self.settings.threshold
        return Detection(
            flagged=is_flagged,
            score=scored.score,
            category=scored.category,
            spans=scored.spans,
            latency_s=time.perf_counter() - started,
        )

    def _detect_failure(self, error: Exception, started: float) -> Detection:
        if self.settings.on_error == "lost":
            raise BackendError(f"guard {self.settings.name!r} failed: {error}", kind="guard") from error
        is_flagged = self.settings.on_error == "block"
        return Detection(
            flagged=is_flagged, score=float(is_flagged), category=FAILED, latency_s=time.perf_counter() - started
        )


class AnyGuard:
    """Flags texts that one of several guards flags. Its score is the highest."""

    def __init__(self, settings: GuardSettings, guards: Sequence[Guard]) -> None:
        self.settings = settings
        self.identity = _identify("any", *(guard.identity for guard in guards), settings)
        self._guards = tuple(guards)
        finders = [guard.find_spans for guard in guards if guard.find_spans is not None]
        self.find_spans: FindSpans | None = None if len(finders) < len(self._guards) else _join_finders(finders)

    async def detect(self, text: str) -> Detection:
        started = time.perf_counter()
        # One after the other: most guards do not wait, and a task for each would wait for all others of the session.
        detections = [await guard.detect(text) for guard in self._guards]
        # A guard that flags comes before one that scores higher and does not: thresholds differ.
        first = max(detections, key=lambda detection: (detection.flagged, detection.score))
        return Detection(
            flagged=first.flagged,
            score=max(detection.score for detection in detections),
            category=first.category,
            spans=tuple(span for detection in detections if detection.flagged for span in detection.spans),
            latency_s=time.perf_counter() - started,
        )


def _join_finders(finders: Sequence[FindSpans]) -> FindSpans:
    return lambda text: [span for find in finders for span in find(text)]


def _identify(*parts: object) -> str:
    described = [
        (part.threshold, part.action, part.redaction, part.stand_in, part.on_error)
        if isinstance(part, GuardSettings)
        else part
        for part in parts
    ]
    return hashlib.sha256(repr(described).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardContext:
    """Resources that kinds need besides their settings."""

    root: Path
    """Paths in the configuration are relative to it."""
    open_judge: Callable[[str], Judge]
    """Returns the adapter with that name as a judge. Raises SpecError."""
