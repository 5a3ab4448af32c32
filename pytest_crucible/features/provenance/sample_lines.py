"""The lines of `crucible why --sample`, read from a graph."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_crucible.features.provenance.graph import Graph, Node, targets
from pytest_crucible.report.printable import AN_ID, headed_lines, printable, printable_cell

_HEADS = ("verdict", "state", "weight", "scores", "without it", "decides alone")


def sample_lines(graph: Graph, run: str, sample: str) -> Iterator[str]:
    """Yield a table of the verdicts that a sample enters for each experiment, and those that it does not enter."""
    nodes = [node for node in graph.nodes.values() if node.type == "sample"]
    groups = sorted({node.facts["group"] for node in nodes if node.facts["group"]})
    of_group = f" (group {printable(', '.join(groups), AN_ID)})" if groups else ""
    yield f"sample {printable(sample, AN_ID)}{of_group} in run {run}"
    verdicts = [node for node in graph.nodes.values() if node.type == "verdict"]
    for nodeid in dict.fromkeys(node.facts["nodeid"] for node in verdicts):
        of_experiment = [node for node in verdicts if node.facts["nodeid"] == nodeid]
        yield from ("", printable_cell(nodeid))
        rows = [_row(graph, node) for node in of_experiment if node.facts["weight"] is not None]
        yield from headed_lines(_HEADS, rows) if rows else ()
        for node in of_experiment:
            if node.facts["no_part"]:
                yield f"{printable_cell(node.label)}: not weighed, {printable_cell(node.facts['no_part'])}"
    if not verdicts:
        yield "no verdict is about its experiments"


def _row(graph: Graph, verdict: Node) -> tuple[str, ...]:
    facts = verdict.facts
    without = f"{facts['state_without']}{', proven' if facts['proven_without'] else ''}"
    return (
        printable_cell(verdict.label),
        f"{facts['state']}{', proven' if facts['proven'] else ''}",
        f"1 of {facts['n']:,} ({facts['weight'] * 100:.2g} %)",
        printable_cell(", ".join(_scores(graph, verdict))),
        without,
        "yes" if facts["decides_alone"] else "no",
    )


def _scores(graph: Graph, verdict: Node) -> Iterator[str]:
    """Yield `v2 0, v1 1`; of several replies all scores."""
    scores: dict[str, list[str]] = {}
    for node in targets(graph, verdict.key, "derived from"):
        failure, value = node.facts.get("failure"), node.facts.get("value")
        score = "-" if value is None else f"{value:.4g}"
        scores.setdefault(node.facts["arm"], []).append(f"failed ({failure})" if failure else score)
    return (f"{arm} {' '.join(values)}" for arm, values in scores.items())
