"""The lines on what depends on a file, a checkpoint or a commit, read from a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_crucible.features.provenance.graph import Graph, Node, targets
from pytest_crucible.features.provenance.why_lines import block_lines, short
from pytest_crucible.report.printable import printable_cell
from pytest_crucible.stats.number_format import quantity

# More would push the head of the list off the screen; --json has all.
MOST_LINES = 20


def dependent_lines(graph: Graph, title: str, start: Sequence[str]) -> Iterator[str]:
    """Yield the lines on what depends on a start, whose nodes have the keys `start`."""
    blocks = {name: list(lines) for name, lines in _blocks(graph, start).items()}
    blocks = {name: lines for name, lines in blocks.items() if lines}
    if not blocks:
        yield f"nothing in this store depends on {printable_cell(title)}"
        return
    counts = [quantity(len(lines), noun) for (_, noun), lines in blocks.items()]
    verb = "depends" if sum(map(len, blocks.values())) == 1 else "depend"
    yield f"{_join(counts)} {verb} on {printable_cell(title)}"
    for (name, _), lines in blocks.items():
        yield from block_lines(name, lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            yield from block_lines("", [f"and {len(lines) - MOST_LINES:,} more: --json has all"])


def _blocks(graph: Graph, start: Sequence[str]) -> dict[tuple[str, str], Iterator[str]]:
    """Return the lines by (name, noun) of their block."""
    nodes = [node for node in graph.nodes.values() if node.key not in start]
    baselines, versions = ([node for node in nodes if node.type == type] for type in ("baseline", "version"))
    return {
        ("adapters", "adapter"): _adapters(graph, start),
        ("sets", "training set"): (
            f"{node.label} {short(node.facts['sha256'])}" for node in nodes if node.type == "file"
        ),
        ("runs", "run"): _runs(graph),
        ("verdicts", "verdict"): (_verdict(node) for node in nodes if node.type == "verdict"),
        ("baselines", "promoted baseline"): (
            f"{node.label}: run {node.facts['run']}{'' if node.facts['is_current'] else ', until another was promoted'}"
            for node in baselines
        ),
        ("versions", "registered version"): (
            f"{node.label} ({node.facts['state']}): {node.facts['because']}" for node in versions
        ),
    }


def _adapters(graph: Graph, start: Sequence[str]) -> Iterator[str]:
    """Yield adapters, and weights that no adapter of a run has, each with the reason."""
    adapters = [node for node in graph.nodes.values() if node.type == "adapter"]
    opened = {source.key for node in adapters for source in targets(graph, node.key, "derived from")}
    for node in adapters:
        weights = [each for each in targets(graph, node.key, "derived from") if each.type == "checkpoint"]
        digest = weights[0].facts["weights"] if len(weights) == 1 else node.facts["identity"]
        if node.key not in start:
            yield f"{node.label} {short(digest)}: {_reason(graph, node, start)}"
    for node in graph.nodes.values():
        if node.type == "checkpoint" and node.key not in opened and node.key not in start:
            yield f"{_weights(node)}, in no run: {_reason(graph, node, start)}"


def _reason(graph: Graph, node: Node, start: Sequence[str]) -> str:
    """Return why an adapter or its weights depend on the start."""
    sources = targets(graph, node.key, "derived from")
    for source in (each for each in sources if each.type == "checkpoint"):
        if node.type == "adapter":
            return f"has the weights {_weights(source)}" if source.key in start else _reason(graph, source, start)
        return f"trained from {_weights(source)}"
    file = next((each for each in sources if each.type == "file"), None)
    if file is None:
        return "trained at this commit"
    is_trained = node.type == "checkpoint" or file.facts["sha256"] in node.facts["trained_on"]
    return f"{'trained on' if is_trained else 'made from'} {file.label}"


def _weights(node: Node) -> str:
    """Return the name of weights with the beginning of their hash, or of weights without a name this alone."""
    return " ".join(dict.fromkeys([node.facts["name"] or short(node.facts["weights"]), short(node.facts["weights"])]))


def _runs(graph: Graph) -> Iterator[str]:
    """Yield each run with its start, and the arms whose replies depend on it."""
    arms: dict[str, list[str]] = {}
    for node in graph.nodes.values():
        if node.type in ("replies", "verdict"):
            arms.setdefault(node.facts["run"], []).extend([node.facts["arm"]] if node.type == "replies" else [])
    started = {run: str(graph.nodes[f"run:{run}"].facts["started"]) for run in arms}
    for run in sorted(arms, key=lambda run: started[run]):
        names = ", ".join(dict.fromkeys(arms[run]))
        yield f"{run}  {started[run][:16].replace('T', ' ')}{f'  {names}' if names else ''}"


def _verdict(node: Node) -> str:
    proven = " (proven)" if node.facts["proven"] else ""
    return f"{node.facts['run']}  {node.facts['nodeid']}::{node.label}: {node.facts['state']}{proven}"


def _join(parts: Sequence[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last
