"""The graph of claims and relations: holes (first Betti number), circular reasoning, and mixed evidence."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from pytest_crucible.presets.cns3.claims import CENTRAL, Claim, Relation
from pytest_crucible.records.errors import SpecError

# The number of simple cycles grows exponentially with the graph: cycles above this number, and longer ones, are not listed.
MAX_CYCLES, LONGEST_CYCLE = 100, 12


def beta1(claims: Iterable[Claim], relations: Iterable[Relation], *, multigraph: bool = True) -> int:
    """Return the first Betti number of the undirected graph, E - V + C: the relations that could go before it falls apart.

    As a multigraph, two claims that relate to each other form a hole; as a simple graph (Thinker's reading), both relations are
    one edge. Relations of unknown claims do not count.

    >>> claims = [Claim("c1", ""), Claim("c2", "")]
    >>> both = [Relation("c1", "supports", "c2"), Relation("c2", "supports", "c1")]
    >>> beta1(claims, both), beta1(claims, both, multigraph=False)
    (1, 0)
    """
    parent = {claim.id: claim.id for claim in claims}
    edges = [
        (relation.source, relation.target)
        for relation in relations
        if relation.source in parent and relation.target in parent
    ]
    if not multigraph:
        edges = list({tuple(sorted(edge)): edge for edge in edges}.values())
    unions = sum(_join(parent, *edge) for edge in edges)
    return len(edges) - unions  # a spanning forest has V - C edges


def _join(parent: dict[str, str], first: str, second: str) -> bool:
    """Unite the trees of two claims; return whether they were separate."""
    roots = _root(parent, first), _root(parent, second)
    parent[roots[0]] = roots[1]
    return roots[0] != roots[1]


def _root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        # Path halving keeps the trees flat.
        parent[name] = name = parent[parent[name]]
    return name


def cycles(claims: Iterable[Claim], relations: Iterable[Relation]) -> tuple[tuple[str, ...], ...]:
    """Return cycles of claims that support each other, at most 100, each of at most 12 claims from its first id.

    Raises SpecError if networkx is not installed, but only for a graph with more relations than a tree.

    >>> cycles([Claim("c1", ""), Claim("c2", "")], [Relation("c1", "supports", "c2"), Relation("c2", "supports", "c1")])
    (('c1', 'c2'),)
    """
    ids = {claim.id for claim in claims}
    edges = [(source.source, source.target) for source in relations if source.source in ids and source.target in ids]
    loops = [(source,) for source, other in dict.fromkeys(edges) if source == other]
    # Most replies are stars, so that networkx is rarely needed, and seldom imported.
    if not _may_turn(edges):
        return tuple(loops)
    try:
        import networkx
    except ImportError:
        raise SpecError('cycles of claims need networkx: pip install "pytest-crucible[cns3]"') from None
    graph = networkx.DiGraph(edge for edge in edges if edge[0] != edge[1])
    circles = itertools.islice(networkx.simple_cycles(graph, length_bound=LONGEST_CYCLE), MAX_CYCLES)
    return tuple(sorted([*loops, *map(_from_first, circles)]))


def _may_turn(edges: Sequence[tuple[str, str]]) -> bool:
    """Return whether a supported claim supports another one. Without such a claim, as in most replies, there are no cycles."""
    return not {source for source, target in edges if source != target}.isdisjoint(
        target for source, target in edges if source != target
    )


def _from_first(cycle: Sequence[str]) -> tuple[str, ...]:
    start = cycle.index(min(cycle))
    return (*cycle[start:], *cycle[:start])


def polarity_conflict(relations: Iterable[Relation]) -> bool:
    """Return whether the central claim is both supported and refuted: right if the documents disagree, and no error of the reply.

    >>> polarity_conflict([Relation("c2", "supports", "c1"), Relation("c3", "refutes", "c1")])
    True
    """
    labels = {relation.label for relation in relations if relation.target == CENTRAL}
    return {"supports", "refutes"} <= labels
