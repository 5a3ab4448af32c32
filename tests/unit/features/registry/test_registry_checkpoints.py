"""The runs that judge the checkpoints of a watched training."""

from __future__ import annotations

from experiment_builders import store_run
from registry_builders import SAMPLES, change_run

from pytest_crucible.features.registry.checkpoints import judging_run, why_not_judged
from pytest_crucible.store.history import add_tag
from pytest_crucible.store.runs import RunStore

TAG = "watch/claims/1/c0ffee"


def store_watched_run(store: RunStore, run: str, *lost: int, status: str = "finished") -> None:
    """Store a run of the checkpoint that lost the replies to these samples."""
    values = ["lost" if position in lost else True for position in range(len(SAMPLES))]
    store_run(store, run, SAMPLES, v1=values)
    change_run(store, run, status=status)
    add_tag(store, run, TAG, at="")


def judged_by(store: RunStore) -> str | None:
    run = judging_run(store, TAG)
    return None if run is None else run.id


def test_a_finished_run_that_lost_nothing_judges(store):
    assert why_not_judged(store, TAG, "claims@1") == "the run of claims@1 broke: it is judged again at the next look"
    store_watched_run(store, "broken", status="interrupted")
    assert judged_by(store) is None
    store_watched_run(store, "whole")
    assert judged_by(store) == "whole"


def test_lost_replies_are_awaited_unless_two_runs_in_turn_lost_the_same(store):
    store_watched_run(store, "first", 1, 2)
    assert judged_by(store) is None
    assert why_not_judged(store, TAG, "claims@1") == (
        "run first of claims@1 lost 2 replies: it is judged again at the next look"
    )
    store_watched_run(store, "second", 2)
    assert judged_by(store) is None
    store_watched_run(store, "third", 1, 2)
    assert judged_by(store) is None
    store_watched_run(store, "fourth", 1, 2)
    assert judged_by(store) == "fourth"
