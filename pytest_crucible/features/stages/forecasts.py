"""Forecasts of a run's tokens and cost, with intervals, in total and for each arm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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


# The 95 % quantile of the normal distribution.
_QUANTILE = 1.6448536269514722
# English has about four characters a token; other texts have three to five.
CHARACTERS_A_TOKEN = (5.0, 4.0, 3.0)


def predict_total(amounts: Sequence[float], replies: int) -> Forecast | None:
    """Return the forecast of the sum of `replies` further amounts, drawn as the earlier ones; None from fewer than two.

    The interval is mean times m, plus or minus z s sqrt(m + m^2 / n): the further amounts vary, and so does the mean of n
    earlier ones (Hahn & Meeker 1991, Statistical Intervals, 4.7).

    >>> predict_total([10.0, 10.0, 10.0], 4)
    Forecast(value=40.0, low=40.0, high=40.0)
    """
    if not replies:
        return Forecast.of(0.0)
    n = len(amounts)
    if n < 2:
        return None
    mean = math.fsum(amounts) / n
    deviation = math.sqrt(math.fsum((amount - mean) ** 2 for amount in amounts) / (n - 1))
    reach = _QUANTILE * deviation * math.sqrt(replies + replies**2 / n)
    return Forecast(mean * replies, max(mean * replies - reach, 0.0), mean * replies + reach)


def prompt_tokens(characters: int) -> Forecast:
    """Forecast the tokens of texts from their characters."""
    low, value, high = (characters / per_token for per_token in CHARACTERS_A_TOKEN)
    return Forecast(value, low, high)


def reply_tokens(most: float | None) -> Forecast | None:
    """Forecast the tokens of a reply from `max_tokens` alone; None without a limit."""
    return None if most is None else Forecast(most / 2, 0.0, most)


def _find_all(parts: Iterable[Forecast | None]) -> list[Forecast] | None:
    listed = list(parts)
    forecasts = [part for part in listed if part is not None]
    return forecasts if len(forecasts) == len(listed) else None


def add_forecasts(parts: Iterable[Forecast | None]) -> Forecast | None:
    """Return the sum of independent forecasts; None if one is unknown.

    >>> add_forecasts([Forecast(10.0, 7.0, 13.0), Forecast(20.0, 16.0, 24.0)])
    Forecast(value=30.0, low=25.0, high=35.0)
    """
    forecasts = _find_all(parts)
    if forecasts is None:
        return None
    value = math.fsum(part.value for part in forecasts)
    below = math.sqrt(math.fsum((part.value - part.low) ** 2 for part in forecasts))
    above = math.sqrt(math.fsum((part.high - part.value) ** 2 for part in forecasts))
    return Forecast(value, value - below, value + above)


def add_together(parts: Iterable[Forecast | None]) -> Forecast | None:
    """Return the sum of forecasts that err together, such as tokens by one guess of their length; None if one is unknown.

    >>> add_together([Forecast(10.0, 7.0, 13.0), Forecast(20.0, 16.0, 24.0)])
    Forecast(value=30.0, low=23.0, high=37.0)
    """
    forecasts = _find_all(parts)
    if forecasts is None:
        return None
    value, low, high = (math.fsum(getattr(part, end) for part in forecasts) for end in ("value", "low", "high"))
    return Forecast(value, low, high)


def scale(forecast: Forecast | None, factor: float | None) -> Forecast | None:
    """Return a multiple of a forecast; None if either is unknown. Zero times an unknown forecast is zero: a model may be free."""
    if factor == 0:
        return Forecast.of(0.0)
    if forecast is None or factor is None:
        return None
    return Forecast(forecast.value * factor, forecast.low * factor, forecast.high * factor)
