"""The kinds of events, in their groups, and what records each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Group = Literal["reasoning", "training", "metrics", "checkpoint", "deployment", "reinforcement", "stage"]

DEFAULT = "decision"
"""The kind of a decision without another one."""
UNCLOSED = "unclosed_tags"
"""The kind of what `trace.read` notes on <event> tags that are not closed."""
STAGE_STARTED, STAGE_COMPLETED = "stage_started", "stage_completed"
ALTERNATIVE_REJECTED, CONFIDENCE_UPDATED = "alternative_rejected", "confidence_updated"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event."""

    group: Group
    recorded_by: str
    """A sentence for people; empty where nothing records it."""


_DECISION = "trace.decision, or a claim of the model"

KINDS: Mapping[str, Kind] = {
    "hypothesis_formed": Kind("reasoning", _DECISION),
    ALTERNATIVE_REJECTED: Kind("reasoning", f"{_DECISION}; each decision with `over`"),
    "constraint_evaluated": Kind("reasoning", _DECISION),
    "pattern_applied": Kind("reasoning", _DECISION),
    "ambiguity_flagged": Kind("reasoning", _DECISION),
    CONFIDENCE_UPDATED: Kind("reasoning", f"{_DECISION}; each decision that revises another one and has a confidence"),
}
"""The 26 kinds by name."""

DECISIONS = (DEFAULT, *(name for name, kind in KINDS.items() if kind.group == "reasoning"))
"""The kinds that `trace.decision` takes."""
