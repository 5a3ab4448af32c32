"""Graphs in which nodes that are alike are one, for pictures: a thousand samples are not a thousand boxes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_crucible.features.provenance.graph import Graph, Node, Relation
from pytest_crucible.report.diagrams import layers


def fold_alike(graph: Graph, few: int) -> Graph:
    """Return the graph with alike nodes as one: those of a type with more than `few` nodes that have equal relations.

    Relations are equal if they lead to the same node, or to nodes that are alike. With `few` = 0 nodes of a type are one.
    """
    classes = _classes(graph, few)
    members: dict[str, list[Node]] = defaultdict(list)
    for key, name in classes.items():
        members[name].append(graph.nodes[key])
    nodes = {name: _join(name, alike) for name, alike in members.items()}
    relations = dict.fromkeys(
        Relation(classes[each.source], each.kind, classes[each.target]) for each in graph.relations
    )
    return Graph(nodes=nodes, relations=tuple(each for each in relations if each.source != each.target))


def _classes(graph: Graph, few: int) -> Mapping[str, str]:
    """Return for each key the key that stands for all nodes like it."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for key, node in graph.nodes.items():
        by_type[node.type].append(key)
    alike = {key: keys[0] if len(keys) > few else key for keys in by_type.values() for key in keys}
    # Colour refinement: nodes of a class whose relations lead to different classes are parted, until none are.
    while few and len(set((refined := _refine(graph, alike)).values())) > len(set(alike.values())):
        alike = refined
    return alike


def _refine(graph: Graph, alike: Mapping[str, str]) -> dict[str, str]:
    around: dict[str, set[tuple[str, bool, str]]] = defaultdict(set)
    for each in graph.relations:
        around[each.source].add((each.kind, True, alike[each.target]))
        around[each.target].add((each.kind, False, alike[each.source]))
    first: dict[tuple[str, frozenset[tuple[str, bool, str]]], str] = {}
    return {key: first.setdefault((name, frozenset(around[key])), key) for key, name in alike.items()}


def node_text(node: Node) -> str:
    """Return what a picture says of a node: an entity with its type, unless its label begins with it.

    >>> node_text(Node(key="dataset:9f3c", kind="entity", type="dataset", label="sums.jsonl"))
    'dataset: sums.jsonl'
    """
    return node.label if node.kind == "activity" or node.label.startswith(node.type) else f"{node.type}: {node.label}"


def _join(key: str, alike: Sequence[Node]) -> Node:
    first = alike[0]
    if len(alike) == 1:
        return first
    return replace(first, key=key, label=f"{first.label} and {len(alike) - 1:,} more of its kind", facts={})


def in_layers(graph: Graph) -> Iterator[list[Node]]:
    """Yield the nodes in layers, from verdicts down: each stands below all that it is a source of."""
    edges = [(each.source, each.target) for each in graph.relations]
    return ([graph.nodes[key] for key in layer] for layer in layers(graph.nodes, edges))
