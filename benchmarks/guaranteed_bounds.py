"""How often the guaranteed bounds of a mean and Gaffke's are wrong, and how often they prove: four tables, about ten minutes.

The first three are of values, the last of groups. `--runs` sets the number of simulated evaluations for each cell.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from pytest_crucible.stats.arrays import Array, Side
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.sequential.paced_bets import betting_p_value
from tests.truth.bounded_evals import GROUPS, PAIRS, SHAPES, Groups, Shape

LEVELS = (0.05, 0.025, 0.005)
SIZES = (20, 50, 100, 300, 1000)
COUNTS = (10, 20, 50, 200)
SIDES: tuple[Side, Side] = ("lower", "upper")
POWER_CELLS = ((0.1, 50), (0.1, 100), (0.2, 100), (0.2, 200), (0.3, 200), (0.1, 1000), (0.3, 1000))
REPRODUCED = 0.8


def _gaffke(values: Array, null: float, side: Side, bounds: tuple[float, float], labels: Array | None = None) -> float:
    return gaffke_p_value(values, null=null, end=bounds[side == "upper"], side=side, clusters=labels)


def _betting(values: Array, null: float, side: Side, bounds: tuple[float, float], labels: Array | None = None) -> float:
    return betting_p_value(values, null=null, bounds=bounds, side=side, clusters=labels)


Method = Callable[..., float]
METHODS: tuple[Method, ...] = (_betting, _gaffke)


def false_proofs(shape: Shape, n: int, runs: int) -> Array:
    """Return the share of false proofs at the true mean: methods x levels, of the worse side."""
    drawn = shape.draw(np.random.default_rng([1, n]), (runs, n))
    return _worst_shares(lambda method, side: [method(values, shape.mean, side, shape.bounds) for values in drawn])


def false_proofs_of_groups(groups: Groups, count: int, runs: int) -> Array:
    """Return the same for groups."""
    rng = np.random.default_rng([2, count])
    drawn = [groups.draw(rng, count) for _ in range(runs)]
    return _worst_shares(
        lambda method, side: [method(values, groups.mean, side, PAIRS, labels) for values, labels in drawn]
    )


def _worst_shares(p_values: Callable[[Method, Side], list[float]]) -> Array:
    shares = [
        [[np.less_equal(p_values(method, side), a).mean() for a in LEVELS] for side in SIDES] for method in METHODS
    ]
    return np.asarray(np.max(np.array(shares), axis=1))


def proofs(spread: float, n: int, level: float, runs: int) -> list[float]:
    """Return the power of each method for equal arms at a margin of .05."""
    drawn = SHAPES[f"normal, sd {spread:g}".replace("0.", ".")].draw(np.random.default_rng([3, n]), (runs, n))
    return [float(np.mean([method(values, -0.05, "lower", PAIRS) <= level for values in drawn])) for method in METHODS]


def power_beside(shape: Shape, n: int, level: float, runs: int) -> float:
    """Return the power of bets against the lower mean that Gaffke's bound excludes with a power of .8."""
    drawn = shape.draw(np.random.default_rng([4, n]), (runs, n))
    low, high = shape.bounds[0], shape.mean
    # The bracket is much narrower than the error of the mean after these.
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if _share(_gaffke, drawn, middle, shape, level) > REPRODUCED else (low, middle)
    return _share(_betting, drawn, (low + high) / 2, shape, level)


def _share(method: Method, drawn: Array, mean: float, shape: Shape, level: float) -> float:
    return float(np.mean([method(values, mean, "lower", shape.bounds) <= level for values in drawn]))


def _lines(runs: int) -> Iterator[str]:
    heads = _row(list(LEVELS), 3).replace("0,", ",")
    yield f"| shape | betting: {heads} | Gaffke: {heads} |\n|---|---|---|"
    for name, shape in SHAPES.items():
        worst = np.max([false_proofs(shape, n, runs) for n in SIZES], axis=0)
        yield f"| {name} | {_row(worst[0])} | {_row(worst[1])} |"
    yield "\n| sd, n, margin .05 | .05: betting, Gaffke | .01: betting, Gaffke |\n|---|---|---|"
    for spread, n in POWER_CELLS:
        cells = [_row(proofs(spread, n, level, runs), 2) for level in (0.05, 0.01)]
        yield f"| {spread:g}, {n} | {cells[0]} | {cells[1]} |"
    heads_of_sizes = " | ".join(f"n={n}: .05, .005" for n in SIZES[1:])
    yield f"\n| power of bets where Gaffke has .8 | {heads_of_sizes} |\n" + "|---" * len(SIZES) + "|"
    for name, shape in SHAPES.items():
        if name != "constant":
            powers = [[power_beside(shape, n, level, runs // 3) for level in (0.05, 0.005)] for n in SIZES[1:]]
            yield f"| {name} | " + " | ".join(_row(pair, 2) for pair in powers) + " |"
    yield f"\n| groups | betting: {heads} | Gaffke: {heads} |\n|---|---|---|"
    for name, groups in GROUPS.items():
        worst = np.max([false_proofs_of_groups(groups, count, runs) for count in COUNTS], axis=0)
        yield f"| {name} | {_row(worst[0])} | {_row(worst[1])} |"


def _row(values: Array | list[float], digits: int = 3) -> str:
    return ", ".join(f"{value:.{digits}f}".removeprefix("0") for value in values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    for line in _lines(parser.parse_args().runs):
        print(line, flush=True)
