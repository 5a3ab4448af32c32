"""Metrics of usage: tokens, cost and seconds of a reply."""

from __future__ import annotations

import pytest

from pytest_crucible import Reply, Sample
from pytest_crucible.metrics import (
    NotApplicable,
    cost_usd,
    first_token_s,
    input_tokens,
    latency_s,
    output_tokens,
    total_tokens,
)

SAMPLE = Sample(id="a", input="2 + 2")
UNCOUNTED = "the backend reports no token counts"


@pytest.mark.parametrize(
    ("metric", "fields", "value", "reason"),
    [
        (latency_s, {"latency_s": 0.0}, 0.0, "the reply has no latency"),
        (first_token_s, {"first_token_s": 0.25}, 0.25, "the reply was not streamed"),
        (cost_usd, {"cost_usd": 0.0}, 0.0, "the price is unknown"),
        (input_tokens, {"input_tokens": 7}, 7, UNCOUNTED),
        (output_tokens, {"output_tokens": 0}, 0, UNCOUNTED),
        (total_tokens, {"input_tokens": 7, "output_tokens": 0}, 7, UNCOUNTED),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_usage_is_read_from_the_reply_or_does_not_apply(metric, fields, value, reason):
    assert metric(Reply(text="", **fields), SAMPLE) == value
    assert metric(Reply(text=""), SAMPLE) == NotApplicable(reason)
    assert (metric.facts.direction, metric.facts.kind, metric.facts.low) == ("lower", "positive", 0.0)


@pytest.mark.parametrize("half", [{"input_tokens": 7}, {"output_tokens": 7}])
def test_total_tokens_need_both_counts(half):
    assert total_tokens(Reply(text="", **half), SAMPLE) == NotApplicable(UNCOUNTED)
