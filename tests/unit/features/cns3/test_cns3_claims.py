"""Claims: the format is read line by line and written; citations; holes and conflicts in the graph."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.cns3 import thinker
from pytest_crucible.features.cns3.claims import (
    Citations,
    Claim,
    Flaw,
    Relation,
    beta1,
    parse,
    polarity_conflict,
    render,
)
from pytest_crucible.features.cns3.judgement import Gold

WHOLE = """\
CLAIM[c1]: Tea shortens colds.
CLAIM[c2] (Document 7): In adults it did.
RELATION: c2 supports c1
CLAIM[c3] (Document 8, Document 9): In children it did not.
RELATION: c3 refutes c1
"""
texts = st.text(string.ascii_letters + string.digits + " .,:()[]-äΩ", min_size=1).map(str.strip).filter(bool)
documents = st.lists(st.integers(0, 10**9).map(str), max_size=3, unique=True).map(tuple)


@st.composite
def extractions(draw):
    claims = [Claim(f"c{k}", draw(texts), draw(documents)) for k in range(1, draw(st.integers(1, 6)) + 1)]
    labels = st.sampled_from(["supports", "refutes", "contrasts"])
    relations = [Relation(claim.id, draw(labels), "c1") for claim in claims[1:]]
    return claims, relations


@given(extractions())
def test_claims_survive_rendering_and_parsing(extraction):
    claims, relations = extraction
    read = parse(render(claims, relations))

    assert list(read.claims) == claims
    assert list(read.relations) == relations
    assert read.well_formed


@given(st.text())
def test_every_line_of_any_text_is_a_claim_a_relation_or_a_flaw(reply):
    lines = [line for line in reply.split("\n") if line.strip()]
    read = parse(reply)

    assert len(read.claims) + len(read.relations) + len(read.flaws) >= len(lines)


def test_line_ends_order_and_words_for_relations_are_free():
    windows = parse(WHOLE.replace("\n", "\r\n\r\n"))
    relation_first = parse("RELATION: c2 contradicts c1\nCLAIM[c1]: a\nCLAIM[c2]: b")

    assert windows == parse(WHOLE)
    assert windows.central == "Tea shortens colds."
    assert relation_first.well_formed
    assert relation_first.relations == (Relation("c2", "refutes", "c1"),)
    assert parse("CLAIM[c1]: a\nCLAIM[c1]: b").central == "a"
    assert parse(WHOLE, cut_off=True).flaws == (Flaw("cut off", 5, "the reply ended at its limit"),)


@pytest.mark.parametrize("relation", ["c2 supports c1.", "C2 SUPPORTS C1", "[c2] supports `c1`", "c2 supports c1,"])
def test_ids_are_read_without_punctuation_and_case(relation):
    read = parse(f"CLAIM[c1]: a\nCLAIM[c2]: b\nRELATION: {relation}")

    assert read.relations == (Relation("c2", "supports", "c1"),)
    assert read.well_formed


@pytest.mark.parametrize(
    ("reply", "flaws"),
    [
        ("", [("no central claim", 0)]),
        ("CLAIM[c1]: a\nSo much for that.", [("unreadable", 2)]),
        ("- CLAIM[c1]: a", [("marked up", 1)]),
        ("1. CLAIM[c1]: a", [("marked up", 1)]),
        ("**CLAIM[c1]: a**", [("marked up", 1)]),
        ("CLAIM[c1]:", [("empty claim", 1)]),
        ("CLAIM[c1]: a\nCLAIM[c1]: b", [("duplicate id", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c3]: b\nRELATION: c3 supports c1", [("gap in ids", 2)]),
        ("CLAIM[c2]: a\nRELATION: c2 supports c1", [("gap in ids", 1), ("unknown id", 2), ("no central claim", 0)]),
        ("CLAIM[c1]: a\nRELATION: c2 supports c1", [("unknown id", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c2]: b\nRELATION: c2 proves c1", [("unrelated claim", 2), ("unknown label", 3)]),
        ("CLAIM[c1]: a\nRELATION: c1 supports c1", [("relates to itself", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c2]: b", [("unrelated claim", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c2] (Dr. No): b\nRELATION: c2 supports c1", [("unreadable", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c2] (Docu", [("unreadable", 2)]),
    ],
)
def test_each_defect_has_a_name_and_a_line(reply, flaws):
    assert [(flaw.defect, flaw.line) for flaw in parse(reply).flaws] == flaws


CLAIM_133 = Citations(
    cited=frozenset({"16280642", "12640810", "6969753"}),
    gold=frozenset({"6969753", "17934082", "38485364", "16280642", "12640810"}),
    in_prompt=frozenset({"6969753", "17934082", "38485364", "16280642", "12640810"}),
)
CLAIM_179 = Citations(
    cited=frozenset({"17450673", "23557241"}),
    gold=frozenset({"16322674", "27123743", "23557241", "17450673"}),
    in_prompt=frozenset({"16322674", "27123743", "23557241", "17450673"}),
)
ids = st.frozensets(st.sampled_from("abcdef"))


def citations(cited: str, gold: str, prompt: str) -> Citations:
    return Citations(*(frozenset(ids) for ids in (cited, gold, prompt)))


@pytest.mark.parametrize(("citations", "recall"), [(CLAIM_133, 3 / 5), (CLAIM_179, 2 / 4)])
def test_omitted_documents_lower_recall_and_not_existence(citations, recall):
    """Two claims that were reported as hallucinated citations: every id that was cited stood in the prompt."""
    assert citations.recall == recall
    assert citations.precision == 1.0
    assert citations.exists == 1.0
    assert citations.exact is True
    assert citations.complete is False


@pytest.mark.parametrize(
    ("citations", "values"),
    [
        # An invented id is complete but not exact.
        (citations("129", "12", "12"), {"complete": True, "exact": False, "exists": 2 / 3, "recall": 1.0}),
        # Citing nothing has recall but no precision.
        (
            citations("", "1", "1"),
            {"precision": None, "exists": None, "recall": 0.0, "any": False, "exact": False, "complete": False},
        ),
        # Without gold documents recall does not apply.
        (citations("1", "", "1"), {"recall": None, "any": None, "exact": None, "exists": 1.0}),
    ],
)
def test_the_shares_of_citations_have_their_denominators(citations, values):
    assert {name: getattr(citations, name) for name in values} == values


@given(ids, ids, ids)
def test_exact_means_precision_1_and_complete_means_recall_1(cited, gold, prompt):
    citations = Citations(cited, gold, prompt)

    if gold:
        assert citations.exact == (citations.precision == 1.0)
        assert citations.complete == (citations.recall == 1.0)
    if citations.exact:
        assert citations.any


def test_ids_echoed_from_the_prompt_count_for_thinker():
    gold = Gold("a", "SUPPORT", ("7",), {"7": (0,)}, {})

    assert thinker.citation_valid("Document 7: title", gold)
    assert thinker.evidence_overlap("Document 8: title", gold) == 0.0


CLAIMS = [Claim(f"c{k}", "") for k in range(1, 5)]
edges = st.lists(st.tuples(st.sampled_from("1234"), st.sampled_from("1234")), max_size=8)


def supports(*pairs: str) -> list[Relation]:
    return [Relation(f"c{pair[0]}", "supports", f"c{pair[1]}") for pair in pairs]


@pytest.mark.parametrize(
    ("pairs", "holes", "of_simple_graph"),
    [
        (["21", "31", "41"], 0, 0),  # a star
        (["21", "31", "32"], 1, 1),  # a triangle
        (["12", "21"], 1, 0),  # two claims that support each other
        (["19", "91", "21"], 0, 0),  # relations of unknown claims do not count
    ],
)
def test_beta1_counts_the_holes(pairs, holes, of_simple_graph):
    assert beta1(CLAIMS, supports(*pairs)) == holes
    assert beta1(CLAIMS, supports(*pairs), multigraph=False) == of_simple_graph


@given(edges)
def test_beta1_equals_the_formula_by_networkx(pairs):
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiGraph()
    graph.add_nodes_from(claim.id for claim in CLAIMS)
    graph.add_edges_from((f"c{a}", f"c{b}") for a, b in pairs)
    expected = graph.number_of_edges() - graph.number_of_nodes() + networkx.number_connected_components(graph)

    assert beta1(CLAIMS, supports(*(a + b for a, b in pairs))) == expected


@pytest.mark.parametrize(
    ("labels", "conflict"),
    [
        (["supports", "refutes"], True),
        (["supports", "supports"], False),
        (["refutes", "contrasts"], False),
        ([], False),
    ],
)
def test_polarity_conflicts_when_c1_is_supported_and_refuted(labels, conflict):
    relations = [Relation(f"c{k}", label, "c1") for k, label in enumerate(labels, start=2)]

    assert polarity_conflict(relations) is conflict
