"""Hints for a name that is not known: the nearest name where one is near, and what else there is."""

from __future__ import annotations

import pytest

from pytest_crucible.records.errors import closest_name, suggest

NAMES = ["exact_match", "latency_s", "cost_usd"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("exact_mtach", "did you mean 'exact_match'?"),
        ("latency", "did you mean 'latency_s'?"),
        ("cost", "did you mean 'cost_usd'?"),  # a similarity of 0.67
        ("match", "did you mean 'exact_match'?"),
        ("tokens", "there are three"),
        ("usd", "there are three"),  # 0.55
        ("", "there are three"),
    ],
)
def test_a_name_is_suggested_where_it_is_near_and_only_there(name, hint):
    assert suggest(name, NAMES, otherwise="there are three") == hint


def test_the_nearest_of_several_is_suggested():
    assert suggest("v11", ["v2", "v12", "v1"]) == "did you mean 'v1'?"


def test_what_is_always_said_comes_last_and_alone_where_nothing_is_near():
    assert suggest("latency", NAMES, always="there are three") == "did you mean 'latency_s'? there are three"
    assert suggest("tokens", NAMES, always="there are three") == "there are three"
    assert suggest("tokens", NAMES) == ""


def test_another_similarity_may_be_asked_for():
    assert closest_name("usd", NAMES, cutoff=0.5) == "cost_usd"
    assert closest_name("cost", NAMES, cutoff=0.9) is None
