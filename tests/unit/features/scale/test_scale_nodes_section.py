"""The section on nodes: which differences are findings, and what it says of them."""

from __future__ import annotations

import pytest

from pytest_crucible.features.scale import nodes_section
from pytest_crucible.features.scale.nodes import NodeDifference, NodeSummary
from pytest_crucible.features.scale.nodes_section import Nodes
from pytest_crucible.records import Claim
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.results import Significance


def difference(node, estimate, low, high, p_value):
    interval = Interval(low=low, high=high, level=0.95, method="clustered in two ways")
    test = Significance(method="t", statistic=1.0, p_value=p_value, estimate=estimate, interval=interval, n=(640, 1920))
    return NodeDifference(node=node, arm="v2", metric="accuracy", test=test)


def nodes_of(*differences, has_several_arms=True):
    counts = {"workers": 1, "blocks": 10, "samples": 640, "units": 1280, "lost": 2, "retries": 3, "dealt_again": 1}
    summaries = tuple(NodeSummary(node=each.node, **counts, units_per_second=61.25) for each in differences)
    return Nodes(alpha=0.05, nodes=summaries, differences=differences, has_several_arms=has_several_arms)


def adjust(nodes, *p_values):
    return [
        Claim(subject=claim.subject, p_value=claim.p_value, p_adjusted=p_adjusted)
        for claim, p_adjusted in zip(nodes_section.claims(nodes), p_values, strict=True)
    ]


WORSE, LIKE = difference("gpu-3", -0.061, -0.09, -0.032, 0.0003), difference("gpu-0", 0.01, -0.02, 0.04, 0.03)


def test_a_node_differs_only_where_the_adjusted_p_value_is_small():
    nodes = nodes_of(WORSE, LIKE)

    view = nodes_section.view(nodes, adjust(nodes, 0.0006, 0.06))

    assert [note.text for note in view.notes] == [
        "gpu-3 scores differently: accuracy of v2 -0.061 [-0.090, -0.032], n 640 against 1,920, p = 6e-04; check its server"
    ]
    assert [each["proven"] for each in view.document["differences"]] == [True, False]


def test_without_a_difference_a_quiet_note_says_what_was_compared():
    nodes = nodes_of(WORSE, LIKE)

    (note,) = nodes_section.view(nodes, adjust(nodes, 0.2, 1.0)).notes

    assert note.text == "no node is proven to score differently from the others: gpu-0, gpu-3"
    assert note.verbosity == 1


def test_one_arm_is_not_named():
    nodes = nodes_of(WORSE, has_several_arms=False)

    (note,) = nodes_section.view(nodes, adjust(nodes, 0.001)).notes

    assert note.text.startswith("gpu-3 scores differently: accuracy -0.061")


def test_no_claim_can_fail_the_session():
    assert not nodes_section.decides
    assert not any(claim.fails for claim in nodes_section.claims(nodes_of(WORSE)))


def test_a_row_has_what_the_node_has_sent():
    (row,) = nodes_section.view(nodes_of(WORSE), adjust(nodes_of(WORSE), 1.0)).tables[0].rows

    assert row.cells == ("gpu-3", "1", "10", "640", "1,280", "61.2", "2", "3", "1")


@pytest.mark.parametrize("p_adjusted", [None, 0.051])
def test_a_claim_without_a_small_adjusted_p_value_is_not_proven(p_adjusted):
    nodes = nodes_of(WORSE)

    assert not nodes_section.view(nodes, adjust(nodes, p_adjusted)).document["differences"][0]["proven"]
