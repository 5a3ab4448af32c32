"""Events in replies: what is read, what is text, and what is left of the reply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.provenance.parser import StatedEvent, parse_events, read_confidence, write_events

EVENT = '<event type="pattern_applied"><decision>halve</decision></event>'


def test_an_event_with_all_its_parts():
    reply = """I think.
<event type="hypothesis_formed">
<decision>binary search</decision>
<alternative>scan, from the left</alternative>
<alternative>hash</alternative>
<reasoning>the list is sorted: 1 &lt; 2</reasoning>
<confidence>0.8</confidence>
</event>
Answer: 4
"""
    parsed = parse_events(reply)

    assert parsed.text == "I think.\nAnswer: 4"
    assert parsed.unclosed == 0
    assert parsed.events == [
        StatedEvent(
            "hypothesis_formed", "binary search", ("scan, from the left", "hash"), "the list is sorted: 1 < 2", 0.8
        )
    ]


@pytest.mark.parametrize(
    ("text", "event"),
    [
        # In the predecessor's form.
        (
            '<event type="x"><decision>a</decision><alternatives>b, c;\nd</alternatives><reasoning>r</reasoning></event>',
            StatedEvent("x", "a", ("b", "c", "d"), "r"),
        ),
        ("<EVENT Type='x'><Decision>a</DECISION></Event>", StatedEvent("x", "a")),
        ("<event kind=my_own>free text</event>", StatedEvent("my_own", "free text")),
        ("<event>a<because>b</because></event>", StatedEvent("decision", "a", (), "b")),
        ('<event type="x" confidence="90%"><decision>a</decision></event>', StatedEvent("x", "a", confidence=0.9)),
        ('<event type="x"/>', StatedEvent("x", "")),
        # A known kind in another spelling is this kind; an unknown one keeps its name.
        ('<event type="Hypothesis Formed">a</event>', StatedEvent("hypothesis_formed", "a")),
        ('<event type="AMBIGUITY-FLAGGED">a</event>', StatedEvent("ambiguity_flagged", "a")),
        ('<event type="My-Own Kind">a</event>', StatedEvent("My-Own Kind", "a")),
        # Each part ends where the next one begins.
        ("<event><decision>a<reasoning>b</event>", StatedEvent("decision", "a", (), "b")),
        ("<event></decision>a</reasoning></event>", StatedEvent("decision", "a")),
        ("<event><decision>a</decision><decision>b</decision></event>", StatedEvent("decision", "a")),
        # What is not a part is text.
        (
            "<event><decision><script>alert(1)</script> &amp;lt; &#x41;&#66; &bogus; &#0; &#xD800;</decision></event>",
            StatedEvent("decision", "<script>alert(1)</script> &lt; AB &bogus; &#0; &#xD800;"),
        ),
        ("<event><decision>an `</event>` here</decision></event>", StatedEvent("decision", "an `</event>` here")),
        ('<event>the tag "</event>" ends it</event>', StatedEvent("decision", 'the tag "</event>" ends it')),
    ],
)
def test_how_a_model_may_write_an_event(text, event):
    assert parse_events(text).events == [event]
    assert parse_events(text).text == ""


def test_nested_events_are_children():
    inner = "<event><decision>inner</decision></event>"
    parsed = parse_events(f"<event>outer {inner}{inner}<event>middle{inner}</event> end</event>{inner}")

    assert [(event.decision, event.parent) for event in parsed.events] == [
        ("outer  end", None), ("inner", 1), ("inner", 1), ("middle", 1), ("inner", 4), ("inner", None)
    ]  # fmt: skip


def test_an_event_that_is_not_closed_is_skipped_and_counted():
    parsed = parse_events(f"<event>a <event>b {EVENT} the answer")

    assert (parsed.unclosed, parsed.text) == (2, "<event>a <event>b  the answer")
    assert parsed.events == [StatedEvent("pattern_applied", "halve")]


def test_children_of_an_event_that_is_not_closed_belong_to_the_one_around_it():
    parsed = parse_events(f"<event>a<event>b{EVENT}</event> <event>c")

    assert [(event.decision, event.parent) for event in parsed.events] == [("b", None), ("halve", 1)]
    assert parsed.unclosed == 2


@pytest.mark.parametrize(
    "text",
    [
        f"`{EVENT}`",
        f"``a ` {EVENT}``",
        f"```xml\n{EVENT}\n```",
        f"~~~\n{EVENT}\n```\n~~~",
        f"```\n{EVENT}",
        f"~~~~\na\n~~~\n{EVENT}",
        f"> {EVENT}",
        f'the tag "{EVENT}"',
        f"the tag '{EVENT}'",
        f"the tag “{EVENT}”",
        "<events></events>",
        "<event-log></event-log>",
        "</event>",
        "<decision>a</decision>",
    ],
)
def test_quoted_and_fenced_tags_are_text(text):
    parsed = parse_events(text)

    assert parsed.text == text
    assert not parsed.events


def test_a_quoted_tag_within_an_event_does_not_end_it():
    parsed = parse_events("<event><decision>a `</decision></event>` b</decision></event>4")

    assert parsed.text == "4"
    assert [event.decision for event in parsed.events] == ["a `</decision></event>` b"]


@pytest.mark.parametrize(
    "text",
    [
        f"a ` b {EVENT}",
        f"a `b`{EVENT}",
        f"```\na\n```\n{EVENT}",
        f"~~~\na\n~~~~~\n{EVENT}",
        f"a `\n{EVENT}`",
        f'{{"a": "b"{EVENT}',
    ],
)
def test_a_stray_mark_hides_no_event(text):
    assert len(parse_events(text).events) == 1


def test_lines_of_events_go_with_them():
    assert parse_events(f"  {EVENT}\n\n4\n{EVENT}\n5 {EVENT} 6").text == "4\n5  6"
    assert parse_events(f"4\r\n{EVENT}\r\n5").text == "4\r\n5"


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("0.9", 0.9), ("90%", 0.9), ("0,9", 0.9), (" .5 ", 0.5), ("1", 1.0), ("0", 0.0), ("100 %", 1.0), ("1e-3", 0.001),
        ("1.7", None), ("101%", None), ("high", None), ("", None), ("-0.1", None), ("0.9.1", None), ("nan", None),
        ("inf", None), ("9" * 60, None), ("90", None), ("1e99999", None),
    ],
)  # fmt: skip
def test_a_confidence_is_read_or_unknown(text, confidence):
    assert read_confidence(text) == confidence


def test_a_number_that_is_too_long_is_unknown():
    text = f"<event><decision>a</decision><confidence>0.{'1' * 100}x</confidence></event>"
    assert parse_events(text).events[0].confidence is None


@pytest.mark.parametrize(
    ("text", "events", "unclosed"),
    [
        ("<event>" * 100_000 + "</event>" * 100_000, 100_000, 0),
        ("<event>" * 100_000, 0, 100_000),
        ("</event>" * 100_000 + "<event>", 0, 1),
        ("<event " * 100_000, 0, 0),
        ('<event type="' * 50_000, 0, 0),
        ("<event>" + "<decision>" * 100_000 + "</event>", 1, 0),
        ("<event>" + "&" * 300_000 + "</event>", 1, 0),
        ("` " * 200_000 + "<event></event>", 1, 0),
        ("".join("`" * k + " " for k in range(1, 900)) + "<event></event>", 1, 0),
        ("\n```" * 100_000 + "<event></event>", 0, 0),
        ("\n>" * 100_000 + "\n<event></event>", 1, 0),
        ("<event>" + " " * 500_000 + "</event>", 1, 0),
        ("<event a" + " " * 500_000 + "></event>", 1, 0),
    ],
)
def test_hostile_replies_are_read(text, events, unclosed):
    parsed = parse_events(text)

    assert (len(parsed.events), parsed.unclosed) == (events, unclosed)


pieces = st.sampled_from(
    [
        "<event>",
        "</event>",
        '<event type="a">',
        "<decision>",
        "</decision>",
        "`",
        "```",
        "\n",
        ">",
        '"',
        " ",
        "x",
        "&lt;",
    ]
)


@given(st.lists(pieces | st.text(), max_size=40).map("".join))
def test_any_text_is_read(text):
    parsed = parse_events(text)

    assert all(event.parent is None or event.parent <= place for place, event in enumerate(parsed.events))
    assert all(event.confidence is None or 0 <= event.confidence <= 1 for event in parsed.events)
    assert parsed.events or parsed.text == text


@given(st.text().filter(lambda text: "<event" not in text.lower()))
def test_a_text_without_tags_is_unchanged(text):
    assert parse_events(text).text == text


texts = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(pieces, max_size=9).map("".join)


@given(
    st.lists(
        st.builds(
            StatedEvent,
            kind=texts.filter(bool),
            decision=texts,
            over=st.lists(texts.filter(bool), max_size=3).map(tuple),
            because=texts,
            confidence=st.none() | st.floats(0, 1),
            parent=st.none(),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_events_that_are_written_are_read_as_they_were(events):
    parsed = parse_events(f"before\n{write_events(events)}\nafter")

    assert list(parsed.events) == events
    assert (parsed.text, parsed.unclosed) == ("before\nafter", 0)
