"""Refusals by chance, in any order, are no cluster; a limit refuses in clusters."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from pytest_crucible.backends.limiting.history import RefusalHistory


@dataclass
class Sent:
    at: float
    refused: bool = False


def first_cluster(refusals: list[bool]) -> tuple[int, float] | None:
    """The number of requests until a cluster is found, and the share of refusals before it."""
    history = RefusalHistory()
    for number, is_refused in enumerate(refusals):
        sent = Sent(float(number))
        history.add(sent)
        if is_refused and (share := history.find_cluster(float(number), sent)) is not None:
            return number + 1, share
    return None


@pytest.mark.parametrize("share", [0.02, 0.05, 0.15, 0.3, 0.5])
def test_false_clusters_are_rare_in_300_requests(share):
    draws = random.Random(f"{share}")

    clusters = sum(first_cluster([draws.random() < share for _ in range(300)]) is not None for _ in range(100))

    assert clusters <= 5


@pytest.mark.parametrize(("accepted", "needed"), [(0, 10), (50, 4), (200, 3)])
def test_few_consecutive_refusals_are_a_cluster(accepted, needed):
    assert first_cluster([False] * accepted + [True] * 20) == (accepted + needed, 0.0)


def test_share_before_a_cluster_is_the_chance_share():
    by_chance = [number % 10 == 0 for number in range(100)]

    cluster = first_cluster(by_chance + [True] * 20)

    assert cluster is not None
    assert cluster[0] <= 110
    assert cluster[1] == pytest.approx(0.1, abs=0.03)


def test_refusals_before_a_bursts_answers_are_not_a_cluster():
    """Servers refuse at once: of 64 requests sent together, ten refusals come before the first answer."""
    history, sent = RefusalHistory(), [Sent(0.0) for _ in range(64)]
    for request in sent:
        history.add(request)

    shares = [history.find_cluster(0.003, request) for request in random.Random(0).sample(sent, 10)]

    assert shares == [None] * 10


def test_refusals_of_earlier_requests_are_ignored():
    history = RefusalHistory()
    sent = [Sent(0.0) for _ in range(40)]
    for request in sent:
        history.add(request)

    shares = [history.find_cluster(1.0, request) for request in sent]

    assert len([share for share in shares if share is not None]) == 1


def test_chance_explains_fewer_refusals_at_lower_shares():
    history = RefusalHistory()
    for number in range(200):
        sent = Sent(float(number))
        history.add(sent)
        if number % 7 == 0:
            history.find_cluster(float(number), sent)

    assert history.explains(6)
    assert not history.explains(9)


def test_first_refusals_can_be_chance():
    assert RefusalHistory().explains(1)
