"""Redacts what a guard finds, and whatever equals it anywhere else in the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pytest_crucible.detectors.replacements import FoundValues, Redactor
from pytest_crucible.records.outcomes import Span


class FindingsRedactor:
    """A function that redacts the findings of a guard in a text, and values that it has found in other texts."""

    def __init__(self, find: Callable[[str], Iterable[Span]], redact: Redactor, values: FoundValues) -> None:
        self._find, self._redact = find, redact
        self.values = values
        self._known_early = 0

    def begin(self) -> None:
        """Note that all that is known so far is known before anything is stored or shown."""
        self._known_early = len(self.values)

    def found_late(self) -> bool:
        """Return whether values were found since: texts from before may show them. Of a run's workers, any may have."""
        self.values.find(" ")
        return len(self.values) > self._known_early

    def __call__(self, text: str) -> str:
        if not text:
            return text
        spans = tuple(self._find(text))
        self.values.learn(text, spans)
        return self._redact(text, [*spans, *self.values.find(text)])
