"""The nodes of a run: what each has sent, and whether one scores differently from the others."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.plan import PlanValue
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.two_way import two_way_arms
from pytest_crucible.stats.results import Significance
from pytest_crucible.store.runs import RunStore

EXECUTOR = PlanValue[str]("executor", str, "")
"""Where the samples of an experiment were sent from, such as `ray`; empty: from the session's own process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBlock:
    """One block of samples, as the worker that sent it reported it."""

    number: int
    positions: tuple[int, ...]
    node: str
    worker: str
    started: float
    finished: float
    units: int
    lost: int
    retries: int
    dealt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """Everything that one node has sent."""

    node: str
    workers: int
    blocks: int
    samples: int
    units: int
    lost: int
    retries: int
    dealt_again: int
    """Blocks that another worker had held when it was lost."""
    units_per_second: float | None
    """Over the time from its first request to its last reply; None for a node that took no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDifference:
    """A node's scores of one metric in one arm, minus those of the nodes that it is compared with."""

    node: str
    arm: str
    metric: str
    test: Significance


def load_blocks(store: RunStore, experiment: int) -> list[SentBlock]:
    """Return the blocks of an experiment, in the order in which they were first dealt."""
    query = """
        SELECT number, positions, node, worker, started, finished, units, lost, retries, dealt
        FROM blocks WHERE experiment = :experiment ORDER BY number
    """
    names = "number positions node worker started finished units lost retries dealt".split()
    blocks = (dict(zip(names, row, strict=True)) for row in store.rows(query, experiment=experiment))
    return [SentBlock(**{**block, "positions": _positions(block["positions"])}) for block in blocks]


def _positions(stored: object) -> tuple[int, ...]:
    return tuple(json.loads(stored) if isinstance(stored, str) else stored)  # type: ignore[arg-type]  # PostgreSQL reads JSON


def summarise_nodes(blocks: Sequence[SentBlock]) -> list[NodeSummary]:
    """Return a summary of each node, by name."""
    by_node: dict[str, list[SentBlock]] = defaultdict(list)
    for block in blocks:
        by_node[block.node].append(block)
    return [_summary(node, by_node[node]) for node in sorted(by_node)]


def _summary(node: str, blocks: Sequence[SentBlock]) -> NodeSummary:
    seconds = max(block.finished for block in blocks) - min(block.started for block in blocks)
    units = sum(block.units for block in blocks)
    return NodeSummary(
        node=node,
        workers=len({block.worker for block in blocks}),
        blocks=len(blocks),
        samples=sum(len(block.positions) for block in blocks),
        units=units,
        lost=sum(block.lost for block in blocks),
        retries=sum(block.retries for block in blocks),
        dealt_again=sum(block.dealt > 1 for block in blocks),
        units_per_second=units / seconds if seconds > 0 else None,
    )


Values = Mapping[tuple[str, str], npt.NDArray[np.float64]]
"""Arm and metric -> each sample's value; NaN without one."""


def compare_nodes(
    blocks: Sequence[SentBlock], values: Values, groups: npt.NDArray[np.int64], *, level: float
) -> list[NodeDifference]:
    """Return each node's difference from the others, on each metric in each arm, by node.

    `groups` is a number for the group of each sample. Blocks are dealt at random, so that equal nodes have equal means. A node
    with a single block, or all others together with one, is not compared: nothing shows how blocks vary. A node that is proven
    to differ is not among the others of those that differ less: beside a bad node all good ones would differ, too.
    """
    node_of, block_of = _places(blocks, len(groups))
    left, first = sorted(set(node_of) - {""}), list[NodeDifference]()
    apart: list[NodeDifference] = []
    while left:
        among = np.isin(node_of, left)
        differences = [
            each for node in left for each in _compare(node, node_of, block_of, values, groups, among, level)
        ]
        first = first or differences
        farthest = min(differences, key=_p_value, default=None)
        # Of two nodes that differ, nothing shows which is the odd one.
        if farthest is None or len(left) == 2 or _p_value(farthest) * len(first) > 1 - level:
            return sorted([*apart, *differences], key=lambda each: each.node)
        apart += [each for each in differences if each.node == farthest.node]
        left.remove(farthest.node)
    return apart


def _p_value(difference: NodeDifference) -> float:
    p_value = difference.test.p_value
    return 1.0 if p_value is None else p_value


def _compare(
    node: str,
    node_of: npt.NDArray[np.str_],
    block_of: npt.NDArray[np.int64],
    values: Values,
    groups: npt.NDArray[np.int64],
    among: npt.NDArray[np.bool_],
    level: float,
) -> Iterator[NodeDifference]:
    """Yield a node's difference from the other nodes `among` whose samples it is compared."""
    for (arm, metric), of_samples in values.items():
        is_scored = among & (block_of >= 0) & ~np.isnan(of_samples)
        own, others = is_scored & (node_of == node), is_scored & (node_of != node)
        labels = [(block_of[side].tolist(), groups[side].tolist()) for side in (own, others)]
        try:
            test = two_way_arms(of_samples[own], of_samples[others], *labels, level=level)
        except NotEnoughData:
            continue
        yield NodeDifference(node=node, arm=arm, metric=metric, test=test)


def _places(blocks: Sequence[SentBlock], samples: int) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.int64]]:
    """Return the node and the block of each sample. In several rounds a sample belongs to the block that sent it last."""
    nodes = np.array([block.node for block in blocks] or [""])
    block_of = np.full(samples, -1, dtype=np.int64)
    for row, block in enumerate(blocks):
        block_of[list(block.positions)] = row
    return np.where(block_of >= 0, nodes[block_of], ""), block_of
