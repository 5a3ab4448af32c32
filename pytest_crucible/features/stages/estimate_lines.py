"""The lines of an estimate: tokens and cost of each arm and of the whole run, and whether the budgets allow them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pytest_crucible.features.stages.forecasts import ArmEstimate, Forecast
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.stats.number_format import dollars, quantity, seconds, three_digits

HEADS = ("", "replies", "stored", "cached", "requests", "tokens", "cost", "time")


def estimate_lines(
    estimates: Sequence[ArmEstimate],
    total: Mapping[str, Forecast | None],
    budgets: Sequence[tuple[str, str, Sequence[str]]],
) -> Iterator[str]:
    """Yield the lines of an estimate.

    `budgets` has (nodeid, or empty for the run; text; units in which the budget may not be enough).
    """
    yield "estimate, with intervals of 90 %: nothing was sent"
    for nodeid in dict.fromkeys(estimate.nodeid for estimate in estimates):
        of_experiment = [estimate for estimate in estimates if estimate.nodeid == nodeid]
        yield nodeid
        yield from _align([_row(estimate) for estimate in of_experiment])
        yield from (f"  {estimate.arm}: {estimate.amounts.basis}" for estimate in of_experiment)
        for estimate in of_experiment:
            if estimate.blocked:
                yield f"  {estimate.arm}: {quantity(estimate.blocked, 'reply')} blocked by a guard, without a request"
        for pending in dict.fromkeys(estimate.pending for estimate in of_experiment if estimate.pending):
            yield f"  {', '.join(each.arm for each in of_experiment if each.pending == pending)}: {pending}"
    sums = (
        f"{head} {forecast_text(total[unit], FORMATS[unit])}" for head, unit in zip(HEADS[4:], FORMATS, strict=True)
    )
    yield f"all      {', '.join(sums)}"
    yield from (_budget_line(*budget) for budget in budgets)


def _row(estimate: ArmEstimate) -> list[str]:
    amounts = estimate.amounts
    counts = (estimate.to_send + estimate.stored + estimate.cached, estimate.stored, estimate.cached - estimate.blocked)
    return [
        f"  {estimate.arm}",
        *(f"{count:,}" for count in counts),
        *(forecast_text(getattr(amounts, unit), form) for unit, form in FORMATS.items()),
    ]


def _align(rows: list[list[str]]) -> list[str]:
    return aligned_lines([HEADS, *rows], right=(1, 2, 3))


def forecast_text(forecast: Forecast | None, form: Callable[[float], str]) -> str:
    """Return an amount with its interval; `unknown` for None."""
    if forecast is None:
        return "unknown"
    if forecast.low == forecast.high:
        return form(forecast.value)
    return f"{form(forecast.value)} [{form(forecast.low)}, {form(forecast.high)}]"


def _count_text(value: float) -> str:
    """Return a number of requests or tokens with three digits.

    >>> _count_text(164.0), _count_text(52_345.0), _count_text(1_234_567.0)
    ('164', '52.3k', '1.23M')
    """
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (unit == "M" and value >= size):
            return f"{three_digits(value / size)}{unit}"
    return f"{value:,.0f}"


FORMATS: Mapping[str, Callable[[float], str]] = {
    "requests": _count_text,
    "tokens": _count_text,
    "usd": dollars,
    "seconds": seconds,
}


def _budget_line(place: str, text: str, over: Sequence[str]) -> str:
    where = f"{place}: " if place else ""
    if not over:
        return f"budget   {where}{text}: enough"
    return f"budget   {where}{text}: may be too little ({', '.join(over)})"
