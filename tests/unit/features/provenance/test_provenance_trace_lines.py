"""The lines of `crucible trace`."""

from __future__ import annotations

from timeline_builders import QUESTION, SYSTEM, TOOL_CALL, a_call, a_decision, a_long_story, a_timeline

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.timeline import Step, steps_of_decisions
from pytest_crucible.features.provenance.trace_lines import TextLayout, trace_lines

WIDE = TextLayout(width=100)


def test_a_reply_is_followed_from_its_call_to_its_score():
    assert list(trace_lines([a_long_story()], WIDE)) == [
        "test_qa, sample q17, v2",
        "  1              call 1: 2 messages",
        "                 system     You are a calculator.",
        "                 user       What is 1 + 1?",
        "                 parameters temperature=0.7",
        "  2    +0.250 s    waited 0.25 s for its turn",
        "  3    +0.750 s    request: 429 after 0.5 s",
        "  4    +0.750 s    sent again in 1 s, after 429",
        "  5    +2.000 s    request: stop after 0.25 s",
        "                 reply      2",
        "  6              decision: binary search",
        "                 over       scan",
        "                 because    sorted",
        "  7              says: decision: I am sure",
        "  8              exact_match = True",
        "  9              f1 = 0.5",
        " 10              answered",
    ]


def test_the_tools_that_a_reply_calls_are_shown():
    alone = a_call("", prompt=(QUESTION,), tool_calls=[TOOL_CALL])

    assert list(trace_lines([a_timeline(alone)], WIDE))[4:] == ['                 tool call  refund({"order": 17})']
    both = list(trace_lines([a_timeline(a_call("Wait.", prompt=(QUESTION,), tool_calls=[TOOL_CALL]))], WIDE))
    assert both[-2:] == ["                 reply      Wait.", '                 tool call  refund({"order": 17})']


def test_long_texts_are_cut_with_their_length_and_shown_whole_if_asked():
    timeline = a_timeline(a_call("one\ntwo " + "x" * 500, prompt=(QUESTION,)))

    cut = list(trace_lines([timeline], WIDE))
    whole = list(trace_lines([timeline], TextLayout(width=100, is_whole=True)))

    assert cut[-1].startswith("                 reply      one two xxx")
    assert cut[-1].endswith("x... (508 characters)")
    assert len(cut[-1]) == 100
    assert whole[-2:] == ["                 reply      one", f"{' ' * 28}two {'x' * 500}"]


def test_a_long_title_takes_up_to_three_lines():
    error = "ValueError: confidence='high': expected a number from 0 to 1, for example 0.7"
    end = Step(kind="end", title=f"lost: error; {error}")
    request = Step(kind="request", title=f"request 1: {'words ' * 99}", call=1)

    _, lost, more, *of_request = trace_lines([a_timeline(end, request)], TextLayout(width=80))

    assert (lost, more) == (
        "  1              lost: error; ValueError: confidence='high': expected a number",
        "                 from 0 to 1, for example 0.7",
    )
    assert len(of_request) == 3
    assert of_request[-1].startswith("                   words words")
    assert of_request[-1].endswith("words...")
    assert max(map(len, of_request)) <= 80


def test_a_decision_that_its_title_cuts_is_there_as_a_text():
    (step,) = steps_of_decisions([Decision(number=1, kind="decision", decision="halve " * 1000)])

    cut = list(trace_lines([a_timeline(step)], WIDE))
    whole = list(trace_lines([a_timeline(step)], TextLayout(width=100, is_whole=True)))

    assert cut[-1].endswith("... (6,000 characters)")
    assert whole[-1].endswith("halve " * 1000)


def test_a_decision_without_a_text_can_be_revised():
    decisions = [
        Decision(number=1, kind="decision", decision=""),
        Decision(number=2, kind="decision", decision="b", revises=1),
    ]

    lines = list(trace_lines([a_timeline(*steps_of_decisions(decisions))], WIDE))

    assert lines[-1] == "                 instead of decision 1"


def test_messages_that_were_sent_before_are_counted():
    reply = {"role": "assistant", "content": "2"}
    second = a_call("3", call=2, prompt=(SYSTEM, QUESTION, reply, {"role": "user", "content": "Sure?"}))

    lines = list(trace_lines([a_timeline(a_call(), second)], WIDE))

    assert [line.strip() for line in lines[-6:]] == [
        "2              call 2: 4 messages",
        "(2 messages as before)",
        "assistant  2",
        "user       Sure?",
        "parameters temperature=0.7",
        "reply      3",
    ]


def test_steps_of_calls_at_one_time_name_their_call():
    steps = [a_call(), a_call(call=2)]
    steps += [Step(kind="request", title=f"request {call}", call=call) for call in (1, 2, 2)]

    lines = [line for line in trace_lines([a_timeline(*steps)], WIDE) if "request" in line]

    assert [line.partition("request")[2] for line in lines] == [" 1 (call 1)", " 2 (call 2)", " 2"]


def test_an_unknown_reply_shows_why_and_the_text_that_was_scored():
    end = Step(kind="end", title="answered", facts={"reply": "4"})
    timeline = a_timeline(end, repeat=1, unknown="run 3f2a was imported from Inspect: its calls are unknown")

    assert list(trace_lines([timeline, a_timeline(a_decision("x"))], WIDE)) == [
        "test_qa, sample q17, v2, repeat 2",
        "run 3f2a was imported from Inspect: its calls are unknown",
        "  1              answered",
        "                 scored     4",
        "",
        "test_qa, sample q17, v2",
        "  1              decision: x",
    ]


def test_what_a_call_sent_to_all_members_of_an_ensemble_is_shown_once():
    member = Step(kind="member", title="call 1, one: 2 messages", call=1, member="one", facts=a_call("1").facts)
    other = a_call("2", temperature=0).facts | {"parameters": {"temperature": 0}}
    steps = [
        a_call("2"),
        member,
        Step(kind="member", title="call 1, two: 2 messages", call=1, member="two", facts=other),
    ]

    lines = [line.strip() for line in trace_lines([a_timeline(*steps)], WIDE)]

    assert lines[5:] == [
        "reply      2",
        "2              call 1, one: 2 messages",
        "reply      1",
        "3              call 1, two: 2 messages",
        "parameters temperature=0",
        "reply      2",
    ]


def test_an_imported_reply_with_messages_says_that_nothing_else_of_its_calls_is_known():
    timeline = a_timeline(a_call(), unknown="run 3f2a was imported from Inspect: its calls are unknown")

    lines = list(trace_lines([timeline], WIDE))

    assert lines[1] == "run 3f2a was imported from Inspect: its calls are unknown beyond their messages"
