"""The section on nodes: what each has sent, and which scores differently from the others. It changes no verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_crucible.features.scale.nodes import (
    NodeDifference,
    NodeSummary,
    compare_nodes,
    load_blocks,
    summarise_nodes,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Note, Row, Table, View
from pytest_crucible.records.serialize import pick, to_plain
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import p_equals, with_interval
from pytest_crucible.store.experiments import StoredExperiment

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of one experiment, and their differences."""

    alpha: float
    nodes: tuple[NodeSummary, ...]
    differences: tuple[NodeDifference, ...]
    has_several_arms: bool


def compute(inputs: SectionInputs) -> Nodes | None:
    """Return the nodes of an experiment; None for one that was sent by the session's own process.

    Of an experiment that is larger than memory no node is compared: its scores are not here.
    """
    stored = inputs.stored
    blocks = load_blocks(stored.store, stored.key) if isinstance(stored, StoredExperiment) else []
    if not blocks:
        return None
    arms = [arm.name for arm in inputs.plan.arms]
    values = {
        (name, metric): scores.values
        for metric, of_arms in inputs.scores.items()
        for name, scores in zip(arms, of_arms, strict=True)
    }
    clusters = inputs.clusters
    # Without groups each sample is one of its own.
    groups = np.arange(inputs.samples) if clusters is None else np.asarray(clusters, dtype=np.int64)
    return Nodes(
        alpha=inputs.alpha,
        nodes=tuple(summarise_nodes(blocks)),
        differences=tuple(compare_nodes(blocks, values, groups, level=1 - inputs.alpha)),
        has_several_arms=len(arms) > 1,
    )


def claims(nodes: Nodes) -> Sequence[Claim]:
    """Return a claim for each node, metric and arm, in a family of their own."""
    return tuple(
        Claim(subject=f"{each.node}: {each.metric} of {each.arm}", p_value=each.test.p_value)
        for each in nodes.differences
    )


def view(nodes: Nodes, claims: Sequence[Claim]) -> View:
    """Return a table of the nodes, and a note for each that is proven to score differently."""
    pairs = list(zip(nodes.differences, claims, strict=True))
    drifted = [pair for pair in pairs if _is_proven(nodes, pair[1])]
    return View(
        title="Nodes",
        tables=(nodes_table(nodes.nodes),),
        notes=tuple(Note(text=_sentence(nodes, *pair)) for pair in drifted) or _no_drift(nodes),
        document={
            "nodes": [to_plain(node) for node in nodes.nodes],
            "differences": [_document(nodes, *pair) for pair in pairs],
        },
    )


def nodes_table(nodes: Sequence[NodeSummary]) -> Table:
    """Return a table with a row for each node."""
    numbers = ("workers", "blocks", "samples", "replies", "replies/s", "lost", "retries", "dealt again")
    return Table(
        title="Nodes",
        heads=("node", *numbers),
        rows=tuple(Row(cells=_cells(node)) for node in nodes),
        numbers=numbers,
        verbosity=1,
    )


def _cells(node: NodeSummary) -> tuple[str, ...]:
    rate = "" if node.units_per_second is None else f"{node.units_per_second:,.1f}"
    counts = (node.workers, node.blocks, node.samples, node.units)
    return (
        node.node,
        *(f"{count:,}" for count in counts),
        rate,
        *(f"{count:,}" for count in (node.lost, node.retries, node.dealt_again)),
    )


def _is_proven(nodes: Nodes, claim: Claim) -> bool:
    return claim.p_adjusted is not None and claim.p_adjusted <= nodes.alpha


def _no_drift(nodes: Nodes) -> tuple[Note, ...]:
    """Return a note that equal nodes were looked for; none where there is one node alone, or too few blocks."""
    if not nodes.differences:
        return ()
    compared = sorted({each.node for each in nodes.differences})
    return (Note(text=f"no node is proven to score differently from the others: {', '.join(compared)}", verbosity=1),)


def _sentence(nodes: Nodes, difference: NodeDifference, claim: Claim) -> str:
    arm = f" of {difference.arm}" if nodes.has_several_arms else ""
    numbers = with_interval(difference.test.estimate, difference.test.interval, sign=True)
    own, others = difference.test.n
    return (
        f"{difference.node} scores differently: {difference.metric}{arm} {numbers}, n {own:,} against {others:,}, "
        f"{p_equals(claim.p_adjusted)}; "
        "check its server"
    )


def _document(nodes: Nodes, difference: NodeDifference, claim: Claim) -> dict[str, object]:
    return {
        **pick(difference, "node arm metric"),
        "difference": difference.test.estimate,
        **interval_ends(difference.test.interval),
        "n": list(difference.test.n),
        "p_adjusted": claim.p_adjusted,
        "proven": _is_proven(nodes, claim),
    }
