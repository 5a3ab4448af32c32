"""The kinds of events, in their groups, and what records each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.quick_dataclass import dataclass

Group = Literal["reasoning", "training", "metrics", "checkpoint", "deployment", "reinforcement", "stage"]

DEFAULT = "decision"
"""The kind of a decision without another one."""
UNCLOSED = "unclosed_tags"
"""The kind of what `trace.read` notes on <event> tags that are not closed."""
STAGE_STARTED, STAGE_COMPLETED = "stage_started", "stage_completed"
STAGES = (STAGE_STARTED, STAGE_COMPLETED)
NOT_DECISIONS = frozenset({*STAGES, UNCLOSED})
"""Kinds of what is recorded beside decisions."""
AMBIGUITY_FLAGGED = "ambiguity_flagged"
ALTERNATIVE_REJECTED, CONFIDENCE_UPDATED = "alternative_rejected", "confidence_updated"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event."""

    group: Group
    recorded_by: str
    """A sentence for people; empty where nothing records it."""


_DECISION = "`trace.decision`, or a claim of the model"
_STEP = "event `train.step`"
_POLICY = f"{_STEP} on rows with advantages"
_STAGE = "`trace.step`"

KINDS: Mapping[str, Kind] = {
    "hypothesis_formed": Kind("reasoning", _DECISION),
    ALTERNATIVE_REJECTED: Kind("reasoning", f"{_DECISION}; each decision with `over`, too"),
    "constraint_evaluated": Kind("reasoning", _DECISION),
    "pattern_applied": Kind("reasoning", _DECISION),
    AMBIGUITY_FLAGGED: Kind("reasoning", _DECISION),
    CONFIDENCE_UPDATED: Kind("reasoning", f"{_DECISION}; each decision with `revises` and a confidence, too"),
    "training_started": Kind("training", f"the first {_STEP} of an adapter"),
    "training_completed": Kind("training", "event `checkpoint`"),
    "epoch_started": Kind("training", ""),
    "epoch_completed": Kind("training", ""),
    "batch_processed": Kind("training", _STEP),
    "loss_computed": Kind("metrics", _STEP),
    "metric_recorded": Kind("metrics", "each observation that is not lost"),
    "gradient_computed": Kind("metrics", f"{_STEP}, where the norm of the gradient is known"),
    "checkpoint_saved": Kind("checkpoint", "event `checkpoint`"),
    "checkpoint_loaded": Kind("checkpoint", "the lineage of an arm: what its training started from"),
    "early_stopped": Kind("checkpoint", "event `checkpoint` with fewer steps than `trainer.steps` was to make"),
    "deployment_started": Kind("deployment", "the start of a run, for each of its arms"),
    "model_loaded": Kind("deployment", "the first answered request of an arm"),
    "inference_completed": Kind("deployment", "event `request.stop` without an error"),
    "deployment_completed": Kind("deployment", "the end of a run, for each of its arms"),
    "reward_received": Kind("reinforcement", f"{_POLICY}: their mean"),
    "policy_updated": Kind("reinforcement", _POLICY),
    "experience_sampled": Kind("reinforcement", f"{_POLICY}: their number"),
    STAGE_STARTED: Kind("stage", _STAGE),
    STAGE_COMPLETED: Kind("stage", _STAGE),
}
"""The 26 kinds by name."""
NAMES = frozenset({DEFAULT, *KINDS})
"""What an event can be called without a word of its own."""

DECISIONS = (DEFAULT, *(name for name, kind in KINDS.items() if kind.group == "reasoning"))
"""The kinds that `trace.decision` takes."""


def kinds_of(decision: Decision) -> tuple[str, ...]:
    """Return the kinds of an event: its own, and those that follow from its alternatives and from what it revises."""
    of = [decision.kind]
    if decision.over:
        of.append(ALTERNATIVE_REJECTED)
    if decision.revises is not None and decision.confidence is not None:
        of.append(CONFIDENCE_UPDATED)
    return tuple(dict.fromkeys(of))
