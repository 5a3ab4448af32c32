"""Metrics of what an answer took, rather than of what it says. Lower is better."""

from __future__ import annotations

from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.records import Reply, Sample


@metric(direction="lower", kind="positive", version="1")
def latency_s(reply: Reply, sample: Sample) -> float | NotApplicable:
    """Seconds from the request to the whole reply, as the backend says or as it was measured."""
    return NotApplicable("the reply has no latency") if reply.latency_s is None else reply.latency_s


@metric(direction="lower", kind="positive", version="1")
def output_tokens(reply: Reply, sample: Sample) -> int | NotApplicable:
    """Tokens that the model wrote, where the backend counts them."""
    return NotApplicable("the backend counts no tokens") if reply.output_tokens is None else reply.output_tokens
