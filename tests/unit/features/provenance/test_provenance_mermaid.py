"""Mermaid diagrams, by their grammar; `test_provenance_mermaid_js.py` has Mermaid itself draw them."""

from __future__ import annotations

import re

import pytest
from hostile_texts import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from timeline_builders import TOOL_CALL, a_call, a_decision, a_graph, a_long_story, a_node, a_timeline

from pytest_crucible.features.provenance.exports.mermaid import MOST_ARROWS, MOST_CHARACTERS, mermaid_text
from pytest_crucible.features.provenance.exports.mermaid_graphs import draw_graph
from pytest_crucible.features.provenance.exports.mermaid_timelines import draw_timelines
from pytest_crucible.features.provenance.graph import Graph
from pytest_crucible.features.provenance.timeline import Step
from pytest_crucible.report.printable import printable_cell

STYLES = ("flowchart", "sequence", "timeline", "graph")
TEXT = r"(?:[\w .,/=…-]|#\d+;)+"
BOX = rf'\("{TEXT}"\)|\["{TEXT}"\]|\[\["{TEXT}"\]\]'
NODE = rf"n\d+(?:{BOX})(?::::\w+)?"
ARROW = rf'n\d+ -->(?:\|"{TEXT}"\|)? n\d+'
FLOWCHART = rf'  subgraph g\d+\["{TEXT}"\]|  end|  {NODE}|  {ARROW}|  classDef \w+ [\w:-]+(?: \d)?'
GRAMMAR = {
    "flowchart": rf"flowchart TD|{FLOWCHART}",
    "graph": rf"graph LR|{FLOWCHART}",
    "sequence": rf"sequenceDiagram|  title {TEXT}|  participant a\d+ as {TEXT}|  (?:a\d+--?>>a\d+|Note over a\d+): {TEXT}",
    "timeline": rf"timeline|  title {TEXT}|  section {TEXT}|    (?!title|section|acc){TEXT} : {TEXT}",
}
"""All lines that a diagram of each style may have."""
TEXTS = [*HOSTILE.values(), "end", "title x", 'a"];x', "", "%%{init: {}}%%"]


def check_grammar(text: str, style: str) -> None:
    lines = text.removesuffix("\n").split("\n")
    assert [line for line in lines if not re.fullmatch(GRAMMAR[style], line)] == []
    assert len(text) <= MOST_CHARACTERS
    assert text.count("-->") <= MOST_ARROWS


def reads_as(text: str) -> str:
    """The text that Mermaid shows."""
    return re.sub(r"#(\d+);", lambda match: chr(int(match[1])), text)


@given(st.text(max_size=60))
def test_each_text_is_shown_as_it_is_with_control_characters_as_escapes(text):
    expected = " ".join(printable_cell(text).split()) or " "

    assert re.fullmatch(TEXT, mermaid_text(text, 1000))
    assert reads_as(mermaid_text(text, 1000)) == expected.replace("ﬂ°", "fl°").replace("¶ß", "¶ss")


def test_a_long_text_is_cut_before_it_is_escaped():
    assert mermaid_text('"' * 100, 5) == "#34;#34;#34;#34;…"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:12]))
def test_hostile_texts_leave_the_grammar_of_diagrams_whole(style, text):
    claim = a_decision(text, is_claim=True)
    timeline = a_timeline(
        a_call(text), claim, Step(kind="wait", title=text, call=1, member=text), arm=text, sample=text
    )
    graph = a_graph()
    nodes = {key: a_node(key, text or "-") for key in graph.nodes}

    check_grammar(draw_timelines([timeline], style), style)
    check_grammar(draw_graph(Graph(nodes=nodes, relations=graph.relations), style), style)


def test_a_timeline_is_a_chain_of_boxes_in_the_order_of_time():
    lines = draw_timelines([a_long_story()], "flowchart").splitlines()

    assert lines[1:4] == [
        '  subgraph g1["test_qa, sample q17, v2"]',
        '  n1["call 1#58; 2 messages"]',
        '  n2["#43;0.250 s waited 0.25 s for its turn"]',
    ]
    assert '  n4["#43;0.750 s sent again in 1 s, after 429"]' in lines
    assert '  n7("says#58; decision#58; I am sure"):::claim' in lines
    assert [line for line in lines if "-->" in line] == [f"  n{k} --> n{k + 1}" for k in range(1, 10)]


def test_in_a_graph_of_a_timeline_each_step_hangs_on_the_one_it_belongs_to():
    first = a_decision("binary search", number=1)
    steps = [a_call(), Step(kind="request", title="request", call=1), first]
    steps += [a_decision("halve", number=2, parent=1), a_decision("scan", number=3, revises=1)]

    lines = draw_timelines([a_timeline(*steps)], "graph").splitlines()

    assert lines[0] == "graph LR"
    assert lines[1] == '  n1("test_qa, sample q17, v2")'
    assert [line.strip() for line in lines if "-->" in line] == [
        "n1 --> n2",
        "n2 --> n3",
        "n1 --> n4",
        "n4 --> n5",
        'n4 -->|"revised"| n6',
    ]


def test_a_sequence_has_the_tools_that_a_reply_calls():
    lines = draw_timelines([a_timeline(a_call("", tool_calls=[TOOL_CALL]))], "sequence").splitlines()

    assert [line for line in lines if "-->>" in line] == [
        "  a2-->>a1: tool call#58; refund#40;#123;#34;order#34;#58; 17#125;#41;"
    ]


def test_a_sequence_has_messages_between_test_and_model():
    lines = draw_timelines([a_long_story()], "sequence").splitlines()

    assert [line.strip() for line in lines[2:10]] == [
        "participant a1 as the test",
        "participant a2 as v2",
        "participant a3 as the metrics",
        "a1->>a2: call 1#58; 2 messages",
        "Note over a2: waited 0.25 s for its turn",
        "Note over a2: request#58; 429 after 0.5 s",
        "Note over a2: sent again in 1 s, after 429",
        "Note over a2: request#58; stop after 0.25 s",
    ]
    assert lines[10] == "  a2-->>a1: 2"


def test_members_of_an_ensemble_answer_the_arm_and_judges_the_metrics():
    member = Step(kind="member", title="call 1, one", call=1, member="one", facts={"reply": "1"})
    judge = Step(kind="call", title="call 1, judge", call=1, member="judge:strict", facts={"reply": "yes"})

    lines = draw_timelines([a_timeline(a_call("2"), member, judge)], "sequence").splitlines()

    assert [line.strip() for line in lines[7:]] == [
        "a1->>a2: call 1#58; 2 messages",
        "a2-->>a1: 2",
        "a2->>a3: call 1, one",
        "a3-->>a2: 1",
        "a4->>a5: call 1, judge",
        "a5-->>a4: yes",
    ]


def test_steps_without_room_are_counted_in_the_diagram():
    many = [Step(kind="wait", title="w" * 70, at=float(k)) for k in range(3_000)]
    left_out = {}
    for style in STYLES:
        text = draw_timelines([a_timeline(*many), a_timeline(*many)], style)
        check_grammar(text, style)
        more = re.search(r"([\d,]+) more step", text)
        left_out[style] = int(more[1].replace(",", ""))
        assert "1 more timeline, not shown here#58; .jsonl has all" in text

    assert left_out["flowchart"] == 3_000 - 250


def test_a_graph_that_mermaid_would_not_draw_has_one_box_for_alike_nodes():
    for style in STYLES:
        text = draw_graph(a_graph(samples=2_000), style)
        check_grammar(text, style)
        assert "reply to q0 and 1,999 more of its kind" in text

    assert "reply to q99" in draw_graph(a_graph(samples=200), "graph")
    assert "reply to q0 and 199 more of its kind" in draw_graph(a_graph(samples=200), "flowchart")


def test_a_sequence_of_a_graph_runs_from_files_to_verdicts():
    lines = draw_graph(a_graph(samples=1), "sequence").splitlines()

    assert [line.strip() for line in lines[-4:]] == [
        "a1->>a2: led to",
        "a2->>a3: used by",
        "a3->>a4: generated",
        "a4->>a5: led to",
    ]
    assert lines[1] == "  participant a1 as 1#46; file#58; train.jsonl"
