"""The calls of an arm as columns: how each reply ended."""

from __future__ import annotations

from contextlib import closing

import pytest
from experiment_builders import store_run

from pytest_crucible.records import Draws, ModelCall, Outcome, Reply, Sample, Unit
from pytest_crucible.store import outcomes
from pytest_crucible.store.calls import load_calls, load_replies
from pytest_crucible.store.history import arm_key
from pytest_crucible.store.runs import RunStore

SAMPLES = [Sample(id="a", input="Why?")]


@pytest.fixture
def store(tmp_path):
    with closing(RunStore(str(tmp_path / "runs.db"))) as opened:
        yield opened


def call(reply: Reply | None) -> ModelCall:
    return ModelCall("Why?", False, 1, None, "", reply, error="" if reply else "503")


def test_each_call_has_the_end_of_its_reply_and_one_without_a_reply_has_none(store):
    store_run(store, "r1", SAMPLES, v2=[])
    experiment = store.experiments("r1")[0][0]
    ends = [Reply(text="a"), Reply(text="b", finish="length"), Reply(text="", finish="a word of some backend"), None]
    outcome = Outcome(Unit(0, 0, 0, 0), calls=[call(reply) for reply in ends], sample=SAMPLES[0])
    with closing(store.writer()) as writer:
        writer.add(outcome, arm_key(store, experiment, 0), (), ())

    assert load_calls(store, experiment, 0, Draws()).finishes == ["stop", "length", "a word of some b", None]


def test_a_call_of_an_earlier_format_has_an_unknown_end(store):
    store_run(store, "r1", SAMPLES, v2=[])
    experiment = store.experiments("r1")[0][0]
    with closing(store.writer()) as writer:
        outcome = Outcome(Unit(0, 0, 0, 0), calls=[call(Reply(text="a"))], sample=SAMPLES[0])
        writer.add(outcome, arm_key(store, experiment, 0), (), ())
    store.execute("UPDATE calls SET finish = NULL")

    assert load_calls(store, experiment, 0, Draws()).finishes == [None]


@pytest.mark.parametrize("most", [10_000, 1])
def test_equal_texts_of_replies_are_one_object(store, monkeypatch, most):
    """A session of a million replies has their ends a million times."""
    monkeypatch.setattr(outcomes, "_MOST_SHARED", most)
    samples = [Sample(id=f"q{k}", input="Why?") for k in range(1_200)]
    texts = [f"because {k % 3}" for k in range(1_200)]
    store_run(store, "r1", samples, v2=[])
    arm = arm_key(store, store.experiments("r1")[0][0], 0)
    with closing(store.writer()) as writer:
        for k, text in enumerate(texts):
            writer.add(Outcome(Unit(k, 0, 0, 0), reply=Reply(text=text), sample=samples[k]), arm, (), ())

    replies = load_replies(store, store.experiments("r1")[0][0], 0, Draws())

    assert replies.texts == texts
    assert [*replies.positions] == [*range(1_200)]
    assert set(replies.finishes) == {"stop"}
    if most > 1:
        assert len({*map(id, replies.texts)}) == 3
        assert len({*map(id, replies.finishes)}) == 1
