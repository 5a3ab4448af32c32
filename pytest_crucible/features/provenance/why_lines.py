"""The lines of `crucible why`, read from a graph, and the same as views of the verdicts of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.provenance.build_graph import build_graph
from pytest_crucible.features.provenance.graph import Graph, Node, ancestors, targets
from pytest_crucible.features.provenance.load_verdict_facts import load_verdict_facts
from pytest_crucible.records import Note, Row, Run, Table, View
from pytest_crucible.report.printable import printable_cell
from pytest_crucible.stats.number_format import p_equals
from pytest_crucible.store.runs import RunStore

_HEAD, _NAME = 40, 11
_DIGITS, _COMMIT_DIGITS = 4, 7


def verdict_lines(graph: Graph, verdict: Node) -> Iterator[str]:
    """Yield the lines on one verdict."""
    yield f"{printable_cell(verdict.label):<{_HEAD}}  {finding_line(verdict)}"
    numbers = numbers_line(graph, verdict)
    if numbers:
        yield f"  {numbers}"
    for name, lines in verdict_parts(graph, verdict):
        yield from block_lines(name, lines)


def finding_line(verdict: Node) -> str:
    """Return `missed: v2 differs, and its mean is lower (proven)`."""
    facts = verdict.facts
    state = "error in the suite" if facts["suite_error"] else facts["state"]
    state += " (simulated)" if facts["simulated"] else ""
    return f"{state}: {printable_cell(facts['finding'])}"


def numbers_line(graph: Graph, verdict: Node) -> str:
    """Return `-0.092 [-0.154, -0.030]  n 240  lost 0  p = 0.005 (Holm, 1 of 1)`; empty without a number."""
    numbers = _evidence_facts(graph, verdict)
    return _numbers(numbers) if numbers.get("numbers_text") else ""


def verdict_parts(graph: Graph, verdict: Node) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what a verdict is made of: its rule, method, pairs, fragility, influence, replies and their origin, as lines."""
    facts, numbers = verdict.facts, _evidence_facts(graph, verdict)
    yield "rule", [facts["rule"]] if facts["rule"] else []
    yield "method", [numbers["method"]] if numbers.get("method") else []
    yield "pairs", _pairs(graph, targets(graph, verdict.key, "derived from")[0]) if numbers.get("pairs") else []
    yield "fragility", [facts["fragility_text"]]
    yield "influence", [numbers["influence_text"]] if numbers else []
    yield "replies", list(_reply_texts(graph, verdict))
    yield "made from", list(_made_from(graph, verdict))


def _evidence_facts(graph: Graph, verdict: Node) -> Mapping[str, Any]:
    """Return the numbers of what decides a verdict; empty where no score does."""
    evidence = targets(graph, verdict.key, "derived from")
    return evidence[0].facts if evidence else {}


def _numbers(facts: Mapping[str, Any]) -> str:
    parts = [str(facts["numbers_text"]), f"n {facts['n']:,}", f"lost {facts['lost']:,}"]
    if facts["p_adjusted"] is not None:
        position = f"{facts['holm_position']} of {facts['family_size']}"
        parts.append(f"{p_equals(facts['p_adjusted'])} (Holm, {position})")
    return "  ".join(parts)


def _pairs(graph: Graph, comparison: Node) -> list[str]:
    pairs, nodes = comparison.facts["pairs"], targets(graph, comparison.key, "derived from")
    ours, theirs = dict.fromkeys(node.facts["arm"] for node in nodes if node.type == "observations")
    counts = ("both", "both right"), ("only_candidate", f"only {ours}"), ("only_baseline", f"only {theirs}")
    return [", ".join(f"{pairs[name]:,} {words}" for name, words in (*counts, ("neither", "both wrong")))]


def block_lines(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield lines, the first of them behind a name."""
    for number, line in enumerate(lines):
        yield f"{'' if number else name:<{_NAME}}{printable_cell(line)}"


def _reply_texts(graph: Graph, verdict: Node) -> Iterator[str]:
    by_arm: dict[str, list[str]] = {}
    for node in ancestors(graph, verdict.key):
        if node.type == "replies":
            by_arm.setdefault(node.facts["of"], []).append(node.label)
    if by_arm:
        yield "; ".join(f"{arm}: {', '.join(texts)}" for arm, texts in by_arm.items())


def _made_from(graph: Graph, verdict: Node) -> Iterator[str]:
    nodes = list(ancestors(graph, verdict.key))
    by_type = {node.type: node for node in nodes}
    parts = [_part_text(by_type[type]) for type in ("dataset", "metrics", "test") if type in by_type]
    parts += [f"commit {_commit(node)}" for node in nodes if node.type == "commit"]
    files = [node for node in nodes if node.type == "file" and node.facts.get("role")]
    yield ", ".join([*parts, *(f"{node.label} {short(node.facts['sha256'])}" for node in files)])
    for node in nodes:
        if node.type == "adapter":
            yield from _adapter_lines(graph, node)


def _part_text(node: Node) -> str:
    """Return `dataset 9f3c`; of metrics how many have the hash together."""
    names = node.facts.get("names")
    if names is None or len(names) == 1:
        return f"{node.type.removesuffix('s')} {short(node.facts['sha256'])}"
    return f"{len(names)} metrics {short(node.facts['sha256'])}" if names else "scores of the test itself"


def _adapter_lines(graph: Graph, adapter: Node) -> Iterator[str]:
    """Yield `v2 5be0: recipe c90d, train.jsonl 0c1e, parent v1 88f1`; of several trainings, a line each."""
    sources = targets(graph, adapter.key, "derived from")
    weights = [node for node in sources if node.type == "checkpoint"]
    if len(weights) == 1:
        yield _with_details(adapter.label, weights[0].facts["weights"], _training_parts(graph, weights[0]))
        return
    files = [f"{node.label} {short(node.facts['sha256'])}" for node in sources if node.type == "file"]
    settings = [f"{name} {value}" for name, value in adapter.facts["settings"].items() if isinstance(value, str)]
    yield _with_details(adapter.label, adapter.facts["identity"], files or settings)
    for node in weights:
        yield f"  {_with_details(node.label, node.facts['weights'], _training_parts(graph, node))}"


def _with_details(name: str, digest: str | None, details: list[str]) -> str:
    return f"{name} {short(digest)}{': ' if details else ''}{', '.join(details)}"


def _training_parts(graph: Graph, weights: Node) -> list[str]:
    """Return what a training used: `recipe c90d`, `train.jsonl 0c1e`, `parent v1 88f1`."""
    parts = [f"step {weights.facts['step']}"] if weights.facts["step"] is not None else []
    trainings = targets(graph, weights.key, "generated by")
    used = [node for training in trainings for node in targets(graph, training.key, "used")]
    parts += [f"recipe {short(node.facts['sha256'])}" for node in used if node.type == "recipe"]
    parts += [f"{node.label} {short(node.facts['sha256'])}" for node in used if node.type == "file"]
    parents = [node for node in used if node.type == "checkpoint"]
    return [*parts, *(f"parent {node.facts['name'] or ''} {short(node.facts['weights'])}" for node in parents)]


def short(digest: str | None) -> str:
    """Return the beginning of a hash; `unknown` for None."""
    return digest[:_DIGITS] if digest else "unknown"


def _commit(node: Node) -> str:
    facts = node.facts
    if not facts["commit"]:
        return node.label
    return f"{facts['commit'][:_COMMIT_DIGITS]}{' with uncommitted changes' if facts['dirty'] else ''}"


def why_views(store: RunStore, run: Run) -> Mapping[tuple[str, str], View]:
    """Return the view of each verdict by its nodeid and subject. Raises StoreError."""
    graph = build_graph(store, run, load_verdict_facts(store, run).values())
    verdicts = (node for node in graph.nodes.values() if node.type == "verdict")
    return {(node.facts["nodeid"], node.facts["subject"]): _view(graph, node) for node in verdicts}


def _view(graph: Graph, verdict: Node) -> View:
    table = Table(title=f"Why {verdict.label}", heads=("part", "finding"), rows=tuple(_rows(graph, verdict)))
    return View(title=verdict.label, notes=(Note(text=finding_line(verdict)),), tables=(table,))


def _rows(graph: Graph, verdict: Node) -> Iterator[Row]:
    numbers = numbers_line(graph, verdict)
    parts = (("numbers", [numbers] if numbers else []), *verdict_parts(graph, verdict))
    # A part of several lines names itself in each, so that every row has a head.
    return (Row(cells=(name, line.strip())) for name, lines in parts for line in lines)
