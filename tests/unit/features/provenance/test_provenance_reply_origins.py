"""Replies are counted by the run that requested them, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from experiment_builders import store_run

from pytest_crucible.features.provenance.reply_nodes import ReplyOrigin, judge_origins, reply_origins
from pytest_crucible.records import Sample
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore

SAMPLES = [Sample(id=f"q{k}", input="?") for k in range(8)]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgresql")
    with closing(RunStore(where)) as opened:
        yield opened


def add_calls(store: RunStore, arm: int, *calls: tuple[int, int, str, str | None, bool | None]) -> None:
    """Store calls of an arm: position, number, member, the run that paid, and whether it was cached."""
    rows: list[dict[str, Any]] = [
        {
            **dict.fromkeys(schema.calls.names),
            "epoch": 0,
            "request": 1,
            "is_scored": False,
            "arm": arm,
            "position": position,
            "call": call,
            "member": member,
            "paid_by": paid_by,
            "cached": cached,
        }
        for position, call, member, paid_by, cached in calls
    ]
    store.insert(schema.calls, rows)


def first_arm(store: RunStore) -> int:
    return int(store.scalar("SELECT MIN(id) FROM arms"))


def test_a_reply_belongs_to_the_run_that_paid_for_its_calls(store: RunStore):
    store_run(store, "r1", SAMPLES, v2=[True] * 7 + ["lost"])
    arm = first_arm(store)
    add_calls(
        store,
        arm,
        *((position, 1, "", None, False) for position in (0, 1)),
        # One new call among several: the reply is new.
        *((2, 1, "", "r0", True), (2, 2, "", None, False)),
        *((3, 1, "", "r0", True), (4, 1, "", "r0", True)),
        # The run that paid is not known.
        (5, 1, "", "", True),
        # A judge's call is about the reply of sample 6, which has no call of its own.
        *((6, 1, "judge:gpt", None, False), (6, 2, "judge:gpt", "r0", True)),
    )

    assert reply_origins(store, "r1", [arm]) == [
        ReplyOrigin(replies=3, run="r1", is_own=True),
        ReplyOrigin(replies=1, run=None, is_own=True),
        ReplyOrigin(replies=2, run="r0", is_own=False, is_cached=True),
        ReplyOrigin(replies=1, run="", is_own=False, is_cached=True),
    ]
    assert judge_origins(store, "r1", [arm]) == {
        "judge:gpt": [
            ReplyOrigin(replies=1, run="r1", is_own=True),
            ReplyOrigin(replies=1, run="r0", is_own=False, is_cached=True),
        ]
    }


def test_copies_name_the_run_that_was_copied(store: RunStore):
    store_run(store, "r1", SAMPLES, v2=[True] * 8)
    store_run(store, "r2", SAMPLES, v2=[True] * 8, reused={"v2": "r1"})
    copy = int(store.scalar("SELECT MAX(id) FROM arms"))

    assert reply_origins(store, "r2", [copy]) == [
        ReplyOrigin(replies=8, run=None, is_own=False, copied_from="r1"),
    ]


def test_the_arms_of_several_variants_are_counted_together(store: RunStore):
    store_run(store, "r1", SAMPLES, v2=[True] * 8)
    store_run(store, "r2", SAMPLES, v2=[True] * 8)
    both = list(store.scalars("SELECT id FROM arms ORDER BY id"))

    assert reply_origins(store, "r1", both) == [ReplyOrigin(replies=16, run=None, is_own=True)]
