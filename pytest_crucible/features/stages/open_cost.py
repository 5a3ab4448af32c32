"""Estimates of runs whose length the scores decide: further trials of a search, and experiments that may end early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.features.stages.cost import predict_total, scale
from pytest_crucible.features.stages.forecasts import UNITS, Amounts, ArmEstimate, Forecast
from pytest_crucible.stats.number_format import quantity


def estimate_further(
    nodeid: str, family: str, known: Sequence[ArmEstimate], unstored: Sequence[Amounts], count: int
) -> ArmEstimate:
    """Estimate the further trials of a search, each as one of the known ones.

    `unstored` are the amounts of all replies of each known trial, as if none were stored. Where some of them are stored, the
    search has been run before, and so may the further trials: intervals then begin at 0.
    """
    has_run = any(estimate.stored or estimate.cached for estimate in known)
    forecasts = {unit: _of_further([getattr(amounts, unit) for amounts in unstored], count) for unit in UNITS}
    or_nothing = ", or nothing where its replies are stored" if has_run else ""
    basis = Amounts(basis=f"each as one of the first {len(known)}{or_nothing}", errs_with_others=True)
    replies = max(estimate.to_send + estimate.stored + estimate.cached for estimate in known)
    return ArmEstimate(
        nodeid=nodeid,
        arm=f"{family}: {quantity(count, 'further trial')}",
        to_send=replies * count,
        amounts=_change(_with(basis, forecasts), lambda forecast: _from(forecast, 0.0 if has_run else 1.0)),
        pending=next((estimate.pending for estimate in known if estimate.pending), ""),
    )


def ends_early(estimate: ArmEstimate, share: float) -> ArmEstimate:
    """Return the estimate of an arm that may end after this share of its replies: its intervals begin there.

    >>> all_or_few = ArmEstimate(nodeid="t", arm="v2", to_send=40, amounts=Amounts(requests=Forecast.of(40.0), basis=""))
    >>> ends_early(all_or_few, 0.25).amounts.requests
    Forecast(value=40.0, low=10.0, high=40.0)
    """
    if share >= 1 or not estimate.to_send:
        return estimate
    stored = estimate.stored + estimate.cached
    # Stored replies may be those of the samples that come first.
    left = max(share * (estimate.to_send + stored) - stored, 0.0) / estimate.to_send
    amounts = _change(estimate.amounts, lambda forecast: _from(forecast, left))
    return replace(estimate, amounts=replace(amounts, errs_with_others=True))


def whole_amounts(estimate: ArmEstimate) -> Amounts | None:
    """Return the amounts of all replies of an arm, as if none were stored; None if all are."""
    if not estimate.to_send:
        return None
    share = (estimate.to_send + estimate.stored + estimate.cached) / estimate.to_send
    return _change(estimate.amounts, lambda forecast: scale(forecast, share))


def _change(amounts: Amounts, change: Callable[[Forecast], Forecast | None]) -> Amounts:
    """Return the amounts with each forecast that is known changed."""
    forecasts = {unit: forecast for unit in UNITS if (forecast := getattr(amounts, unit)) is not None}
    return _with(amounts, {unit: change(forecast) for unit, forecast in forecasts.items()})


def _with(amounts: Amounts, forecasts: Mapping[str, Any]) -> Amounts:
    """Return the amounts with other forecasts, by their units."""
    return replace(amounts, **forecasts)


def _from(forecast: Forecast, share: float) -> Forecast:
    return Forecast(forecast.value, forecast.low * share, forecast.high)


def _of_further(trials: Sequence[Forecast | None], count: int) -> Forecast | None:
    """Return the forecast of `count` further trials from those already forecast; None if one of these has no forecast.

    Its range holds the uncertainty of each forecast, and the differences between trials.
    """
    forecasts = [forecast for forecast in trials if forecast is not None]
    drawn = predict_total([forecast.value for forecast in forecasts], count)
    if drawn is None or len(forecasts) < len(trials):
        return None
    # An amount that is unknown for one trial, such as the length of replies, is unknown for all.
    low, high = (
        count * sum(getattr(forecast, end) - forecast.value for forecast in forecasts) / len(forecasts)
        for end in ("low", "high")
    )
    return Forecast(drawn.value, max(drawn.low + low, 0.0), drawn.high + high)
