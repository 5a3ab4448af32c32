"""Nodes: summaries of what each has sent, and differences of their scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_crucible.features.scale.nodes import SentBlock, compare_nodes, summarise_nodes


def block(number, positions, node, *, worker="", at=0.0, seconds=2.0, lost=0, retries=0, dealt=1):
    return SentBlock(
        number=number,
        positions=tuple(positions),
        node=node,
        worker=worker or node,
        started=at,
        finished=at + seconds,
        units=2 * len(positions),
        lost=lost,
        retries=retries,
        dealt=dealt,
    )


def test_a_node_is_summed_over_its_blocks_and_workers():
    blocks = [
        block(1, range(4), "gpu-1", worker="gpu-1/0"),
        block(2, range(4, 8), "gpu-1", worker="gpu-1/1", at=2.0, lost=1, retries=3),
        block(3, range(8, 10), "gpu-0", dealt=2),
    ]

    first, second = summarise_nodes(blocks)

    assert (first.node, first.blocks, first.samples, first.units, first.dealt_again) == ("gpu-0", 1, 2, 4, 1)
    assert (second.node, second.workers, second.blocks, second.lost, second.retries) == ("gpu-1", 2, 2, 1, 3)
    assert second.units_per_second == 4.0


def test_a_block_that_took_no_time_has_no_rate():
    (node,) = summarise_nodes([block(1, range(4), "gpu-1", seconds=0.0)])

    assert node.units_per_second is None


def plant_drift(node, drop, samples=1024, size=64):
    """Blocks that were dealt to four nodes in turn, and yes-or-no scores of which one node loses a share."""
    draw = np.random.default_rng(1)
    order = draw.permutation(samples)
    parts = [order[first : first + size] for first in range(0, samples, size)]
    blocks = [block(k, part.tolist(), f"gpu-{k % 4}") for k, part in enumerate(parts, start=1)]
    values = (draw.random(samples) < 0.8).astype(float)
    of_node = np.isin(
        np.arange(samples), [position for each in blocks if each.node == node for position in each.positions]
    )
    return blocks, {("v2", "accuracy"): np.where(of_node & (draw.random(samples) < drop), 0.0, values)}


def test_a_node_that_answers_worse_differs_and_the_others_do_not():
    blocks, values = plant_drift("gpu-3", 0.3)

    differences = {each.node: each.test for each in compare_nodes(blocks, values, np.arange(1024), level=0.95)}

    assert differences["gpu-3"].p_value < 0.001
    assert differences["gpu-3"].interval.high < 0
    assert differences["gpu-3"].estimate == pytest.approx(-0.26, abs=0.06)
    assert min(differences[node].p_value for node in ("gpu-0", "gpu-1", "gpu-2")) > 0.01


def test_beside_two_nodes_that_answer_worse_the_others_are_compared_without_them():
    blocks, values = plant_drift("gpu-3", 0.9, samples=4096)
    _, of_other = plant_drift("gpu-1", 0.6, samples=4096)
    both = {name: np.minimum(values[name], of_other[name]) for name in values}

    differences = {each.node: each.test for each in compare_nodes(blocks, both, np.arange(4096), level=0.95)}

    assert max(differences[node].p_value for node in ("gpu-1", "gpu-3")) < 1e-6
    assert min(differences[node].p_value for node in ("gpu-0", "gpu-2")) > 0.01
    assert differences["gpu-0"].n == differences["gpu-2"].n == (1024, 1024)


def test_of_two_nodes_that_differ_both_are_named():
    blocks, values = plant_drift("gpu-3", 0.5)
    two = [replace(each, node="gpu-3" if each.node == "gpu-3" else "gpu-0") for each in blocks]

    first, second = (each.test for each in compare_nodes(two, values, np.arange(1024), level=0.95))

    assert first.p_value == second.p_value < 0.001
    assert first.estimate == -second.estimate


def test_samples_without_a_score_or_a_block_do_not_count():
    blocks, values = plant_drift("gpu-3", 0.0)
    scores = values["v2", "accuracy"].copy()
    scores[:512] = np.nan

    (first, *_) = compare_nodes(blocks[:-1], {("v2", "accuracy"): scores}, np.arange(1024), level=0.95)

    last_block = sum(position >= 512 for position in blocks[-1].positions)
    assert sum(first.test.n) == 512 - last_block


def test_a_node_with_one_block_is_not_compared():
    blocks = [block(1, range(8), "gpu-0"), block(2, range(8, 16), "gpu-1"), block(3, range(16, 24), "gpu-1")]

    assert not list(compare_nodes(blocks, {("v2", "accuracy"): np.arange(24.0)}, np.arange(24), level=0.95))
