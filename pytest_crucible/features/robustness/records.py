"""Attacks in the plan of an experiment, each with the variants of the samples that it draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from pytest_crucible.features.robustness.terms import SMOOTHED
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.plan import PlanValue

CONTROL, WORST = "control", "worst"
"""Names in brackets: the original samples sent again, and the worst over all attacked variants."""
LEAKED, OBEYED = "leaked", "obeyed"


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


ROBUSTNESS = PlanValue[Robustness | None]("robustness", Robustness, None)
"""The attacks among the variants of a plan; None without any."""


def announcement_lines(plan: Plan) -> Iterator[str]:
    """Yield the number of requests of a variant's reply, if that is more than one."""
    robustness = ROBUSTNESS.of(plan)
    if robustness is None:
        return
    for attack in robustness.attacks:
        if attack.requests > 1:
            yield f"{attack.name}: up to {attack.requests:,} requests for each sample and arm"
    if robustness.certificate_requests:
        samples = next((variant.samples for variant in plan.variants if variant.name == SMOOTHED), 0)
        total = robustness.certificate_requests * sum(plan.draws(arm).size for arm in range(len(plan.arms))) * samples
        yield f"certificates: {robustness.certificate_requests:,} requests for each sample and arm, {total:,} in all"


def is_attacked(variant: str) -> bool:
    """Return whether a variant of an experiment with attacks is one of these, and not the control.

    >>> is_attacked("homoglyph"), is_attacked("control, draw 2"), is_attacked("smoothed")
    (True, False, False)
    """
    return variant.partition(",")[0] not in (CONTROL, SMOOTHED)
