"""Replies as text: what comes back is what was kept, or nothing is kept."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from strategies import record

from pytest_crucible.records import Reply
from pytest_crucible.store.replies import decoded, encoded


@given(record(Reply))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_every_reply_comes_back_as_it_was(reply):
    text = encoded(reply)

    assert text is not None
    assert text.isascii()
    assert decoded(text) == reply


def test_only_what_a_reply_says_is_written():
    assert encoded(Reply(text="")) == '{"text":""}'


def test_what_would_come_back_as_another_is_not_written():
    assert encoded(Reply(text="", latency_s=math.nan)) is None
    assert encoded(Reply(text="", value=(1, 2))) is None


def test_fields_of_another_version_do_not_matter():
    assert decoded('{"text":"4","mood":"good"}') == Reply(text="4")
