"""Metrics of usage: time, tokens and cost. Lower is better; an unknown value is not 0."""

from __future__ import annotations

from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.records import Reply, Sample

_NO_TOKENS = NotApplicable("the backend reports no token counts")


@metric(direction="lower", kind="positive", version="1")
def latency_s(reply: Reply, sample: Sample) -> float | NotApplicable:
    """Seconds from the request to the whole reply, as reported by the backend or measured."""
    return NotApplicable("the reply has no latency") if reply.latency_s is None else reply.latency_s


@metric(direction="lower", kind="positive", version="1")
def first_token_s(reply: Reply, sample: Sample) -> float | NotApplicable:
    """Seconds from the request to the first token, if the backend streams."""
    return NotApplicable("the reply was not streamed") if reply.first_token_s is None else reply.first_token_s


@metric(direction="lower", kind="positive", version="1")
def cost_usd(reply: Reply, sample: Sample) -> float | NotApplicable:
    """Cost of the reply in US dollars, if the price is known."""
    return NotApplicable("the price is unknown") if reply.cost_usd is None else reply.cost_usd


@metric(direction="lower", kind="positive", version="1")
def input_tokens(reply: Reply, sample: Sample) -> int | NotApplicable:
    """Tokens that the model read, if the backend counts them."""
    return _NO_TOKENS if reply.input_tokens is None else reply.input_tokens


@metric(direction="lower", kind="positive", version="1")
def output_tokens(reply: Reply, sample: Sample) -> int | NotApplicable:
    """Tokens that the model wrote, if the backend counts them."""
    return _NO_TOKENS if reply.output_tokens is None else reply.output_tokens


@metric(direction="lower", kind="positive", version="1")
def total_tokens(reply: Reply, sample: Sample) -> int | NotApplicable:
    """Tokens that the model read and wrote, if the backend counts both."""
    if reply.input_tokens is None or reply.output_tokens is None:
        return _NO_TOKENS
    return reply.input_tokens + reply.output_tokens
