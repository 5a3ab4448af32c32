"""The texts of a page: all of them where there is room, else the worst, the slowest and a draw, and it says so."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import random

import pytest

from pytest_crucible.records import ArmReply, Exchange, MetricFacts, SampleColumns
from pytest_crucible.report.html import PART, ROOM, archive_samples
from pytest_crucible.report.model import Chapter

SAMPLES = 5 * PART


def exchange(position: int) -> Exchange:
    text = random.Random(position).randbytes(200).hex()  # does not get much smaller
    reply = ArmReply(
        repeat=0, state="answered", text=f"{position} {text}", detail="", latency_s=None, output_tokens=None
    )
    return Exchange(position=position, input=f"asked {position}", expected=None, replies=((reply,), (reply,)))


@pytest.fixture
def chapter(analysis):
    """The last sample is the worst, the first but nine is the slowest."""
    ours = [1.0] * (SAMPLES - 1) + [0.0]
    took = [1.0] * SAMPLES
    took[9] = 60.0
    columns = SampleColumns(
        ids=tuple(f"s{k}" for k in range(SAMPLES)), groups=(None,) * SAMPLES, latency_s=(took, took),
        scores={"exact": (ours, [1.0] * SAMPLES)}, states=(("answered",) * SAMPLES,) * 2,
    )  # fmt: skip
    return Chapter(
        analysis=analysis(), metric="exact", judged=("exact",), columns=columns, clusters=None,
        facts={"exact": MetricFacts(name="exact", kind="binary")},
        read=lambda positions: [exchange(position) for position in positions],
    )  # fmt: skip


def unpacked(letters: str):
    return json.loads(gzip.decompress(base64.b64decode(letters)))


def texts(archive) -> list[str]:
    return [question for part in archive.parts for question, _, _ in unpacked(part)]


def test_a_small_page_has_all_texts(chapter):
    whole = archive_samples(chapter, room=ROOM, seed=7)

    assert (whole.note, unpacked(whole.columns)["kept"]) == ("", None)
    assert texts(whole) == [f"asked {k}" for k in range(SAMPLES)]


def test_a_full_page_names_the_texts_that_it_has(chapter):
    room = 2 * len(archive_samples(chapter, room=ROOM, seed=7).parts[0]) + 1000
    some = archive_samples(chapter, room=room, seed=7)

    kept = unpacked(some.columns)["kept"]
    assert texts(some) == [f"asked {k}" for k in kept]
    assert sum(map(len, some.parts)) <= room
    assert len(kept) == len(set(kept)) == 2 * PART
    assert kept[:2] == [SAMPLES - 1, kept[1]]
    assert 9 in kept[:3]
    assert len(unpacked(some.columns)["ids"]) == SAMPLES
    assert some.note == (
        "400 of 1,000 samples have their prompts and replies in this page: the worst, the slowest, a draw with seed 7. "
        "Of the others there are the numbers."
    )


def test_the_seed_decides_the_drawn_samples(chapter):
    drawn, same, other = (unpacked(archive_samples(chapter, room=1, seed=seed).columns)["kept"] for seed in (1, 1, 2))

    assert drawn == same != other
    assert len(drawn) == PART  # a part at least


def test_the_worst_samples_follow_the_direction(chapter):
    lower = {"exact": MetricFacts(name="exact", direction="lower")}
    turned = dataclasses.replace(chapter, facts=lower)

    assert unpacked(archive_samples(turned, room=1, seed=7).columns)["kept"][0] == 0


def test_unknown_values_give_no_order(chapter):
    unknown = dataclasses.replace(chapter.columns, latency_s=([float("nan")] * SAMPLES,) * 2)

    reply = archive_samples(dataclasses.replace(chapter, columns=unknown, metric=None), room=1, seed=7).note
    assert "in this page: a draw with seed 7" in reply
