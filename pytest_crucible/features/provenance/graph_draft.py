"""A graph that is being built."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from pytest_crucible.features.provenance.graph import Graph, Node, NodeKind, Relation, RelationKind
from pytest_crucible.quick_dataclass import dataclass


@dataclass
class GraphDraft:
    """Collects nodes and relations. What is added twice is there once, with the facts of both."""

    nodes: dict[str, Node] = field(default_factory=dict)
    relations: dict[Relation, None] = field(default_factory=dict)

    def entity(self, type: str, name: str, label: str, /, **facts: Any) -> str:
        """Add an entity, and return its key."""
        return self._add("entity", type, name, label, facts)

    def activity(self, type: str, name: str, label: str, /, **facts: Any) -> str:
        """Add an activity, and return its key."""
        return self._add("activity", type, name, label, facts)

    def relate(self, source: str, kind: RelationKind, target: str) -> None:
        """Add a relation between the nodes with these keys."""
        self.relations[Relation(source, kind, target)] = None

    def build(self) -> Graph:
        """Return the graph."""
        return Graph(self.nodes, tuple(self.relations))

    def _add(self, kind: NodeKind, type: str, name: str, label: str, facts: dict[str, Any]) -> str:
        key = f"{type}:{name}"
        former = self.nodes.get(key)
        if former is not None:
            # What one place does not know, such as the name of a parent's weights, another one may.
            facts |= {fact: value for fact, value in former.facts.items() if value is not None}
            label = label if former.label == name else former.label
        self.nodes[key] = Node(key=key, kind=kind, type=type, label=label, facts=facts)
        return key
