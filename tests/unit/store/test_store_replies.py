"""Replies as text: what comes back is what was kept, or nothing is kept."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from strategies import record

from pytest_crucible.records import Reply
from pytest_crucible.store.replies import decode_reply, encode_reply


@given(record(Reply))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_every_reply_comes_back_as_it_was(reply):
    text = encode_reply(reply)

    assert text is not None
    assert text.isascii()
    assert decode_reply(text) == reply


def test_only_what_a_reply_says_is_written():
    assert encode_reply(Reply(text="")) == '{"text":""}'


def test_what_would_come_back_as_another_is_not_written():
    assert encode_reply(Reply(text="", latency_s=math.nan)) is None
    assert encode_reply(Reply(text="", value=(1, 2))) is None


def test_fields_of_another_version_do_not_matter():
    assert decode_reply('{"text":"4","mood":"good"}') == Reply(text="4")
