"""Descriptions of what a server's rate has cost."""

from __future__ import annotations

import pytest

from pytest_crucible.backends.limiting.control import Control, Limits
from pytest_crucible.backends.limiting.history import Load, describe_limit, explain_load, total_load


@pytest.mark.parametrize(
    ("limits", "refused", "cause"),
    [
        (Limits(), 0.15, "it refuses 15 % at any rate"),
        (Limits(), 0.0, ""),
        (Limits(requests_per_second=50), 0.01, "it allows about 50 requests/s"),
        (Limits(tokens_per_minute=100_000), 0.0, "it allows 100,000 tokens a minute"),
    ],
)
def test_cause_of_waiting_is_described(limits, refused, cause):
    assert describe_limit(Control(limits), refused) == cause


def test_rate_and_chance_are_described():
    control = Control(Limits(requests_per_second=50))
    control.pacing.chance.adopt(0.1)

    assert describe_limit(control, 0.12) == "it allows about 50 requests/s and refuses 10 % at any rate"


def test_short_waits_are_not_explained():
    assert explain_load(Load(100, 1, 1.0, 99.0, "it refuses 1 % at any rate")) == ""


def test_slowest_server_is_explained():
    load = total_load(
        [Load(10, 0, 1.0, 10.0, "it allows about 5 requests/s"), Load(10, 4, 20.0, 9.0, "it refuses 40 % at any rate")]
    )

    assert explain_load(load) == "waiting for the server's rate was 52 % of the time: it refuses 40 % at any rate"
