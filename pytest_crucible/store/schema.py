"""The tables of the run store. Samples are numbered within their dataset, arms within their experiment.

Replies, observations and lost values are keyed by arm, position and epoch, so that writing one twice changes nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

LONGEST_TAG = 100
"""Characters."""

store_format = Table("store_format", metadata, Column("version", Integer, primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("started", String(40), nullable=False),
    Column("finished", String(40)),
    Column("status", String(16), nullable=False),  # running, finished, interrupted
    Column("seed", Integer, nullable=False),
    Column("alpha", Float, nullable=False),
    Column("correction", String(16), nullable=False),
    Column("git", JSON),
    Column("environment", JSON, nullable=False),
    Column("exit_status", Integer),
    Column("manifest", JSON),  # all else that the run depended on
)

tags = Table(
    "tags",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(LONGEST_TAG), nullable=False),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("at", String(40), nullable=False),
    Column("promoted", Boolean, nullable=False),  # as a baseline, by `crucible promote`
    Column("forced", Boolean, nullable=False),  # although its verdicts were not all met
    UniqueConstraint("name", "run", "promoted"),
)

samples = Table(
    "samples",
    metadata,
    Column("dataset", String(64), primary_key=True),  # sha256: equal datasets are stored once
    Column("position", Integer, primary_key=True),
    Column("sample_id", Text, nullable=False),
    Column("sample_group", Text),
    Column("input", JSON),
    Column("expected", JSON),
)

experiments = Table(
    "experiments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("nodeid", Text, nullable=False),
    Column("plan", JSON, nullable=False),
    Column("finished", Boolean, nullable=False, default=False),
    Column("kinds", JSON),  # metric -> kind as inferred, so that it cannot change between runs
    UniqueConstraint("run", "nodeid"),
)

arms = Table(
    "arms",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("experiment", ForeignKey("experiments.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("reused_from", String(32)),
    Column("reused_answers", Integer),
    Column("requests", Integer),  # what was asked for through the reply cache,
    Column("cache_hits", Integer),  # how much of it was there,
    Column("cache_since", Float),  # and when the oldest of it was given
    UniqueConstraint("experiment", "number"),
    Index("arms_by_fingerprint", "fingerprint"),
)


def _unit_columns() -> list[Column[int]]:
    return [
        Column("arm", ForeignKey("arms.id"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("epoch", Integer, primary_key=True),
    ]


replies = Table(
    "replies",
    metadata,
    *_unit_columns(),
    Column("text", Text),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("latency_s", Float),
    Column("finish", String(16)),
    Column("failure", String(16)),  # assertion, timeout, truncated, filtered
    Column("skipped", Boolean, nullable=False),
    Column("detail", Text),
    Column("started", Float),
    sqlite_with_rowid=False,
)

observations = Table(
    "observations",
    metadata,
    *_unit_columns(),
    Column("metric", String(200), primary_key=True),
    Column("value", Float),  # null: the metric does not apply
    Column("is_bool", Boolean, nullable=False),
    Column("label", Text),
    Column("reason", Text),
    sqlite_with_rowid=False,
)

lost = Table(
    "lost",
    metadata,
    *_unit_columns(),
    Column("metric", String(200), primary_key=True),  # empty: the whole reply
    Column("reason", String(16), nullable=False),
    Column("detail", Text),
    sqlite_with_rowid=False,
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("experiment", ForeignKey("experiments.id"), primary_key=True),
    Column("subject", String(400), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("proven", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
)

reply_cache = Table(
    "reply_cache",
    metadata,
    Column("key", String(64), primary_key=True),  # sha256 of what was asked, of whom and for whom
    Column("identity", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("reply", Text, nullable=False),
)

known_adapters = Table(
    "known_adapters",
    metadata,
    Column("settings", String(64), primary_key=True),  # sha256
    Column("identity", Text, nullable=False),
    Column("files", JSON, nullable=False),
    Column("seen", Float, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run", String(32), nullable=False, index=True),
    Column("experiment", Text, nullable=False),  # its nodeid; empty, as arm and sample, where it belongs to none
    Column("arm", Text, nullable=False),
    Column("sample", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("name", String(40), nullable=False),
    Column("at", Float, nullable=False),
    Column("seconds", Float),
    Column("error", Text),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("first_token_s", Float),
    Column("cost_usd", Float),
    Column("facts", JSON(none_as_null=True)),  # all others; null where there are none
)

ADDED: tuple[tuple[Table | Column[Any], ...], ...] = (
    (reply_cache, known_adapters, events, arms.c.requests, arms.c.cache_hits, arms.c.cache_since),
    (tags, runs.c.manifest),
)
"""What the formats 2, 3 ... have added to the one before. Nothing that a format has is ever changed or taken away."""

FORMAT = 1 + len(ADDED)
"""A store with a higher number belongs to a newer version; to one with a lower number is added what it lacks."""
