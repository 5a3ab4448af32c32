"""The tables of provenance in the run store, which every store has."""

from __future__ import annotations

from pytest_crucible.store.table import Column, Table

# A chain has the commits of one process to one run, or to a dataset or variant that several runs share.
seal_chains = Table(
    "seal_chains",
    (
        # Random, so that no process waits for another.
        Column("id", "BIGINT", key=True),
        # The table that has the owner: runs, samples or twins.
        Column("kind", "VARCHAR(8)", required=True),
        # The id of the run, or the hash of the dataset or variant.
        Column("owner", "VARCHAR(64)", required=True),
        # Seconds since 1970.
        Column("begun", "FLOAT", required=True),
    ),
    indexes=(("seal_chains_by_owner", "owner"),),
)

seals = Table(
    "seals",
    (
        Column("chain", "BIGINT", key=True),
        # From 1, without gaps.
        Column("number", "INTEGER", key=True),
        # Of the seal before it, of the keys, and of each row.
        Column("sha256", "BLOB", required=True),
        # Which rows were added and removed: JSON, compressed by zlib.
        Column("keys", "BLOB", required=True),
        # 4 bytes of the SHA-256 of each added row, and all 32 of each removed one.
        Column("checksums", "BLOB", required=True),
    ),
    has_rowid=False,
)

TABLES = (seal_chains, seals)
