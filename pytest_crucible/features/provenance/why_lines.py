"""The lines of `crucible why`, read from a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.features.provenance.graph import Graph, Node, RelationKind
from pytest_crucible.report.printable import printable_cell
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import p_equals, ratio_with_interval, with_interval

_HEAD, _NAME = 40, 11
_DIGITS, _COMMIT_DIGITS = 4, 7


def verdict_lines(graph: Graph, verdict: Node) -> Iterator[str]:
    """Yield the lines on one verdict."""
    facts = verdict.facts
    state = "error in the suite" if facts["suite_error"] else facts["state"]
    proven = " (proven)" if facts["proven"] else ""
    yield f"{printable_cell(verdict.label):<{_HEAD}}  {state}: {printable_cell(facts['reason'])}{proven}"
    evidence = targets(graph, verdict.key, "derived from")
    for node in evidence:
        yield f"  {_numbers(node.facts)}"
    for node in evidence:
        if node.facts.get("method"):
            yield from _block("method", [str(node.facts["method"])])
    yield from _block("replies", list(_reply_texts(graph, verdict)))
    yield from _block("made from", list(_made_from(graph, verdict)))


def targets(graph: Graph, source: str, kind: RelationKind) -> list[Node]:
    """Return the nodes that a node is related to in this way."""
    return [graph.nodes[each.target] for each in graph.relations if (each.source, each.kind) == (source, kind)]


def ancestors(graph: Graph, start: str) -> Iterator[Node]:
    """Yield all nodes that a node depends on, the nearest first."""
    by_source: dict[str, list[str]] = {}
    for relation in graph.relations:
        by_source.setdefault(relation.source, []).append(relation.target)
    waiting, reached = [start], {start}
    for key in waiting:
        for target in by_source.get(key, ()):
            if target not in reached:
                reached.add(target)
                waiting.append(target)
                yield graph.nodes[target]


def _numbers(facts: Mapping[str, Any]) -> str:
    """Return `-0.092 [-0.154, -0.030]  n 240  lost 0  p = 0.005 (Holm, family of 1)`."""
    interval = None
    if facts["low"] is not None and facts["level"] is not None:
        interval = Interval(low=facts["low"], high=facts["high"], level=facts["level"], method="")
    parts = [_estimate(facts, interval), f"n {facts['n']:,}", f"lost {facts['lost']:,}"]
    if facts.get("p_adjusted") is not None and facts["family_size"] is not None:
        parts.append(f"{p_equals(facts['p_adjusted'])} (Holm, family of {facts['family_size']})")
    return "  ".join(parts)


def _estimate(facts: Mapping[str, Any], interval: Interval | None) -> str:
    if facts.get("is_ratio"):
        return ratio_with_interval(facts["estimate"], interval)
    return with_interval(facts["estimate"], interval, sign="is_ratio" in facts)


def _block(name: str, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"{'' if number else name:<{_NAME}}{printable_cell(line)}"


def _reply_texts(graph: Graph, verdict: Node) -> Iterator[str]:
    by_arm: dict[str, list[str]] = {}
    for node in ancestors(graph, verdict.key):
        if node.type == "replies":
            by_arm.setdefault(node.facts["arm"], []).append(node.label)
    yield "; ".join(f"{arm}: {', '.join(texts)}" for arm, texts in by_arm.items())


def _made_from(graph: Graph, verdict: Node) -> Iterator[str]:
    nodes = list(ancestors(graph, verdict.key))
    by_type = {node.type: node for node in nodes}
    parts = [f"{word} {_short(by_type[type].facts[fact])}" for type, word, fact in _PARTS if type in by_type]
    commits = [node for node in nodes if node.type == "commit"]
    parts += [f"commit {_commit(node.facts)}" for node in commits]
    yield ", ".join(parts)
    for node in nodes:
        if node.type == "adapter":
            files = targets(graph, node.key, "derived from")
            names = ", ".join(f"{file.label} {_short(file.facts['sha256'])}" for file in files)
            yield f"{node.label} {_short(node.facts['identity'])}{f': {names}' if names else ''}"


_PARTS = (("dataset", "dataset", "sha256"), ("metrics", "metric", "sha256"), ("test", "test", "sha256"))


def _short(digest: str | None) -> str:
    return digest[:_DIGITS] if digest else "unknown"


def _commit(facts: Mapping[str, Any]) -> str:
    if not facts["commit"]:
        return "unknown"
    return f"{facts['commit'][:_COMMIT_DIGITS]}{' with uncommitted changes' if facts['dirty'] else ''}"
