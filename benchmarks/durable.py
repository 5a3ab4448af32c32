"""How much a kill -9 can take: the age of the newest reply that is in the database, looked at from another process.

The model answers at once and the second metric is slow enough to keep Python busy, which is the worst case for a writer
that shares one interpreter lock with it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import Suite

SAMPLES = 100_000
BUSY_SAMPLES = 5_000
LOOK_EVERY_S = 0.05


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        fast = Suite(directory=Path(directory) / "fast", samples=SAMPLES).write()
        busy = Suite(
            directory=Path(directory) / "busy", samples=BUSY_SAMPLES, metrics=("'exact_match'", "laborious")
        ).write()
        oldest, busiest = _oldest_unsaved(fast), _oldest_unsaved(busy)
    return [
        Figure(name=f"a reply is durable after at most, n={SAMPLES:,}", measured=oldest, unit="s", limit=1.0, digits=2),
        Figure(name="- with a metric that takes 1 ms", measured=busiest, unit="s", limit=1.0, digits=2),
    ]


def _oldest_unsaved(suite: Suite) -> float:
    """The longest time for which a reply was not in the database yet, in seconds."""
    looks: list[tuple[float, float]] = []
    ended = threading.Event()
    looking = threading.Thread(target=_look, args=(suite.store, looks, ended))
    looking.start()
    suite.run("--crucible-adapter=v2")
    ended.set()
    looking.join()
    seen = suite.last_replies()
    newest = seen.first_reply
    ages = [0.0]
    for moment, saved in looks:
        newest = max(newest, saved)
        if seen.first_reply < moment:
            ages.append(min(moment, seen.last_reply) - newest)
    return max(ages)


def _look(store: Path, looks: list[tuple[float, float]], ended: threading.Event) -> None:
    """Note, again and again, when the newest stored reply came."""
    query = "SELECT max(started + latency_s) FROM replies"
    while not ended.wait(LOOK_EVERY_S):
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db,
        ):
            moment = time.time()
            looks.append((moment, db.execute(query).fetchone()[0] or 0.0))


if __name__ == "__main__":
    raise SystemExit(show(figures()))
