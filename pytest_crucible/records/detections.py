"""The result of a detector or a guard on a text: spans, and a score."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text that a detector found. Offsets are code points, as Python slices them."""

    type: str
    """Such as `EMAIL_ADDRESS`: presidio's names for personal data."""
    start: int
    end: int
    """The place after the last character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """A guard's answer for one text."""

    flagged: bool
    score: float
    """Between 0 and 1; the guard flags a text from its threshold on."""
    category: str = ""
    """Such as `override` or `EMAIL_ADDRESS`: of the rule or the finding with the highest score; empty without one."""
    spans: tuple[Span, ...] = ()
    latency_s: float | None = field(default=None, compare=False)
    """Seconds that the guard took."""
