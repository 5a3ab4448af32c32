"""The order in which samples are included in a page that has no room for all texts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pytest_crucible.report.experiment_page import Chapter

Order = npt.NDArray[np.int64]


def orders(chapter: Chapter, seed: int) -> dict[str, Order]:
    """Return all positions in each order, by the name of what comes first. Unknown values come last."""
    rankings = {"the worst": _worst(chapter), "the slowest": _slowest(chapter)}
    drawn = np.random.default_rng(seed).permutation(len(chapter.columns.ids))
    return {**{name: order for name, order in rankings.items() if order is not None}, f"a draw with seed {seed}": drawn}


def in_turns(orders: dict[str, Order]) -> Iterator[int]:
    """Yield the first position of each order, then the second of each; every position once."""
    placed = set()
    for places in zip(*(order.tolist() for order in orders.values()), strict=True):
        for place in places:
            if place not in placed:
                placed.add(place)
                yield place


def _worst(chapter: Chapter) -> Order | None:
    """Furthest behind the first baseline, and lowest among those that are equally far."""
    if chapter.metric is None:
        return None
    sign = 1.0 if chapter.facts[chapter.metric].direction == "higher" else -1.0
    scores = [sign * np.asarray(arm, dtype=float) for arm in chapter.columns.scores[chapter.metric]]
    behind = scores[0] - scores[1] if len(scores) > 1 else np.zeros_like(scores[0])
    # lexsort takes its first key last.
    return np.lexsort((scores[0], behind))


def _slowest(chapter: Chapter) -> Order | None:
    took = np.asarray(chapter.columns.latency_s[0], dtype=float)
    return None if np.isnan(took).all() else np.argsort(-took, kind="stable")
