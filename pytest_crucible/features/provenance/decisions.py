"""A decision that was recorded for a reply: by the test, or by the model of itself."""

from __future__ import annotations

from pytest_crucible.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One recorded decision. `number` counts those of its reply from 1."""

    number: int
    kind: str
    """One of `kinds.KINDS`, or a word of the model's own."""
    decision: str
    over: tuple[str, ...] = ()
    """The alternatives that were rejected."""
    because: str = ""
    confidence: float | None = None
    """From 0 to 1; None where it is not known."""
    parent: int | None = None
    """The number of the decision within which it was made."""
    revises: int | None = None
    """The number of the earlier decision that it replaces."""
    stage: str = ""
    """The names of the stages around it, as `outer/inner`."""
    is_claim: bool = False
    """Whether the model says it of itself."""
    calls: int = 0
    """How many calls of the reply had been sent before it."""
    at: float | None = None
    """Seconds since 1970."""
