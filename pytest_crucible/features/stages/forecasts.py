"""Forecasts of tokens, cost and time of an arm, or a judge, from its latest earlier run, or else from its first requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.number_format import quantity

if TYPE_CHECKING:
    from pytest_crucible.store.past_usage import PastUsage, ReplyUsage


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


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """The first request of a reply."""

    characters: int
    max_tokens: float | None
    input_usd: float | None
    """The price of a token of the prompt; None if it is not known."""
    output_usd: float | None
    cached_usd: float | None = None
    """The price of a token of the prompt that the service has cached; None if it has none of its own."""
    text: str = field(default="", repr=False)
    """The prompt, where cached tokens have a price of their own."""


@dataclass(frozen=True, slots=True)
class UnsentReply:
    """One reply that is not stored: how often the test called the model, and the requests that would have been sent."""

    calls: int
    requests: tuple[PlannedRequest, ...]
    is_blocked: bool = False
    """Whether a guard blocked a request or a reply."""


def estimate_arm(
    nodeid: str,
    arm: str,
    *,
    stored: int,
    replies: Sequence[UnsentReply],
    past: PastUsage | None,
    concurrency: int,
    pending: str = "",
) -> ArmEstimate:
    """Return the estimate of an arm.

    `replies` are the replies that are not stored yet. Without a `past` run only the first request of each is known.
    """
    sent = [reply for reply in replies if reply.requests]
    return ArmEstimate(
        nodeid=nodeid,
        arm=arm,
        stored=stored,
        cached=sum(reply.calls > 0 and not reply.requests for reply in replies),
        blocked=sum(reply.is_blocked and not reply.requests for reply in replies),
        to_send=len(sent),
        amounts=_arm_amounts([request for reply in sent for request in reply.requests], len(sent), past, concurrency),
        pending=pending,
    )


def estimate_as_before(nodeid: str, arm: str, replies: int, past: PastUsage | None, concurrency: int) -> ArmEstimate:
    """Estimate a number of replies of an arm or a judge from its latest earlier run alone."""
    is_known = past is not None and len(past.replies) > 1
    amounts = (
        _from_past(past, replies, (None, None), concurrency) if past and is_known else Amounts(basis="no earlier run")
    )
    return ArmEstimate(nodeid=nodeid, arm=arm, to_send=replies, amounts=amounts)


def estimate_judge(estimate: ArmEstimate, *, a_reply: int, before: int, is_new: bool) -> ArmEstimate:
    """Return the estimate of a judge whose metrics send it `a_reply` requests for each reply, and sent `before` in that run.

    Without an earlier run (`is_new`) the number of requests is known, and no more. 0 requests are an unknown number.
    """
    amounts = estimate.amounts
    if is_new and a_reply:
        amounts = replace(amounts, requests=Forecast.of(float(a_reply * estimate.to_send)))
    elif before and a_reply not in (0, before):
        amounts = _change(amounts, lambda forecast: scale(forecast, a_reply / before))
        amounts = replace(amounts, basis=f"{amounts.basis}, {a_reply} requests a reply instead of {before}")
    return replace(estimate, amounts=amounts)


def _arm_amounts(requests: Sequence[PlannedRequest], replies: int, past: PastUsage | None, concurrency: int) -> Amounts:
    if not replies:
        nothing = Forecast.of(0.0)
        return Amounts(requests=nothing, tokens=nothing, usd=nothing, seconds=nothing, basis="nothing to send")
    if past is not None and len(past.replies) > 1:
        prices = {(request.input_usd, request.output_usd) for request in requests}
        return _from_past(past, replies, prices.pop() if len(prices) == 1 else (None, None), concurrency)
    return _from_requests(requests)


def _from_past(past: PastUsage, replies: int, price: tuple[float | None, float | None], concurrency: int) -> Amounts:
    earlier = past.replies
    seconds = predict_total([reply.seconds for reply in earlier], replies)
    return Amounts(
        requests=predict_total([float(reply.requests) for reply in earlier], replies),
        tokens=_predict_known((_token_count(reply) for reply in earlier), replies),
        usd=_predict_known((_cost(reply, *price) for reply in earlier), replies),
        seconds=scale(seconds, 1 / max(min(concurrency, replies), 1)),
        basis=f"as {past.arm} in run {past.run} of {past.started[:10]} ({quantity(len(earlier), 'reply')})",
    )


def _from_requests(requests: Sequence[PlannedRequest]) -> Amounts:
    """Return the amounts of first requests, whose replies are limited by max_tokens only."""
    read = [prompt_tokens(request.characters) for request in requests]
    written = [reply_tokens(request.max_tokens) for request in requests]
    shares = shared_beginnings([request.text for request in requests])
    costs = [
        add_together([_prompt_cost(prompt, request, share), scale(reply, request.output_usd)])
        for prompt, reply, request, share in zip(read, written, requests, shares, strict=True)
    ]
    cached = ", and beginnings that prompts share may be cached, which the lower end counts" if any(shares) else ""
    return Amounts(
        requests=Forecast.of(float(len(requests))),
        tokens=add_together([*read, *written]),
        usd=add_together(costs),
        basis=f"the prompts, and max_tokens a reply; only the first request of each reply is known{cached}",
        errs_with_others=True,
    )


def _prompt_cost(tokens: Forecast, request: PlannedRequest, share: float) -> Forecast | None:
    """Return the cost of a prompt; at its lower end a cached share of it costs less."""
    cost = scale(tokens, request.input_usd)
    if cost is None or request.input_usd is None or request.cached_usd is None:
        return cost
    return replace(cost, low=tokens.low * ((1 - share) * request.input_usd + share * request.cached_usd))


def shared_beginnings(texts: Sequence[str]) -> list[float]:
    """Return the share of each text that begins another one before it, so that a service may have it cached.

    >>> shared_beginnings(["Is it so? A", "Is it so? B", ""])
    [0.0, 0.9090909090909091, 0.0]
    """
    # In alphabetic order the longest beginning shared with any earlier text is that shared with the one before.
    order = sorted(range(len(texts)), key=texts.__getitem__)
    shares = [0.0] * len(texts)
    for before, place in pairwise(order):
        if texts[place]:
            pairs = zip(texts[before], texts[place], strict=False)
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            shares[place] = shared / len(texts[place])
    return shares


def _predict_known(amounts: Iterator[float | None], replies: int) -> Forecast | None:
    """Forecast a sum; None if an earlier amount is not known."""
    listed = list(amounts)
    amounts_before = [amount for amount in listed if amount is not None]
    return predict_total(amounts_before, replies) if len(amounts_before) == len(listed) else None


def _token_count(reply: ReplyUsage) -> float | None:
    if reply.input_tokens is None or reply.output_tokens is None:
        return None
    return float(reply.input_tokens + reply.output_tokens)


def _cost(reply: ReplyUsage, input_usd: float | None, output_usd: float | None) -> float | None:
    """Return dollars by today's price, or else the recorded ones."""
    if input_usd is None or output_usd is None:
        return reply.usd
    if input_usd == output_usd == 0:
        return 0.0
    if reply.input_tokens is None or reply.output_tokens is None:
        return None
    return reply.input_tokens * input_usd + reply.output_tokens * output_usd


def sum_amounts(estimates: Sequence[ArmEstimate]) -> dict[str, Forecast | None]:
    """Return the sums over arms and experiments, which run one after the other; None if a part is not known."""
    amounts = [estimate.amounts for estimate in estimates]
    return {unit: _sum_unit(amounts, unit) for unit in UNITS}


def _sum_unit(amounts: Sequence[Amounts], unit: str) -> Forecast | None:
    together = add_together(getattr(each, unit) for each in amounts if each.errs_with_others)
    return add_forecasts([together, *(getattr(each, unit) for each in amounts if not each.errs_with_others)])


def beyond(estimates: Sequence[ArmEstimate], place: str, limits: Mapping[str, float]) -> list[str]:
    """Return the units in which an experiment, or the run, may spend more than a budget allows.

    What is not known may be more.
    """
    total = sum_amounts([estimate for estimate in estimates if place in ("", estimate.nodeid)])
    return [unit for unit, most in limits.items() if (forecast := total[unit]) is None or forecast.high > most]


def estimate_further(
    nodeid: str, family: str, first_trials: Sequence[ArmEstimate], unstored: Sequence[Amounts], count: int
) -> ArmEstimate:
    """Estimate the further trials of a search, each as one of the known ones.

    `unstored` are the amounts of all replies of each known trial, as if none were stored. Where some of them are stored, the
    search has been run before, and so may the further trials: intervals then begin at 0.
    """
    has_run = any(estimate.stored or estimate.cached for estimate in first_trials)
    forecasts = {unit: _of_further([getattr(amounts, unit) for amounts in unstored], count) for unit in UNITS}
    or_nothing = ", or nothing where its replies are stored" if has_run else ""
    basis = Amounts(basis=f"each as one of the first {len(first_trials)}{or_nothing}", errs_with_others=True)
    replies = max(estimate.to_send + estimate.stored + estimate.cached for estimate in first_trials)
    return ArmEstimate(
        nodeid=nodeid,
        arm=f"{family}: {quantity(count, 'further trial')}",
        to_send=replies * count,
        amounts=_change(_with(basis, forecasts), lambda forecast: _from(forecast, 0.0 if has_run else 1.0)),
        pending=next((estimate.pending for estimate in first_trials if estimate.pending), ""),
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
