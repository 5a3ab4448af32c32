"""Claims, relations and flags of a reply as a graph and as tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.cns3.antagonist import METRIC, Finding, to_text
from pytest_crucible.features.cns3.claims import Claim, Relation, parse, render
from pytest_crucible.features.cns3.sample_views import MOST_NODES, draw_reply, sample_views
from pytest_crucible.records import Conversation, Unit
from pytest_crucible.report.diagrams import draw_diagram
from tests.hostile_texts import HOSTILE

REPLY = """CLAIM[c1]: Tea helps.
CLAIM[c2] (Document 7): It helped forty adults.
CLAIM[c3] (Document 7, Document 9): It did not help.
RELATION: c2 supports c1
RELATION: c3 refutes c1
RELATION: c4 supports c1
not a line of the format"""
FINDINGS = (
    Finding("CITATION_INVALID", "HIGH", {"citation_accuracy": 0.0}),
    Finding("WEAK_ENTAILMENT", "MEDIUM", {"entailment": 0.1}, caused_by="CITATION_INVALID"),
)
IDS = st.sampled_from(["c1", "c2", "c3", "c4", "c5"])


def a_conversation(reply: str, **scores: str) -> Conversation:
    return Conversation(
        unit=Unit(0, 0, 0, 0), arm="v2", state="answered", detail="", reply=reply, calls=(), scores=scores
    )


def edges(diagram):
    return {(edge.source, edge.label, edge.target) for edge in diagram.edges}


def test_claims_lead_to_what_they_relate_to_and_documents_to_what_cites_them():
    [view] = sample_views([a_conversation(REPLY)])

    assert edges(view.diagrams[0]) == {
        ("claim c2", "supports", "claim c1"),
        ("claim c3", "refutes", "claim c1"),
        ("claim c4", "supports", "claim c1"),
        ("document 7", "cited by", "claim c2"),
        ("document 7", "cited by", "claim c3"),
        ("document 9", "cited by", "claim c3"),
    }
    labels = {node.key: (node.label, node.kind) for node in view.diagrams[0].nodes}
    assert labels["claim c1"] == ("c1: Tea helps.", "central")
    assert labels["claim c4"] == ("c4: no such claim", "claim")


def test_tables_have_the_facts_of_the_picture():
    [view] = sample_views([a_conversation(REPLY, **{METRIC: to_text(FINDINGS, {})})])
    rows = {table.title: [row.cells for row in table.rows] for table in view.tables}

    assert rows["Claims"][2] == ("c3", "It did not help.", "7, 9")
    assert rows["Relations"][0] == ("c2", "supports", "c1")
    assert rows["Flags of the antagonist"] == [
        ("CITATION_INVALID", "HIGH", "citation_accuracy = 0", "-"),
        ("WEAK_ENTAILMENT", "MEDIUM", "entailment = 0.1", "CITATION_INVALID"),
    ]
    assert ("unreadable", "7", "not a line of the format") in rows["Flaws of the form"]


def test_flags_lead_to_the_central_claim_and_causes_to_what_they_explain():
    diagram = draw_reply("v2", parse("CLAIM[c1]: Tea helps."), FINDINGS)

    assert edges(diagram) == {
        ("flag CITATION_INVALID", "flags the reply", "claim c1"),
        ("flag CITATION_INVALID", "explains", "flag WEAK_ENTAILMENT"),
    }


def test_a_reply_without_claims_and_flags_has_no_view():
    assert list(sample_views([a_conversation(text) for text in HOSTILE.values()])) == []


def test_reasoning_before_the_claims_is_not_read():
    [view] = sample_views([a_conversation(f"<think>CLAIM[c9]: hm</think>\n{REPLY}")])

    assert "claim c9" not in {node.key for node in view.diagrams[0].nodes}


def test_a_reply_of_thousands_of_claims_has_a_picture_of_some_and_says_so():
    claims = [Claim(f"c{number}", "x") for number in range(1, 3_001)]
    [view] = sample_views(
        [a_conversation(render(claims, [Relation(each.id, "supports", "c1") for each in claims[1:]]))]
    )

    assert len(view.diagrams[0].nodes) == MOST_NODES
    assert view.notes[0].text == "The picture leaves 2,700 claims out, which the tables have."
    assert view.tables[0].note == "2,000 more rows"


@given(st.lists(st.tuples(IDS, st.sampled_from(["supports", "refutes", "contrasts"]), IDS), max_size=12))
def test_every_relation_between_two_claims_is_drawn(relations):
    extraction = parse(render([Claim("c1", "x"), Claim("c2", "y")], [Relation(*each) for each in relations]))
    diagram = draw_reply("v2", extraction, ())

    assert edges(diagram) == {(f"claim {a}", label, f"claim {b}") for a, label, b in relations if a != b}
    assert draw_diagram(diagram).count('class="tip"') == len({(edge.source, edge.target) for edge in diagram.edges})
