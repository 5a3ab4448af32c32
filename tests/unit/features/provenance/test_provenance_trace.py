"""`pytest_crucible.trace`: what is recorded, for which sample, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pytest_crucible import Reply, trace
from pytest_crucible.features.provenance.metrics import (
    ambiguity_count,
    decision_count,
    revision_count,
    stated_confidence,
)
from pytest_crucible.features.provenance.threads import carry_replies, stop_carrying
from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.metrics.models.scorers import ScoredReply, set_current_reply, set_scored_reply
from pytest_crucible.records import ModelCall, Sample

EVENT = '<event type="x"><decision>a</decision><confidence>0.9</confidence></event>'
REPLY, SAMPLE = Reply(text="4"), Sample(id="q17", input="2 + 2")


def enter(sample: str = "q17", calls: int = 0) -> list[dict]:
    """Make a sample the current one; return the list of its events."""
    rows = {}
    sent = [ModelCall("?", False, 1, None, "") for _ in range(calls)]
    set_current_reply("test.py::test", sample, 0, sent, feature_rows=rows)
    return rows.setdefault("trace_events", [])


@pytest.fixture(autouse=True)
def _outside() -> Iterator[None]:
    yield
    set_scored_reply(ScoredReply())


@pytest.fixture
def carrying() -> Iterator[None]:
    carry_replies()
    yield
    stop_carrying()


# -- decisions and stages ---------------------------------------------------------------------------------------------


def test_a_decision_has_what_was_given():
    events = enter(calls=2)
    trace.decision("scan", "hash", because="short", confidence=np.float32(0.5), kind="pattern_applied")

    (event,) = events
    assert {**event, "at": 0} == {
        "number": 1, "kind": "pattern_applied", "decision": "scan", "rejected": ["hash"], "because": "short",
        "confidence": 0.5, "parent": None, "revises": None, "stage": None, "is_claim": False, "calls": 2, "at": 0,
    }  # fmt: skip


def test_none_is_no_alternative_and_no_reason():
    events = enter()
    trace.decision("scan", over=None, because=None)

    assert (events[0]["rejected"], events[0]["because"]) == ([], "")


def test_alternatives_that_are_no_texts_are_refused():
    with pytest.raises(ValueError, match=r"^over=5: expected the rejected alternatives, for example \[\"scan\"\]$"):
        trace.decision("a", over=5)


def test_an_error_without_a_message_ends_a_stage_by_its_name():
    events = enter()
    with contextlib.suppress(RuntimeError), trace.step("outer"):
        raise RuntimeError

    assert events[-1]["because"] == "RuntimeError"


def test_stages_nest_and_note_the_error_that_ends_them():
    events = enter()
    with contextlib.suppress(KeyError), trace.step("outer"):
        trace.decision("a")
        with trace.step("inner"):
            trace.decision("b")
        raise KeyError("k")
    trace.decision("c")

    assert [(event["kind"], event["decision"], event["stage"], event["parent"]) for event in events] == [
        ("stage_started", "outer", None, None),
        ("decision", "a", "outer", None),
        ("stage_started", "inner", "outer", None),
        ("decision", "b", "outer/inner", None),
        ("stage_completed", "inner", "outer", 3),
        ("stage_completed", "outer", None, 1),
        ("decision", "c", None, None),
    ]
    assert [event["because"] for event in events[-3:]] == ["", "KeyError: 'k'", ""]


def test_a_stage_that_is_left_open_is_not_that_of_the_next_sample():
    enter("q16")
    trace.step("forgotten").__enter__()
    events = enter("q17")
    trace.decision("a")

    assert events[0]["stage"] is None


def test_outside_a_sample_nothing_is_recorded_and_nothing_raised():
    with trace.step("choose"):
        first = trace.decision("a", confidence=0.5)
        trace.decision("b", revises=first)

    assert trace.read(f"{EVENT} 4") == "4"
    assert first.events is None


@pytest.mark.parametrize("confidence", [1.7, -0.1, float("nan"), True, "0.7", [0.7]])
def test_a_confidence_outside_0_to_1_is_refused(confidence):
    with pytest.raises(ValueError, match="expected a number from 0 to 1") as caught:
        trace.decision("a", confidence=confidence)

    assert str(caught.value) == f"confidence={confidence!r}: expected a number from 0 to 1, for example 0.7"


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"^kind='ambigity_flagged': did you mean 'ambiguity_flagged'\? a decision is"):
        trace.decision("a", kind="ambigity_flagged")
    with pytest.raises(ValueError, match=r"^kind='checkpoint_saved': a decision is one of decision, hypothesis_formed"):
        trace.decision("a", kind="checkpoint_saved")


def test_a_decision_revises_only_one_of_its_own_sample():
    outside = trace.decision("a")
    enter("q16")
    other = trace.decision("b")
    events = enter("q17")
    own = trace.decision("c")
    trace.decision("d", revises=own)

    assert events[1]["revises"] == 1
    for revises, origin in (
        (other, "of sample q16"),
        (outside, "that was recorded outside a sample"),
    ):
        with pytest.raises(ValueError, match="revises= names") as caught:
            trace.decision("e", revises=revises)
        assert str(caught.value) == f"revises= names a decision {origin}: pass an earlier one of sample q17"
    enter("q17")
    with pytest.raises(ValueError, match="a decision of another reply to sample q17: pass an earlier one"):
        trace.decision("e", revises=own)
    with pytest.raises(ValueError, match=r"revises=3: pass what trace.decision returned for an earlier one"):
        trace.decision("e", revises=3)


# -- what a model states ----------------------------------------------------------------------------------------------


def test_events_of_a_reply_are_claims_with_parents():
    events = enter(calls=1)
    trace.decision("own")
    reply = trace.read(
        Reply(text=f"<event>outer{EVENT}</event>\n4", value=f"<event>outer{EVENT}</event>\n4", model="m")
    )

    assert (reply.text, reply.value, reply.model) == ("4", "4", "m")
    assert [(e["number"], e["decision"], e["parent"], e["is_claim"], e["calls"]) for e in events] == [
        (1, "own", None, False, 1), (2, "outer", None, True, 1), (3, "a", 2, True, 1)
    ]  # fmt: skip


def test_a_reply_without_events_is_returned_as_it_is():
    enter()
    reply = Reply(text="  4 <event>", value=4)

    assert trace.read(reply) is reply
    assert trace.read("a\n") == "a\n"
    with pytest.raises(ValueError, match=r"^trace.read\(None\): expected a Reply or a text"):
        trace.read(None)


def test_a_prompt_asks_for_events_in_the_form_that_is_read():
    text = trace.prompt("2 + 2?")

    assert text.startswith("2 + 2?\n\nBefore your answer, state each decision")
    events = enter()
    trace.read(text)
    assert [(e["kind"], e["decision"], e["rejected"], e["because"], e["confidence"]) for e in events] == [
        ("hypothesis_formed", "what you chose", ["what you did not choose"], "why", 0.8)
    ]


def test_of_messages_the_last_one_of_the_user_is_extended():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    extended = trace.prompt(messages)

    assert extended[:2] == messages[:2]
    assert extended[2]["content"].startswith("c\n\nBefore your answer")
    assert messages[2]["content"] == "c"
    parts = trace.prompt([{"role": "user", "content": [{"type": "text", "text": "c"}]}])[0]["content"]
    assert [part["type"] for part in parts] == ["text", "text"]


@pytest.mark.parametrize("prompt", [{"question": 1}, [], [{"role": "system", "content": "a"}], None, 7])
def test_any_other_prompt_is_refused(prompt):
    with pytest.raises(ValueError, match=r"expected a text, or messages with one of the user$"):
        trace.prompt(prompt)


# -- tasks and threads ------------------------------------------------------------------------------------------------


def test_tasks_and_threads_record_for_the_sample_that_starts_them(carrying):
    pool = ThreadPoolExecutor(1)

    async def record(sample: str, events: list) -> None:
        set_current_reply("test", sample, 0, [], feature_rows={"trace_events": events})
        with trace.step("inner"):
            thread = threading.Thread(target=trace.decision, args=(sample,))
            thread.start()
            await asyncio.gather(asyncio.to_thread(trace.decision, sample), asyncio.sleep(0))
            await asyncio.wrap_future(pool.submit(trace.decision, sample))
            thread.join()

    async def main() -> list[list]:
        chains: list[list] = [[] for _ in range(20)]
        await asyncio.gather(*(asyncio.create_task(record(f"q{k}", chains[k])) for k in range(20)))
        return chains

    for number, events in enumerate(asyncio.run(main())):
        assert {event["decision"] for event in events[1:-1]} == {f"q{number}"}
        assert {event["stage"] for event in events[1:-1]} == {"inner"}
        assert [event["number"] for event in events] == [1, 2, 3, 4, 5]


def test_a_pool_that_a_sample_has_started_serves_others_for_themselves(carrying):
    pool = ThreadPoolExecutor(1)
    events = enter("q16")
    pool.submit(trace.decision, "a").result()
    later = enter("q17")
    pool.submit(trace.decision, "b").result()
    contextvars.Context().run(pool.submit, trace.decision, "c").result()

    assert ([e["decision"] for e in events], [e["decision"] for e in later]) == (["a"], ["b"])


def test_threads_of_one_sample_number_their_events_in_turn(carrying):
    events = enter()
    threads = [threading.Thread(target=lambda: [trace.decision(str(k)) for k in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [event["number"] for event in events] == list(range(1, 1601))


def test_what_another_tool_has_replaced_since_is_left():
    carry_replies()
    ours = threading.Thread.start
    try:
        threading.Thread.start = lambda thread: ours(thread)
        theirs = threading.Thread.start
        stop_carrying()
        assert threading.Thread.start is theirs
    finally:
        threading.Thread.start = ours
        stop_carrying()
    assert threading.Thread.start is not ours


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_metrics_count_decisions_and_no_stages():
    enter()
    with trace.step("choose"):
        first = trace.decision("a", confidence=0.8)
        trace.decision("b", revises=first)
    trace.decision("c", kind="ambiguity_flagged", confidence=0.4)
    trace.read(f"{EVENT}<event>")

    assert [metric(REPLY, SAMPLE) for metric in (decision_count, revision_count, ambiguity_count)] == [4, 1, 1]
    assert stated_confidence(REPLY, SAMPLE) == 0.9


def test_without_decisions_counts_are_0_and_no_confidence_applies():
    enter()

    assert [metric(REPLY, SAMPLE) for metric in (decision_count, revision_count, ambiguity_count)] == [0, 0, 0]
    assert stated_confidence(REPLY, SAMPLE) == NotApplicable("no decision states a confidence")


def test_outside_a_session_decisions_are_unknown_and_not_0():
    for metric in (decision_count, revision_count, ambiguity_count, stated_confidence):
        assert metric(REPLY, SAMPLE) == NotApplicable("decisions are recorded while a session samples")


def test_decisions_of_an_ensembles_reply_are_not_those_of_its_members():
    rows = {}
    set_scored_reply(ScoredReply("test.py::test", "q17", feature_rows=rows, member="v1"))
    trace.decision("a", confidence=0.8)

    for metric in (decision_count, revision_count, ambiguity_count, stated_confidence):
        assert metric(REPLY, SAMPLE) == NotApplicable("decisions are those of the whole reply, and not of one member's")
