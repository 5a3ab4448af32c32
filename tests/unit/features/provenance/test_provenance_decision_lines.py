"""The lines of decisions that a search finds, and of those that two runs do not share."""

from __future__ import annotations

from typing import Any

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.differences import ChainDifference
from pytest_crucible.features.provenance.load_decisions import Chain
from pytest_crucible.features.provenance.search import Found
from pytest_crucible.features.provenance.trace_command import difference_lines, found_lines, found_timelines
from pytest_crucible.features.provenance.trace_lines import TextLayout

LAYOUT, WHOLE = TextLayout(100), TextLayout(100, is_whole=True)
PLACE: dict[str, Any] = {"experiment": "test_qa.py::test_qa", "arm": "v2", "repeat": 0, "variant": ""}


def a_decision(number: int, text: str, **changes: Any) -> Decision:
    return Decision(number=number, kind="decision", decision=text, **changes)


def find_last(samples: int) -> list[Found]:
    decisions = (a_decision(1, "scan"), a_decision(2, "halve", over=("scan",), because="sorted", is_claim=True))
    chains = [Chain(sample=f"q{k}", decisions=decisions, **PLACE) for k in range(samples)]
    return [Found(chain, decision) for chain in chains for decision in decisions[1:]]


def test_found_decisions_stand_below_their_reply_with_their_number():
    assert list(found_lines(found_timelines("3f2a", find_last(1)), "3f2a", LAYOUT)) == [
        "1 decision of run 3f2a in 1 reply",
        "",
        "test_qa, sample q0, v2",
        "    2  says: decision: halve",
        "                 over       scan",
        "                 because    sorted",
    ]


def test_what_is_no_decision_is_counted_as_an_event():
    decisions = (Decision(number=1, kind="stage_started", decision="choose"), a_decision(2, "scan"))
    chain = Chain(sample="q0", decisions=decisions, **PLACE)
    timelines = found_timelines("3f2a", [Found(chain, decision) for decision in decisions])

    assert next(found_lines(timelines, "3f2a", LAYOUT)) == "2 events of run 3f2a in 1 reply"


def test_nothing_found_says_so():
    assert list(found_lines([], "3f2a", LAYOUT)) == ["no decision of run 3f2a matches"]


def test_replies_beyond_a_screen_are_counted():
    timelines = found_timelines("3f2a", find_last(30))

    assert list(found_lines(timelines, "3f2a", LAYOUT))[-1] == "10 replies more: -v lists all"
    assert sum("sample q" in line for line in found_lines(timelines, "3f2a", LAYOUT)) == 20
    assert sum("sample q" in line for line in found_lines(timelines, "3f2a", WHOLE)) == 30


def test_differences_begin_with_the_least_similar_reply():
    equal = ChainDifference(sample="q0", similarity=1.0, added=(), removed=(), **PLACE)
    near = ChainDifference(sample="q1", similarity=0.5, added=(a_decision(2, "new"),), removed=(), **PLACE)
    far = ChainDifference(sample="q2", similarity=0.0, added=(), removed=(a_decision(1, "old"),), **PLACE)

    assert list(difference_lines([equal, near, far], "3f2a", "9c1b", LAYOUT)) == [
        "run 3f2a against run 9c1b: of 3 replies with decisions 1 have equal ones",
        "",
        "test_qa, sample q2, v2: similarity 0.00",
        "-   1  decision: old",
        "",
        "test_qa, sample q1, v2: similarity 0.50",
        "+   2  decision: new",
    ]
