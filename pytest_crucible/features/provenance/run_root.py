"""The root of a run: one hash, over the ends of its chains, its plans and its verdicts, that stands in its reports."""

from __future__ import annotations

import hashlib
import json

from pytest_crucible.features.provenance.canonical_rows import row_hashes
from pytest_crucible.features.provenance.run_rows import rows_of_run, run_owners
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection

_COVERED = (schema.runs, schema.experiments, schema.verdicts)
"""Tables whose rows are hashed as they are now, beside the seals: a root shows a changed verdict by itself."""


def run_root(connection: Connection, run: str) -> str:
    """Return the root of a run in hexadecimal digits; empty for a run without seals."""
    owners, ends, rows = run_owners(connection, run), list[list[object]](), list[str]()
    query = """
        SELECT id, (SELECT MAX(number) FROM seals WHERE chain = id),
            (SELECT sha256 FROM seals WHERE chain = id ORDER BY number DESC LIMIT 1)
        FROM seal_chains WHERE kind = :kind AND owner = :key
    """
    for owner in owners:
        for chain, number, sha256 in connection.execute(query, **owner._asdict()).fetchall():
            ends.append([*owner, chain, number, sha256.hex() if sha256 else ""])
    for table in _COVERED:
        for part in rows_of_run(connection, table, owners, 1_000):
            columns = dict(zip(table.names, zip(*part, strict=True), strict=True))
            rows += [hash.hex() for hash in row_hashes(table, columns, len(part))]
    content = json.dumps([sorted(ends, key=str), sorted(rows)])
    return hashlib.sha256(content.encode()).hexdigest() if ends else ""
