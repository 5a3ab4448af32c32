"""A configured guard: a kind's score, a threshold, and what happens when the kind fails."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_crucible.guards.settings import GuardSettings
from pytest_crucible.records.detections import Detection, Span
from pytest_crucible.records.errors import BackendError, CrucibleError

FAILED = "error"
"""The category of a text that is blocked because its guard failed."""


FindSpans = Callable[[str], Sequence[Span]]


class Scored(Protocol):
    """The reading of a text by one kind of guard."""

    @property
    def score(self) -> float: ...
    @property
    def category(self) -> str: ...
    @property
    def spans(self) -> tuple[Span, ...]: ...


class Scorer(Protocol):
    """One kind of guard, opened."""

    identity: str
    """Changes when and only when scores may change."""

    async def score(self, text: str) -> Scored:
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


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A score with its category and places."""

    score: float
    category: str = ""
    spans: tuple[Span, ...] = ()


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
