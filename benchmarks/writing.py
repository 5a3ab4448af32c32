"""How fast observations become durable, in SQLite and in PostgreSQL: the real writer, one metric a reply, one arm."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.million import plan
from pytest_crucible.records import Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.store.runs import RunStore
from tests import postgresql_server

REPLIES, METRICS = 50_000, ("right", "score", "words", "seconds")


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        sqlite = _per_second(str(Path(directory) / "runs.db"))
    found = [_figure("SQLite", sqlite, at_least=20_000)]
    if not postgresql_server.missing():
        with postgresql_server.server() as server:
            found.append(_figure("PostgreSQL", _per_second(server.url), at_least=40_000))
    return found


def _figure(database: str, per_second: float, *, at_least: int) -> Figure:
    """A limit is a most: it is told as the time for a million."""
    name = f"a million durable observations, {database} ({per_second:,.0f}/s)"
    return Figure(name=name, measured=1e6 / per_second, unit="s", limit=1e6 / at_least)


def _per_second(location: str) -> float:
    store = RunStore(location)
    store.begin_run("writing", started="", seed=0, alpha=0.05, correction="holm", git={}, environment={})
    experiment = store.add_experiment("writing", plan(), [Sample(id="s", input="")])
    arm, writer = store.add_arm(experiment, 0, "v2", "v2"), store.writer()
    begun = time.perf_counter()
    for position in range(REPLIES):
        outcome = Outcome(
            Unit(position, 0, 0, 0), reply=Reply(text="a reply of some words", latency_s=0.1), started=0.0
        )
        writer.add(outcome, arm, [Observation(Unit(position, 0, 0, 0), name, position % 7 / 7) for name in METRICS], ())
        while writer.behind():
            time.sleep(0.01)
    writer.close()
    seconds = time.perf_counter() - begun
    store.close()
    return REPLIES * len(METRICS) / seconds


if __name__ == "__main__":
    raise SystemExit(show(figures()))
