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
agent_programs = Table(
    "agent_programs",
    (
        *UNIT_COLUMNS,
        # From 1, in the order in which they ended.
        Column("number", "INTEGER", key=True),
        # A list of words.
        Column("command", "JSON", required=True),
        # Negative: the signal that ended it. Null: it was not started.
        Column("exit_status", "INTEGER"),
        # `timeout`, `unit` where the unit ended first, why it was not started, or empty.
        Column("ended", "TEXT", required=True),
        # Beginning and end of what it printed, 64 KiB each.
        Column("output", "TEXT", required=True),
        Column("errors", "TEXT", required=True),
        # Seconds since 1970.
        Column("begun", "FLOAT", required=True),
        Column("seconds", "FLOAT", required=True),
    ),
    has_rowid=False,
)
agent_tools = Table(
    "agent_tools",
    (
        *UNIT_COLUMNS,
        # From 1, in the order in which they ended.
        Column("number", "INTEGER", key=True),
        # Empty for a text that went through `endpoint.tool_result`.
        Column("name", "TEXT", required=True),
        # By parameter.
        Column("arguments", "JSON"),
        # What JSON has no form for is a text.
        Column("result", "JSON"),
        # The exception that it raised; empty without one.
        Column("error", "TEXT", required=True),
        # Whether the result is that of an earlier call, of another arm or repeat.
        Column("is_replayed", "BOOLEAN", required=True),
        # Seconds since 1970.
        Column("begun", "FLOAT", required=True),
        Column("seconds", "FLOAT", required=True),
    ),
    has_rowid=False,
)
TABLES = (endpoint_calls, agent_programs, agent_tools)
