"""CPU time and memory a sample: engine, scoring and durable store, with a model that answers at once.

Two pytest runs, of few and of many samples; what differs between them is what samples cost, free of what starting costs.
CPU time is that of all threads, and the least of several runs: whatever else the machine does only adds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import COMPARED, Suite

FEW, MANY = 1_000, 20_000
REPEATS = 3
COMPARE = ("--crucible-adapter=v2", "--compare=v1", "--crucible-fresh")
ALONE = ("--crucible-adapter=v2",)


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        one = _slopes(place / "one", *ALONE)
        two = _slopes(place / "two", *COMPARE, marks=COMPARED)
        plain = _slopes(place / "plain", *ALONE, is_async=False)
    return [
        Figure(name="engine, scoring, store: CPU a sample", measured=one["asking_cpu_s"] * 1e6, unit="us", limit=100),
        Figure(name="- with two arms: CPU a reply", measured=two["asking_cpu_s"] * 1e6 / 2, unit="us", limit=100),
        Figure(name="- whole pytest session: CPU a sample", measured=one["cpu_s"] * 1e6, unit="us"),
        Figure(name="- plain `def` in threads: CPU a sample", measured=plain["asking_cpu_s"] * 1e6, unit="us"),
        Figure(name="memory growth a sample, while asking", measured=one["asking_growth_bytes"], unit="B", limit=2048),
        Figure(name="- with two arms", measured=two["asking_growth_bytes"], unit="B", limit=2048),
        Figure(name="- whole pytest session, with the dataset", measured=two["peak_bytes"], unit="B"),
    ]


def _slopes(place: Path, *arguments: str, marks: tuple[str, ...] = (), is_async: bool = True) -> dict[str, float]:
    """Return the cost of one more sample in each figure of the probe."""
    few, many = (
        _least(
            Suite(directory=place / str(samples), samples=samples, marks=marks, is_async=is_async).write(), arguments
        )
        for samples in (FEW, MANY)
    )
    return {name: (many[name] - few[name]) / (MANY - FEW) for name in many}


def _least(suite: Suite, arguments: tuple[str, ...]) -> dict[str, float]:
    """The least of each figure over several runs, each with a store of its own."""
    runs = [suite.run(*arguments, f"--crucible-store=store-{k}.db") for k in range(REPEATS)]
    return {name: min(run[name] for run in runs) for name in runs[0]}


if __name__ == "__main__":
    raise SystemExit(show(figures()))
