"""The tables of blocks, which say what each worker of a cluster has sent, and of Parquet parts."""

from __future__ import annotations

from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.table import Column, Table

blocks = Table(
    "blocks",
    (
        Column("experiment", "INTEGER", key=True, references="experiments"),
        # From 1, in the order in which they were first dealt.
        Column("number", "INTEGER", key=True),
        # The round of the experiment, from 0.
        Column("round", "INTEGER", required=True),
        # The positions of its samples in the dataset.
        Column("positions", "JSON", required=True),
        # The host name of the machine that sent it, and the worker there: `gpu-2`, `gpu-2/1`.
        Column("node", "TEXT", required=True),
        Column("worker", "TEXT", required=True),
        # Seconds since 1970, by the clock of the node.
        Column("started", "FLOAT", required=True),
        Column("finished", "FLOAT", required=True),
        Column("units", "INTEGER", required=True),
        Column("lost", "INTEGER", required=True),
        # Requests that were sent again.
        Column("retries", "INTEGER", required=True),
        # How often it was dealt: more than once where a worker was lost.
        Column("dealt", "INTEGER", required=True),
    ),
    has_rowid=False,
)

TABLES = (blocks, PARTS)
