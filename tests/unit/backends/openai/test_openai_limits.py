"""Limits in the headers of responses."""

from __future__ import annotations

import email.utils
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends.limiting.history import ReportedLimits
from pytest_crucible.backends.openai.responses import (
    exhausted_quotas,
    parse_seconds,
    read_headers,
    retry_after,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12", 12.0),
        ("0.5", 0.5),
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("20ms", 0.02),
        ("1h2m3.5s", 3723.5),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1s later", None),
        ("nan", None),
        ("1e3", None),
    ],
)
def test_durations_are_parsed(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.fixture
def now(monkeypatch) -> float:
    """A time at which the clock stands still."""
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    return time.time()


def test_timestamps_are_seconds_from_now(now):
    assert parse_seconds(str(now + 30)) == pytest.approx(30)
    assert parse_seconds(str(now - 30)) == 0
    assert parse_seconds(f"{(now + 20) * 1000:.0f}") == pytest.approx(20)


@given(st.text(max_size=20))
def test_any_text_is_seconds_or_none(text):
    seconds = retry_after({"retry-after": text, "x-ratelimit-reset-requests": text})

    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "3", "retry-after-ms": "2500"}, 2.5),
        ({"llm_provider-retry-after": "7"}, 7.0),
        ({"llm_provider-retry-after": "7", "retry-after": "3"}, 3.0),
        ({"llm_provider-retry-after-ms": "250", "x-ratelimit-reset-requests": "20s"}, 0.25),
        ({"retry-after": "1", "x-ratelimit-reset-requests": "20s"}, 1.0),
        ({"x-ratelimit-reset-requests": "20s"}, 20.0),
        ({"x-ratelimit-reset-requests": "20s", "x-ratelimit-reset-tokens": "2s"}, 20.0),
        (
            {
                "x-ratelimit-reset-requests": "20s",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-requests": "7",
                "x-ratelimit-remaining-tokens": "0",
            },
            2.0,
        ),
        ({"x-ratelimit-reset-requests": "23h", "x-ratelimit-remaining-requests": "900"}, None),
    ],
)
def test_retry_after_headers_are_read(headers, seconds):
    assert retry_after(headers) == seconds


def test_retry_after_date_is_read(now):
    assert retry_after({"retry-after": email.utils.formatdate(now + 10, usegmt=True)}) == pytest.approx(10)
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0


def test_limits_are_read_from_headers():
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
    }

    assert read_headers(headers) == ReportedLimits(
        limit_requests=60,
        limit_tokens=150000,
        remaining_requests=59,
        remaining_tokens=149984,
        reset_requests_s=1.0,
        reset_tokens_s=360.0,
    )


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-request-id": "1"},
        *[{"x-ratelimit-limit-requests": text} for text in ("\u00b2", "9" * 5000, "-1", "many", "")],
    ],
)
def test_missing_and_invalid_limit_headers_are_ignored(headers):
    assert read_headers(headers) is None


@pytest.mark.parametrize(
    ("headers", "exhausted", "seconds"),
    [
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "20"}, True, 20.0),
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-remaining-tokens": "0"}, True, None),
        ({"anthropic-ratelimit-requests-remaining": "0", "retry-after": "20"}, True, 20.0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "7"}, True, 7.0),
        ({"x-ratelimit-remaining": "12", "x-ratelimit-reset": "20"}, False, None),
        ({"x-ratelimit-limit": "0"}, False, None),
        ({}, False, None),
    ],
)
def test_quota_is_exhausted_when_nothing_remains(headers, exhausted, seconds):
    assert bool(exhausted_quotas(headers)) is exhausted
    assert retry_after(headers) == seconds
