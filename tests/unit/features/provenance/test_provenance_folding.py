"""Alike nodes as one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from timeline_builders import a_graph, a_node

from pytest_crucible.features.provenance.exports.folding import fold_alike, in_layers
from pytest_crucible.features.provenance.graph import Graph, Relation


def test_replies_to_samples_are_one_node_and_those_of_another_arm_another():
    nodes = [a_node(key) for key in ("adapter:v1", "adapter:v2", *(f"reply:{k}" for k in range(20)))]
    relations = tuple(Relation(f"reply:{k}", "derived from", f"adapter:v{1 + k % 2}") for k in range(20))

    folded = fold_alike(Graph(nodes={node.key: node for node in nodes}, relations=relations), few=8)

    assert [node.label for node in folded.nodes.values()] == [
        "adapter:v1",
        "adapter:v2",
        "reply:0 and 9 more of its kind",
        "reply:1 and 9 more of its kind",
    ]
    assert [(each.source, each.target) for each in folded.relations] == [
        ("reply:0", "adapter:v1"),
        ("reply:1", "adapter:v2"),
    ]


def test_few_nodes_stay_apart():
    assert fold_alike(a_graph(), few=8) == a_graph()


def test_layers_run_from_the_verdict_to_the_file():
    assert [[node.type for node in layer] for layer in in_layers(a_graph())] == [
        ["verdict"],
        ["reply", "reply"],
        ["run"],
        ["adapter"],
        ["file"],
    ]


KEYS = [f"{type_}:{k}" for type_ in ("verdict", "reply", "file") for k in range(4)]
GRAPHS = st.sets(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=30).map(
    lambda pairs: Graph(
        nodes={key: a_node(key) for key in KEYS},
        relations=tuple(
            Relation(source, "derived from", target) for source, target in sorted(pairs) if source < target
        ),
    )
)


@given(GRAPHS, st.integers(0, 4))
def test_folding_keeps_which_types_are_related_and_every_node_is_in_one_layer(graph, few):
    folded = fold_alike(graph, few)

    def types(of: Graph) -> set[tuple[str, str]]:
        return {(of.nodes[each.source].type, of.nodes[each.target].type) for each in of.relations}

    # A relation within what became one node is not drawn.
    assert types(folded) <= types(graph)
    assert {pair for pair in types(graph) if pair[0] != pair[1]} <= types(folded)
    assert sorted(node.key for layer in in_layers(graph) for node in layer) == sorted(graph.nodes)
    places = {node.key: place for place, layer in enumerate(in_layers(graph)) for node in layer}
    assert all(places[each.source] < places[each.target] for each in graph.relations)
