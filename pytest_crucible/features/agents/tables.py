"""The table of calls over the endpoint in the run store."""

from __future__ import annotations

from pytest_crucible.store.schema import UNIT_COLUMNS
from pytest_crucible.store.table import Column, Table

endpoint_calls = Table(
    "endpoint_calls",
    (
        *UNIT_COLUMNS,
        # From 1, by arrival.
        Column("number", "INTEGER", key=True),
        # The client's path, such as `/v1/responses`.
        Column("path", "TEXT", required=True),
        # The client's name of the model; the arm answers whatever it is.
        Column("model", "TEXT", required=True),
        # The role that was asked; empty for the arm.
        Column("role", "TEXT", required=True),
        # Whether another call of the unit was in flight: then the order is that of arrival alone.
        Column("is_parallel", "BOOLEAN", required=True),
        # Seconds since 1970.
        Column("begun", "FLOAT", required=True),
        Column("ended", "FLOAT", required=True),
    ),
    has_rowid=False,
)
TABLES = (endpoint_calls,)
