"""What is known of a judge: whether it prefers a place, and how far people agree with it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.records.statistics import Share

HUMAN, ORDERS = ".human", ".orders"
"""End the names of what a judged metric tells beside its score: its level and a person's; how a reply fares in each place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceBias:
    """What swapping the order of two answers changed, of one arm's replies."""

    arm: str
    metric: str
    n: int
    """Replies that were judged in both orders."""
    consistent: Share
    """Of them with one verdict in both orders."""
    towards_first: int
    """Replies whose verdict moved, on swapping, with the place that is shown first."""
    towards_second: int
    p_value: float
    """Exact sign test of "neither place is preferred"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAgreement:
    """How far a judge's levels are those that people gave the same replies."""

    arm: str
    metric: str
    n: int
    """Replies with a person's label."""
    raw: Share
    """Of them with the same level."""
    kappa: Share
    """Cohen's, unweighted."""
