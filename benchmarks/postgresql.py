"""Ten million observations in PostgreSQL: with the keys that the store has, with wider ones, and partitioned by arm.

`python -m benchmarks.postgresql 1000000` takes fewer. Bytes are exact; times are those of the server alone.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.figures import Figure, show
from pytest_crucible.store import schema
from tests import postgresql_server

OBSERVATIONS, ARMS = 10_000_000, 2
METRICS = ("right", "score", "words", "seconds")
VARIANTS = {"integer keys": "", "bigint keys": "bigint", "integer keys, partitioned by arm": "partitions"}


def figures(observations: int = OBSERVATIONS) -> list[Figure]:
    if postgresql_server.missing():
        return []
    found: list[Figure] = []
    for name, change in VARIANTS.items():
        # A server for each: what one leaves to be vacuumed would slow the next one.
        with postgresql_server.server("max_wal_size=8GB", "autovacuum=off") as server:
            found += _measure(server.url, name, change, observations)
    return found


def _measure(url: str, name: str, change: str, observations: int) -> list[Figure]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in _definition(change):
            connection.execute(statement)
        filled = _seconds(connection, _fill(observations))
        connection.execute("VACUUM ANALYZE observations")
        tables = (
            "SELECT SUM(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'observations%'"
        )
        [size] = connection.execute(tables).fetchone() or [0]
        read = _seconds(connection, "SELECT COUNT(*), SUM(value) FROM observations WHERE arm = 1")
        drop = "DROP TABLE observations_1" if change == "partitions" else "DELETE FROM observations WHERE arm = 1"
        deleted = _seconds(connection, drop) + _seconds(connection, "VACUUM observations")
    of_arm = observations / ARMS
    return [
        Figure(
            name=f"{observations:,} observations, {name}",
            measured=float(size) / observations,
            unit="bytes each",
            digits=0,
        ),
        Figure(name="- inserted by one statement", measured=observations / filled, unit="/s", digits=0),
        Figure(name="- an arm summed", measured=of_arm / read, unit="/s", digits=0),
        Figure(name="- an arm deleted and vacuumed", measured=of_arm / deleted, unit="/s", digits=0),
    ]


def _definition(change: str) -> list[str]:
    """Return the statements that create the store's own table of observations, changed as one would change it."""
    [create] = schema.observations.statements(is_sqlite=False)
    if change == "bigint":
        return [create.replace("INTEGER", "BIGINT")]
    if change == "partitions":
        parts = (f"CREATE TABLE observations_{arm} PARTITION OF observations FOR VALUES IN ({arm})" for arm in (1, 2))
        return [f"{create} PARTITION BY LIST (arm)", *parts]
    return [create]


def _fill(observations: int) -> str:
    """Return a statement that enters them as a run does: sample by sample, arms in turn."""
    metrics = ", ".join(f"('{name}')" for name in METRICS)
    last = observations // ARMS // len(METRICS) - 1
    return f"""
        INSERT INTO observations (arm, position, epoch, metric, value, is_bool)
        SELECT arm, position, 0, metric, position % 7 / 7.0, false
        FROM generate_series(0, {last}) position, generate_series(1, {ARMS}) arm, (VALUES {metrics}) metrics(metric)
        ON CONFLICT DO NOTHING
    """


def _seconds(connection: Any, statement: str) -> float:
    begun = time.perf_counter()
    connection.execute(statement)
    return time.perf_counter() - begun


if __name__ == "__main__":
    raise SystemExit(show(figures(*map(int, sys.argv[1:]))))
