"""The same evaluation by several tools, whole processes: seconds, CPU and memory, beside a hand-written `asyncio.gather`.

`python -m benchmarks.peers [--rounds N] [NAME ...]`, three loads (see `LOADS`). Tools take turns run by run, each in a process
of its own on one core; the server has another. Medians count. It exits 1 when this package is over a limit.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from benchmarks.cores import apart
from benchmarks.figures import Figure, show
from benchmarks.peers.environments import python_of, version_of
from benchmarks.peers.process import Cost, Load, measure
from tests.openai_server import OpenAIServer

PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
WAITING = Load("1,000 of 50 ms", samples=1_000, latency_s=0.05)
ONE = Load("1 at once", samples=1)
MANY = Load("10,000 at once", samples=10_000)
LOADS = (WAITING, ONE, MANY)
"""Samples whose answer a server gives after its latency, 64 at a time, or the process itself, at once."""


@dataclass(frozen=True)
class Peer:
    """A tool: the package whose version is shown (None: no tool), and the command that runs the evaluation."""

    package: str | None
    command: tuple[str, ...]
    loads: tuple[Load, ...] = LOADS


PEERS = {
    "crucible": Peer("pytest-crucible", (*PYTEST, "crucible", "--crucible-adapter={adapter}")),
    "gather": Peer(None, ("gather.py",)),
    "pytest_gather": Peer("pytest", (*PYTEST, "pytest_gather")),
    "pydantic_evals": Peer("pydantic-evals", ("pydantic_evals_evaluate.py",)),
    "deepeval": Peer("deepeval", ("deepeval_evaluate.py",)),
    "inspect": Peer("inspect-ai", ("inspect_tuned.py",)),
    # One request at a time: a minute for the first load.
    "pytest_evals": Peer("pytest-evals", (*PYTEST, "--run-eval", "pytest_evals"), loads=(WAITING,)),
    "pytest_asyncio": Peer("pytest-asyncio", (*PYTEST, "pytest_asyncio"), loads=(WAITING,)),
}
DEFAULT = ("crucible", "gather", "pytest_gather", "pydantic_evals")
"""Those that a limit names, and `gather` without pytest; the others take minutes."""


@dataclass(frozen=True)
class Limit:
    """What this package may cost, over a peer unless it is None."""

    name: str
    load: Load
    most: float
    cost: Callable[[Cost], float]
    peer: str | None = None


LIMITS = (
    Limit("wall of 1,000 samples of 50 ms", WAITING, 1.20, lambda cost: cost.wall_s, "pytest_gather"),
    Limit("- wall", WAITING, 0.80, lambda cost: cost.wall_s, "pydantic_evals"),
    Limit("- CPU", WAITING, 2.0, lambda cost: cost.cpu_s, "pytest_gather"),
    Limit("- resident memory", WAITING, 75, lambda cost: cost.megabytes),
    Limit("wall of one sample, answered at once", ONE, 1.60, lambda cost: cost.wall_s, "pytest_gather"),
    Limit("wall of 10,000 samples, answered at once", MANY, 0.45, lambda cost: cost.wall_s, "pydantic_evals"),
)
Costs = Mapping[tuple[str, Load], Cost]


def main() -> int:
    names, rounds = _arguments()
    pythons = {name: python_of(name) for name in names}
    runs: dict[tuple[str, Load], list[Cost]] = defaultdict(list)
    with OpenAIServer.start(latency_s=WAITING.latency_s) as server, apart(server.process.pid):
        for _ in range(rounds):
            for name in names:
                for load in PEERS[name].loads:
                    command = _command(name, pythons[name], load, server.url)
                    runs[name, load].append(measure(command, load, server.url))
    costs = {key: _median(each) for key, each in runs.items()}
    print(f"whole processes, medians of {rounds} runs; s, but MB of resident memory at most\n")
    heads, rows = _heads(), _rows(names, pythons, costs)
    sides = ("left", "left", *("right" for _ in heads[2:]))
    print(tabulate(rows, heads, "github", disable_numparse=True, colalign=sides), end="\n\n")
    return show(_figures(costs))


def _arguments() -> tuple[Sequence[str], int]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PEERS)}; default: {', '.join(DEFAULT)}")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(PEERS):
        parser.error(f"no peer is called {min(unknown)!r}: there are {', '.join(PEERS)}")
    return arguments.names or DEFAULT, arguments.rounds


def _command(name: str, python: str, load: Load, url: str) -> list[str]:
    adapter = f"openai+{url}#m" if load.latency_s else "at_once"
    return [python, *(part.format(adapter=adapter) for part in PEERS[name].command)]


def _median(runs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(column) for column in zip(*runs, strict=True)))


def _heads() -> list[str]:
    first, *further = LOADS
    return ["tool", "version", f"{first.name}: wall", "CPU", "MB", *(f"{load.name}: wall" for load in further)]


def _rows(names: Sequence[str], pythons: Mapping[str, str], costs: Costs) -> Iterator[list[str]]:
    first, *further = LOADS
    for name in names:
        package, cost = PEERS[name].package, costs[name, first]
        walls = [costs[name, load].wall_s if (name, load) in costs else None for load in further]
        shown = [f"{cost.wall_s:.2f}", f"{cost.cpu_s:.2f}", f"{cost.megabytes:.0f}"]
        shown += ["" if wall is None else f"{wall:.2f}" for wall in walls]
        yield [name, version_of(pythons[name], package) if package else "", *shown]


def _figures(costs: Costs) -> Iterator[Figure]:
    """Yield the limits of peers that were run."""
    for limit in LIMITS:
        ours, theirs = costs.get(("crucible", limit.load)), costs.get((limit.peer or "crucible", limit.load))
        if ours is None or theirs is None:
            continue
        if limit.peer is None:
            yield Figure(name=limit.name, measured=limit.cost(ours), unit="MB", limit=limit.most)
        else:
            ratio, name = limit.cost(ours) / limit.cost(theirs), f"{limit.name} / {limit.peer}"
            yield Figure(name=name, measured=ratio, unit="times", limit=limit.most, digits=2)


if __name__ == "__main__":
    raise SystemExit(main())
