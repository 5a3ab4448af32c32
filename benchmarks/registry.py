"""The model registry: one promotion with its proof, and a list of ten thousand versions.

python -m benchmarks.registry
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import Figure, show
from pytest_crucible.features.registry.listing import list_models
from pytest_crucible.features.registry.promote import promote_run
from pytest_crucible.features.registry.records import LogEntry, Version
from pytest_crucible.features.registry.store import append_rows, read_log, version_key
from pytest_crucible.features.registry.tables import model_versions
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store.runs import RunStore

# The builders import each other by their names, as pytest lets them.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
from registry_builders import measure, register, request

PROMOTIONS = 21
VERSIONS = 10_000
PROMOTION_LIMIT_MS = 50.0
LISTING_LIMIT_S = 0.5


def figures() -> list[Figure]:
    """The time of a promotion, and of a list."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            Figure(
                name="a promotion to production: proof of 240 samples and 2 verdicts, one transaction",
                measured=1000 * _promotion_s(Path(folder)),
                unit="ms",
                limit=PROMOTION_LIMIT_MS,
            ),
            Figure(
                name=f"a list of {VERSIONS:,} versions",
                measured=_listing_s(Path(folder)),
                unit="s",
                limit=LISTING_LIMIT_S,
            ),
        ]


def _promotion_s(folder: Path) -> float:
    """Return the median of promotions that displace each other."""
    store = RunStore(str(folder / "promotions.db"))
    register(store, "v1", "v2")
    promote_run(store, request(measure(store, "first", v1=0.9)))
    runs = [measure(store, "second", v2=0.9, v1=0.9), measure(store, "third", v1=0.9, v2=0.9)]
    times = [_time(lambda run=run: promote_run(store, request(run))) for run in (runs * PROMOTIONS)[:PROMOTIONS]]
    store.close()
    return statistics.median(times)


def _listing_s(folder: Path) -> float:
    """Return the time of `crucible models`, which prints a line a version."""
    where = str(folder / "versions.db")
    store = RunStore(where)
    version = register(store, "v1")[0]
    with store.begin() as connection:
        versions = [replace(version, number=number, identity=str(number)) for number in range(2, VERSIONS + 1)]
        connection.insert(model_versions, [_row(one) for one in versions])
        entries = [
            LogEntry(at="2026-11-24", action="register", model="claims", number=one.number, state="draft")
            for one in versions
        ]
        append_rows(connection, read_log(connection)[1], [canonical(entry) for entry in entries])
    store.close()
    with contextlib.redirect_stdout(io.StringIO()):
        return _time(lambda: list_models(["--store", where], standalone_mode=False))


def _row(version: Version) -> dict[str, object]:
    key = version_key(version.identity, version.adapter.parameters)
    return {"model": version.model, "number": version.number, "key": key, "body": canonical(version)}


def _time(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    raise SystemExit(show(figures()))
