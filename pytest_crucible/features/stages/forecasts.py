"""Forecasts of a run's tokens and cost, with intervals, in total and for each arm."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = ("requests", "tokens", "usd", "seconds")


@dataclass(frozen=True, slots=True)
class Forecast:
    """An amount that a run will take, with an interval of 90 %."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float) -> Forecast:
        """Return an amount that is known."""
        return cls(value, value, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Forecasts of the tokens and cost of some replies; None if unknown."""

    requests: Forecast | None = None
    tokens: Forecast | None = None
    usd: Forecast | None = None
    seconds: Forecast | None = None
    basis: str
    """Where the forecasts come from."""
    errs_with_others: bool = False
    """Whether their errors are shared with other arms: one guess of the replies' length, or a run that ends early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEstimate:
    """The estimate of one arm of one experiment, or of a judge of it."""

    nodeid: str
    arm: str
    stored: int = 0
    cached: int = 0
    blocked: int = 0
    """Number of the cached replies that a guard blocks."""
    to_send: int
    """Replies that need at least one request."""
    amounts: Amounts
    pending: str = ""
    """What is done with the arm before it can answer, such as "would be trained first"; empty for one that is ready."""
