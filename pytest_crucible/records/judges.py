"""Quality of an LLM judge: its place bias, and its agreement with people."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.records.statistics import Proportion

# End the names of a judged metric's side values: its level and a person's; how a reply fares in each
# place.
HUMAN, ORDERS = ".human", ".orders"
CLEAN = "clean"
"""The key of the label of the reply to the original sample, if a sample has labels of replies to its variants, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceBias:
    """Verdicts on one arm's replies that changed when the order of the two answers was swapped."""

    arm: str
    metric: str
    n: int
    """Replies that were judged in both orders."""
    consistent: Proportion
    """The share of these replies that got one verdict in both orders."""
    towards_first: int
    """Replies whose verdict moved, on swapping, with the place that is shown first."""
    towards_second: int
    p_value: float
    """Exact sign test of "neither place is preferred"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAgreement:
    """Agreement of a judge's levels with those that people gave the same replies."""

    arm: str
    metric: str
    n: int
    """Replies with a person's label."""
    raw: Proportion
    """The share of these replies that got the person's level."""
    kappa: Proportion
    """Cohen's, unweighted."""
