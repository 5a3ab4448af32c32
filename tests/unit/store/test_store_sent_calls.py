"""Calls of an outcome are read as the store has them, so that equal calls are equal in every session."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from experiment_builders import store_run

from pytest_crucible.records import Arm, Draws, ModelCall, Outcome, Reply, Sample, Unit
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store.history import arm_key
from pytest_crucible.store.reused_outcomes import copied_from, copy_outcomes, reused_replies
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sent_calls import CallReader, load_paid_calls, load_sent, unlike_places

ARM = Arm(
    name="v2", role="candidate", adapter="v2", identity="v2", parameters={"temperature": 0, "headers": {"X": "k"}}
)
SAMPLES = [
    Sample(id="a", input="The sky is green", metadata={"source": "a poem"}),
    Sample(id="b", input={"claim": "Grass is blue", "n": 3}),
    Sample(id="c", input=[{"role": "user", "content": "hello there"}]),
]


def call(text: Any, parameters: Any = None, system: str = "") -> ModelCall:
    is_json = not isinstance(text, str)
    settings = "" if parameters is None else canonical(parameters)
    body = canonical(text) if is_json else text
    return ModelCall(body, is_json, 1, parameters, system, Reply(text="yes"), settings=settings)


CALLS = {
    "the input": lambda sample: [call(sample.input)],
    "a prompt around it": lambda sample: [call(f"True? {sample.input}", {"temperature": 1, "stop": ("a", "b")})],
    "messages": lambda sample: [call([{"role": "user", "content": f"secret {sample.input}"}])],
    "a system prompt": lambda sample: [call(sample.input, system="Be brief, secret.")],
    "two turns": lambda sample: [
        call("first", {"b": 1, "a": {"c": "secret"}}),
        call([{"role": "user", "content": "first"}, {"role": "assistant", "content": "yes"}], {"tools": []}),
        call("third", {"a": {"c": "secret"}, "b": 1}),
    ],
}


def hide(text: str) -> str:
    return text.replace("secret", "***")


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgresql")
    with closing(RunStore(where, hide)) as opened:
        yield opened


def add_outcomes(store: RunStore, run: str, make: Any, *, repeats: int = 1) -> int:
    """Store a run whose arm makes these calls about each sample, and return the key of the arm."""
    store_run(store, run, SAMPLES, v2=[])
    key = arm_key(store, store.experiments(run)[0][0], 0)
    with closing(store.writer()) as writer:
        for position, sample in enumerate(SAMPLES):
            for repeat in range(repeats):
                writer.add(outcome_of(position, sample, make, repeat), key, (), ())
    return key


def outcome_of(position: int, sample: Sample, make: Any, repeat: int = 0) -> Outcome:
    return Outcome(Unit(position, 0, 0, repeat), reply=Reply(text="yes"), calls=make(sample), sample=sample)


@pytest.mark.parametrize("kind", CALLS)
def test_calls_are_read_as_they_are_stored(store, kind):
    key = add_outcomes(store, "r1", CALLS[kind])
    reader = CallReader(store.redact_once, [ARM])

    stored = load_sent(store, key, reader.own[0])

    read = {(k, 0): reader.read(outcome_of(k, sample, CALLS[kind])) for k, sample in enumerate(SAMPLES)}
    assert stored == read
    assert "secret" not in json.dumps([calls.settings for calls in stored.values()])
    assert reader.own == ['{"temperature":0}']


def test_an_outcome_without_calls_has_sent_nothing():
    reader = CallReader(str, [ARM])
    assert reader.read(outcome_of(0, SAMPLES[0], lambda sample: [])) is None


def test_places_with_other_calls_are_found_by_sample(store):
    first = add_outcomes(store, "r1", CALLS["the input"])
    second = add_outcomes(
        store, "r2", lambda sample: CALLS["the input" if sample.id == "a" else "messages"](sample), repeats=2
    )
    ours, theirs = (load_sent(store, key, "{}") for key in (first, second))
    assert unlike_places(ours, theirs, ARM) == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert not unlike_places(ours, ours, ARM)


def test_copies_that_are_removed_are_counted_no_longer(store):
    source = add_outcomes(store, "r1", CALLS["two turns"])
    store_run(store, "r2", SAMPLES, v2=[])
    experiment = store.experiments("r2")[0][0]
    key = arm_key(store, experiment, 0)
    copy_outcomes(store, source, key, source_run="r1", draws=Draws())
    assert copied_from(store, [key]) == {key: "r1"}
    assert {run for _, run in load_paid_calls(store, key, "").values()} == {"r1"}
    assert {run for _, run in load_paid_calls(store, source, "").values()} == {""}

    with closing(store.writer()) as writer:
        writer.remove_copied(key, 0, 0)
        writer.remove_copied(key, 1, 0)
        writer.add(outcome_of(0, SAMPLES[0], CALLS["the input"]), key, (), ())

    assert reused_replies(store, experiment)["v2"].replies == 1
    assert {place: run for place, (_, run) in load_paid_calls(store, key, "{}").items()} == {(0, 0): "", (2, 0): "r1"}
    with closing(store.writer()) as writer:
        writer.remove_copied(key, 2, 0)
    assert copied_from(store, [key]) == {}
