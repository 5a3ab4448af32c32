"""Attacks in the plan of an experiment, each with the variants of the samples that it draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CONTROL, WORST = "control", "worst"
"""Names in brackets: the original samples sent again, and the worst over all attacked variants."""
SAME_ANSWER = "same_answer"
LEAKED, OBEYED = "leaked", "obeyed"
CERTIFIED, SMOOTHED = "certified_edits", "smoothed"
"""The metric of certificates, and the variant that has it: the model on texts with words left out."""
LATE = "late"
"""A fact of a twin whose text is written or found while the experiment runs: its input is the sample's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantGroup:
    """Variants that a term names together: the draws of one attack, or all attacked variants."""

    name: str
    """The name that targets write in brackets."""
    variants: tuple[str, ...]
    is_worst: bool = False
    """The values of a sample are their worst, not their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAttack:
    """An attack that an experiment runs."""

    name: str
    """The name that targets write in brackets, such as `homoglyph 0.1`; its group of variants has the same name."""
    attack: str
    kind: str
    strength: float | None
    """None if the attack has no strength."""
    draws: int
    asks_for: str = ""
    """`code` or `secret`, for an injection."""
    requests: int = 1
    """The most requests that one draw sends for a sample and arm, without those of a model that rewrites texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Robustness:
    """The attacks of an experiment."""

    attacks: tuple[PlannedAttack, ...]
    controls: int
    """How often each original sample is sent again: once, or as often as with attacks if the worst is judged."""
    not_run: Mapping[str, str] = field(default_factory=dict)
    """Attacks that are not run, with the reason; targets on them are undecided."""
    normalise: str = "text"
    """What makes two replies one answer, for `same_answer`."""
    kept: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """Variant -> sample -> whether the expected answer is still right, by a person's label."""
    certificate_requests: int = 0
    """Requests of a certificate for one sample and arm; 0 without certificates."""


def is_attacked(variant: str) -> bool:
    """Return whether a variant of an experiment with attacks is one of these, and not the control.

    >>> is_attacked("homoglyph"), is_attacked("control, draw 2"), is_attacked("smoothed")
    (True, False, False)
    """
    return variant.partition(",")[0] not in (CONTROL, SMOOTHED)
