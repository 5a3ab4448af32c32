"""Timelines as Chrome's trace events."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

from hostile_texts import HOSTILE
from timeline_builders import START, a_call, a_decision, a_long_story, a_timeline

from pytest_crucible.features.provenance.exports.files import write_timelines
from pytest_crucible.features.provenance.timeline import Step, Timeline

NEEDED = {"X": {"ts", "dur"}, "i": {"ts", "s"}, "M": {"args"}}
"""The fields that an event of each phase must have, beside name, phase, process and thread."""


def events_of(path, *timelines: Timeline) -> list[dict]:
    write_timelines(timelines, path / "trace.chrome.json")
    document = json.loads((path / "trace.chrome.json").read_text())
    assert set(document) == {"displayTimeUnit", "traceEvents"}
    for event in document["traceEvents"]:
        assert {"name", "ph", "pid", "tid", *NEEDED[event["ph"]]} <= set(event)
        assert isinstance(event["name"], str)
        assert all(isinstance(event[name], int) for name in ("pid", "tid"))
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
    return document["traceEvents"]


def test_requests_are_slices_and_other_steps_instants_in_microseconds(tmp_path):
    events = events_of(tmp_path, a_long_story())

    slices = [(event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    assert slices == [
        ("waited 0.25 s for its turn", 0, 250_000),
        ("request: 429 after 0.5 s", 250_000, 500_000),
        ("request: stop after 0.25 s", 1_750_000, 250_000),
    ]
    instants = {event["name"]: event["ts"] for event in events if event["ph"] == "i"}
    assert instants["sent again in 1 s, after 429"] == 750_000
    assert instants["says: decision: I am sure"] == 2_000_000
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["test_qa, sample q17, v2", "steps", "requests and waits 1"]


def test_requests_at_one_time_have_threads_of_their_own(tmp_path):
    ends = {"a": (3.0, 3.0), "b": (2.0, 1.0), "c": (2.5, 0.4), "d": (5.0, 1.0)}
    requests = [Step(kind="request", title=name, at=START + at, seconds=took) for name, (at, took) in ends.items()]

    events = events_of(tmp_path, a_timeline(*requests), a_timeline(a_call(), requests[0]))

    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert sorted(map(len, threads.values())) == [1, 2, 2]
    for slices in threads.values():
        assert all(end <= begin for (_, end), (begin, _) in pairwise(slices))


def test_nothing_and_hostile_texts_are_written(tmp_path):
    assert events_of(tmp_path) == []
    for text in HOSTILE.values():
        text = text[:100_000]
        step = Step(kind="retry", title=text, facts={text: text, "value": float("inf")})
        events = events_of(tmp_path, a_timeline(step, a_decision(text), sample=text))
        assert text.encode("utf-8", "backslashreplace").decode() in [event["name"] for event in events]
