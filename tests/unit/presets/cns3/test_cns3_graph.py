"""Holes, circles and conflicts in the graph of claims."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.presets.cns3.claims import MAX_CYCLES, Claim, Relation, beta1, cycles, polarity_conflict

CLAIMS = [Claim(f"c{k}", "") for k in range(1, 5)]
edges = st.lists(st.tuples(st.sampled_from("1234"), st.sampled_from("1234")), max_size=8)


def supports(*pairs: str) -> list[Relation]:
    return [Relation(f"c{pair[0]}", "supports", f"c{pair[1]}") for pair in pairs]


def test_a_star_has_no_hole_and_no_circle():
    star = supports("21", "31", "41")

    assert beta1(CLAIMS, star) == 0
    assert cycles(CLAIMS, star) == ()


def test_a_hole_need_not_be_a_circle():
    triangle = supports("21", "31", "32")

    assert beta1(CLAIMS, triangle) == beta1(CLAIMS, triangle, multigraph=False) == 1
    assert cycles(CLAIMS, triangle) == ()


def test_two_claims_that_rest_on_each_other_are_a_circle_and_a_hole():
    both = supports("12", "21")

    assert cycles(CLAIMS, both) == (("c1", "c2"),)
    assert beta1(CLAIMS, both) == 1
    assert beta1(CLAIMS, both, multigraph=False) == 0


def test_a_claim_that_supports_itself_is_a_circle():
    assert cycles(CLAIMS, supports("11", "21")) == (("c1",),)


def test_relations_of_unknown_claims_do_not_count():
    assert beta1(CLAIMS, supports("19", "91", "21")) == 0
    assert cycles(CLAIMS, supports("19", "91")) == ()


def test_the_list_of_circles_is_bounded():
    many = [Claim(f"c{k}", "") for k in range(30)]
    everything = [Relation(a.id, "supports", b.id) for a in many for b in many if a is not b]

    assert len(cycles(many, everything)) == MAX_CYCLES


@given(edges)
def test_beta1_is_that_of_networkx(pairs):
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiGraph()
    graph.add_nodes_from(claim.id for claim in CLAIMS)
    graph.add_edges_from((f"c{a}", f"c{b}") for a, b in pairs)
    expected = graph.number_of_edges() - graph.number_of_nodes() + networkx.number_connected_components(graph)

    assert beta1(CLAIMS, supports(*(a + b for a, b in pairs))) == expected


@given(edges)
def test_every_circle_is_one(pairs):
    present = {(f"c{a}", f"c{b}") for a, b in pairs}

    for cycle in cycles(CLAIMS, supports(*(a + b for a, b in pairs))):
        assert set(zip(cycle, (*cycle[1:], cycle[0]), strict=True)) <= present


@pytest.mark.parametrize(
    ("labels", "conflict"),
    [
        (["supports", "refutes"], True),
        (["supports", "supports"], False),
        (["refutes", "contrasts"], False),
        ([], False),
    ],
)
def test_a_claim_is_contested_when_it_is_supported_and_refuted(labels, conflict):
    relations = [Relation(f"c{k}", label, "c1") for k, label in enumerate(labels, start=2)]

    assert polarity_conflict(relations) is conflict
