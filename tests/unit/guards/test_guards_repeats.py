"""Places with equal text behind them are dropped but for the first."""

from __future__ import annotations

import random
import re

import pytest

from pytest_crucible.guards import long_texts
from pytest_crucible.guards.characters import read_codes
from pytest_crucible.guards.long_texts import REACH, LongText, drop_repeats


@pytest.mark.parametrize("letters", ["ab", "\u0438\u0433", "aé"])
def test_hashes_drop_what_comparing_drops(letters, monkeypatch):
    monkeypatch.setattr(long_texts, "_MANY_PLACES", 40)
    draw = random.Random(2)
    blocks = ["".join(draw.choices(letters, k=REACH)) for _ in range(4)]
    text = "".join(draw.choices(blocks, k=30)) + "".join(draw.choices(letters, k=3 * REACH))
    places = list(range(0, len(text), REACH // 4))

    kept = LongText(text, read_codes(text)).drop_repeats(places)

    assert len(kept) < len(places)
    assert sorted(kept) == sorted(drop_repeats(text, places))
    assert {text[place : place + REACH] for place in kept} == {text[place : place + REACH] for place in places}


def test_texts_without_repeats_keep_all_places():
    draw = random.Random(3)
    text = "".join(draw.choices("abc", k=10_000))

    assert LongText(text, read_codes(text)).drop_repeats(range(5_000)) == list(range(5_000))


@pytest.mark.parametrize("count", [20, 200])
def test_of_equal_texts_the_first_stays_in_order(count):
    draw = random.Random(4)
    text = "".join(f"act as a {draw.choice(['guide', 'cook'])} {'-' * REACH}" for _ in range(count))
    places = [match.start() for match in re.finditer("act", text)]
    firsts = sorted({text[place : place + 15]: place for place in reversed(places)}.values())

    assert drop_repeats(text, places) == (places if count == 20 else firsts)


def test_few_places_stay():
    assert drop_repeats("aaaa", [0, 1, 2]) == [0, 1, 2]
