"""Error rate and power of the comparison of nodes, by simulation."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import at_least, at_most

from pytest_crucible.features.scale.nodes import SentBlock, compare_nodes
from pytest_crucible.stats import holm

pytestmark = pytest.mark.slow
ALPHA = 0.05


def deal(draw, values, hardness, speeds, size=64):
    """Blocks in random order, each to the worker that is free first. Hard samples take longer, and some workers too."""
    order, free = draw.permutation(len(values)), [(0.0, node) for node in range(len(speeds))]
    blocks = []
    for number, first in enumerate(range(0, len(values), size), start=1):
        positions = order[first : first + size]
        at, node = heapq.heappop(free)
        finished = at + (1 + 5 * hardness[positions].mean() + draw.exponential(0.2)) * speeds[node]
        heapq.heappush(free, (finished, node))
        names = {"node": f"gpu-{node}", "worker": f"gpu-{node}"}
        counts = {"units": len(positions), "lost": 0, "retries": 0, "dealt": 1}
        blocks.append(
            SentBlock(
                number=number, positions=tuple(positions.tolist()), started=at, finished=finished, **names, **counts
            )
        )
    return blocks


def drifted_nodes(draw, *, samples, groups, spread, speeds, size=64, drop=0.0):
    """The nodes that are said to score differently in a run of two arms; the first one loses a share of the right replies."""
    group = draw.integers(groups, size=samples) if groups else np.arange(samples)
    chance = 1 / (1 + np.exp(-0.5 - spread * draw.normal(size=groups or samples)[group]))
    arms = {(arm, "accuracy"): (draw.random(samples) < chance).astype(float) for arm in ("v2", "v1")}
    blocks = deal(draw, arms["v2", "accuracy"], 1 - chance, speeds, size)
    hit = np.zeros(samples, dtype=bool)
    for each in blocks:
        hit[list(each.positions)] = each.node == "gpu-0"
    values = {name: np.where(hit & (draw.random(samples) < drop), 0.0, scores) for name, scores in arms.items()}
    differences = compare_nodes(blocks, values, group, level=1 - ALPHA)
    adjusted = holm([each.test.p_value for each in differences]) if differences else []
    return {each.node for each, p in zip(differences, adjusted, strict=True) if p <= ALPHA}


SHAPES = {
    "single samples": {"samples": 2000, "groups": 0, "spread": 1.0, "speeds": (1, 1, 2, 4)},
    "groups of 20": {"samples": 2000, "groups": 100, "spread": 1.0, "speeds": (1, 1, 2, 4)},
    "large groups that differ much": {"samples": 2000, "groups": 20, "spread": 2.0, "speeds": (1, 1, 2, 4)},
    "two nodes, one slow": {"samples": 640, "groups": 30, "spread": 1.0, "speeds": (1, 3)},
    "few small blocks": {"samples": 400, "groups": 10, "spread": 2.0, "speeds": (1, 1, 5), "size": 16},
    "four blocks": {"samples": 256, "groups": 0, "spread": 1.0, "speeds": (1, 1)},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_nodes_of_unequal_speed_are_rarely_said_to_differ(shape):
    runs, draw = choose_runs(1600), np.random.default_rng(38)

    errors = sum(bool(drifted_nodes(draw, **SHAPES[shape])) for _ in range(runs))

    assert at_most(errors, runs, ALPHA)


@pytest.mark.parametrize(("samples", "drop"), [(1000, 0.4), (2000, 0.25)])
def test_a_node_that_answers_worse_is_found(samples, drop):
    runs, draw = choose_runs(400), np.random.default_rng(39)
    shape = {"samples": samples, "groups": 50, "spread": 1.0, "speeds": (1, 1, 2, 2)}

    drifted = [drifted_nodes(draw, **shape, drop=drop) for _ in range(runs)]

    assert at_least(sum("gpu-0" in nodes for nodes in drifted), runs, 0.9)
    # A good node beside it is not blamed.
    assert at_most(sum(bool(nodes - {"gpu-0"}) for nodes in drifted), runs, ALPHA)
