"""The graph of claims and relations: holes (the first Betti number), circular reasoning, and mixed evidence."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from pytest_crucible.cns3.claims import CENTRAL, Claim, Relation
from pytest_crucible.errors import SpecError

MOST_CYCLES, LONGEST_CYCLE = 100, 12
"""The number of simple cycles of a graph grows exponentially: no more are listed, and no longer ones are looked for."""


def beta1(claims: Iterable[Claim], relations: Iterable[Relation], *, multigraph: bool = True) -> int:
    """The first Betti number of the undirected graph, E - V + C: how many relations could go before it falls apart.

    As a multigraph two claims that relate to each other are a hole; as a simple graph (Thinker's reading) both relations are
    one edge. Relations of unknown claims do not count.

    >>> claims = [Claim("c1", ""), Claim("c2", "")]
    >>> both = [Relation("c1", "supports", "c2"), Relation("c2", "supports", "c1")]
    >>> beta1(claims, both), beta1(claims, both, multigraph=False)
    (1, 0)
    """
    parent = {claim.id: claim.id for claim in claims}
    edges = [(one.source, one.target) for one in relations if one.source in parent and one.target in parent]
    if not multigraph:
        edges = list({tuple(sorted(edge)): edge for edge in edges}.values())
    joined = sum(_join(parent, *edge) for edge in edges)
    return len(edges) - joined  # a spanning forest has V - C edges


def _join(parent: dict[str, str], one: str, other: str) -> bool:
    """Unite two trees; whether they were two."""
    roots = _root(parent, one), _root(parent, other)
    parent[roots[0]] = roots[1]
    return roots[0] != roots[1]


def _root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        parent[name] = name = parent[parent[name]]
    return name


def cycles(claims: Iterable[Claim], relations: Iterable[Relation]) -> tuple[tuple[str, ...], ...]:
    """Circles of claims that rest on each other, at most 100, none longer than 12, each from its first id on.

    Raises SpecError where networkx is not installed, and then only for a graph that has more relations than a tree.

    >>> cycles([Claim("c1", ""), Claim("c2", "")], [Relation("c1", "supports", "c2"), Relation("c2", "supports", "c1")])
    (('c1', 'c2'),)
    """
    known = {claim.id for claim in claims}
    edges = [(one.source, one.target) for one in relations if one.source in known and one.target in known]
    loops = [(one,) for one, other in dict.fromkeys(edges) if one == other]
    if not _may_turn(edges):
        return tuple(loops)
    try:
        import networkx
    except ImportError:
        raise SpecError('circles of claims need networkx: pip install "pytest-crucible[cns3]"') from None
    graph = networkx.DiGraph(edge for edge in edges if edge[0] != edge[1])
    found = itertools.islice(networkx.simple_cycles(graph, length_bound=LONGEST_CYCLE), MOST_CYCLES)
    return tuple(sorted([*loops, *map(_from_first, found)]))


def _may_turn(edges: Sequence[tuple[str, str]]) -> bool:
    """Does some claim that others rest on rest on another one itself? Stars, which most replies are, cannot turn."""
    return not {one for one, other in edges if one != other}.isdisjoint(other for one, other in edges if one != other)


def _from_first(cycle: Sequence[str]) -> tuple[str, ...]:
    start = cycle.index(min(cycle))
    return (*cycle[start:], *cycle[:start])


def polarity_conflict(relations: Iterable[Relation], *, of: str = CENTRAL) -> bool:
    """Is a claim both supported and refuted? Where the documents disagree that is right, and no fault of the reply.

    >>> polarity_conflict([Relation("c2", "supports", "c1"), Relation("c3", "refutes", "c1")])
    True
    """
    labels = {one.label for one in relations if one.target == of}
    return {"supports", "refutes"} <= labels
