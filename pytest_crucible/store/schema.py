"""The tables of the run store. Samples are numbered within their dataset, arms within their experiment.

Replies, observations and lost values are keyed by arm, position and epoch, so that writing one twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from pytest_crucible.features import load_rows

metadata = sa.MetaData()

LONGEST_TAG = 100
"""Characters."""


def _table(name: str, *items: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *items, **options)


store_format = _table("store_format", sa.Column("version", sa.Integer, primary_key=True))

runs = _table(
    "runs",
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("started", sa.String(40), nullable=False),
    sa.Column("finished", sa.String(40)),
    # running, finished or interrupted; a killed run stays running.
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("seed", sa.Integer, nullable=False),
    sa.Column("alpha", sa.Float, nullable=False),
    sa.Column("correction", sa.String(16), nullable=False),
    sa.Column("git", sa.JSON),
    sa.Column("environment", sa.JSON, nullable=False),
    sa.Column("exit_status", sa.Integer),
    # Everything else that the run depended on.
    sa.Column("manifest", sa.JSON),
)

tags = _table(
    "tags",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(LONGEST_TAG), nullable=False),
    sa.Column("run", sa.ForeignKey("runs.id"), nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
    # Whether `crucible runs tag` made the run a baseline.
    sa.Column("promoted", sa.Boolean, nullable=False),
    # Whether it was promoted although not all its verdicts were met.
    sa.Column("forced", sa.Boolean, nullable=False),
    # The reason that was given for it.
    sa.Column("why", sa.Text),
    sa.UniqueConstraint("name", "run", "promoted"),
)

samples = _table(
    "samples",
    # The SHA-256 of the samples: equal datasets are stored once.
    sa.Column("dataset", sa.String(64), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("sample_id", sa.Text, nullable=False),
    sa.Column("sample_group", sa.Text),
    sa.Column("input", sa.JSON),
    sa.Column("expected", sa.JSON),
    sa.Column("metadata", sa.JSON),
)

experiments = _table(
    "experiments",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run", sa.ForeignKey("runs.id"), nullable=False),
    sa.Column("nodeid", sa.Text, nullable=False),
    sa.Column("plan", sa.JSON, nullable=False),
    sa.Column("finished", sa.Boolean, nullable=False, default=False),
    # Metric -> kind as inferred, so that it cannot change between runs.
    sa.Column("kinds", sa.JSON),
    sa.UniqueConstraint("run", "nodeid"),
)

arms = _table(
    "arms",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("experiment", sa.ForeignKey("experiments.id"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("reused_from", sa.String(32)),
    sa.Column("reused_answers", sa.Integer),
    # Replies requested through the reply cache.
    sa.Column("requests", sa.Integer),
    # How many of them the cache had.
    sa.Column("cache_hits", sa.Integer),
    # When the oldest of those was received.
    sa.Column("cache_since", sa.Float),
    # Null: the original samples.
    sa.Column("variant", sa.Integer),
    # Of a variant: the key of the same arm on the original samples.
    sa.Column("original", sa.Integer),
    sa.UniqueConstraint("experiment", "number"),
    sa.Index("arms_by_fingerprint", "fingerprint"),
)

variants = _table(
    "variants",
    sa.Column("experiment", sa.ForeignKey("experiments.id"), primary_key=True),
    # 0: the original samples.
    sa.Column("number", sa.Integer, primary_key=True),
    # Which form of the prompt; 0 is the test's own.
    sa.Column("prompt", sa.Integer, nullable=False),
    # Which twin of the sample; 0 is the sample itself.
    sa.Column("twin", sa.Integer, nullable=False),
    # Of a twin: the name of its variant, and the hash under which `twins` has it.
    sa.Column("name", sa.Text),
    sa.Column("sha256", sa.String(64)),
    sqlite_with_rowid=False,
)

twins = _table(
    "twins",
    # The hash of the variant's twins: equal variants of equal samples are stored once.
    sa.Column("variant", sa.String(64), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("input", sa.JSON),
    sa.Column("expected", sa.JSON),
    # Why the variant does not apply to the sample; null where it has a twin.
    sa.Column("reason", sa.Text),
    # Facts about the change, such as the edits; null without any.
    sa.Column("facts", sa.JSON(none_as_null=True)),
)

repeats = _table(
    "repeats",
    sa.Column("experiment", sa.ForeignKey("experiments.id"), primary_key=True),
    # The number that other tables have as `epoch`.
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("round", sa.Integer, nullable=False),
    # The number within the round.
    sa.Column("epoch", sa.Integer, nullable=False),
    # Which training of an arm that has several; null, as 0, in runs of formats before 6.
    sa.Column("training", sa.Integer),
    sqlite_with_rowid=False,
)


def _unit_columns() -> list[sa.Column[int]]:
    return [
        sa.Column("arm", sa.ForeignKey("arms.id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("epoch", sa.Integer, primary_key=True),
    ]


# Texts of replies, each once, under the first 128 bits of its SHA-256 (store/texts.py). With a rowid: long rows of a table without
# one are spread over pages of their own.
texts = _table(
    "texts",
    sa.Column("id", sa.LargeBinary(16), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

replies = _table(
    "replies",
    *_unit_columns(),
    # Null where `text_id` refers to it.
    sa.Column("text", sa.Text),
    sa.Column("input_tokens", sa.Integer),
    sa.Column("output_tokens", sa.Integer),
    sa.Column("latency_s", sa.Float),
    sa.Column("finish", sa.String(16)),
    # Assertion, timeout, truncated, filtered.
    sa.Column("failure", sa.String(16)),
    sa.Column("skipped", sa.Boolean, nullable=False),
    sa.Column("detail", sa.Text),
    sa.Column("started", sa.Float),
    sa.Column("text_id", sa.LargeBinary(16)),
    sqlite_with_rowid=False,
)

# A message list is stored as a form (store/texts.py), under the first 64 bits of its SHA-256.
messages = _table(
    "messages",
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    # JSON, compressed by zlib where that is smaller.
    sa.Column("body", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

calls = _table(
    "calls",
    *_unit_columns(),
    # From 1, in the order of sending.
    sa.Column("call", sa.Integer, primary_key=True, autoincrement=False),
    # The member of an ensemble; empty for the arm's own reply.
    sa.Column("member", sa.String(200), primary_key=True),
    # Counts equal requests of a unit from 1.
    sa.Column("request", sa.Integer, nullable=False),
    # Null: the unchanged input of the sample.
    sa.Column("messages", sa.BigInteger),
    # Null: the adapter's.
    sa.Column("parameters", sa.JSON),
    sa.Column("text", sa.Text),
    # The text is then the one in `replies`, and null here.
    sa.Column("is_scored", sa.Boolean, nullable=False),
    # Sent apart from the text; compressed by zlib. Written by format 4 alone.
    sa.Column("reasoning", sa.LargeBinary),
    # How many leading characters of the text are reasoning.
    sa.Column("think", sa.Integer),
    # The error of a call without a reply.
    sa.Column("error", sa.Text),
    # The run that paid for a cached or copied reply; empty: unknown; null: this run.
    sa.Column("paid_by", sa.String(32)),
    sa.Column("text_id", sa.LargeBinary(16)),
    sa.Column("reasoning_id", sa.LargeBinary(16)),
    # The model's own name, the system fingerprint and what the server's headers say, up to the last known; null: unknown.
    sa.Column("answered_by", sa.JSON(none_as_null=True)),
    # Whether the reply was read from the reply cache; null: unknown, in formats before 10.
    sa.Column("cached", sa.Boolean),
    # Whether a reply that should repeat the cached one, and was requested again, does; null for others.
    sa.Column("as_before", sa.Boolean),
    sqlite_with_rowid=False,
)

observations = _table(
    "observations",
    *_unit_columns(),
    sa.Column("metric", sa.String(200), primary_key=True),
    # Null: the metric does not apply.
    sa.Column("value", sa.Float),
    sa.Column("is_bool", sa.Boolean, nullable=False),
    sa.Column("label", sa.Text),
    sa.Column("reason", sa.Text),
    sqlite_with_rowid=False,
)

lost = _table(
    "lost",
    *_unit_columns(),
    # Empty: the whole reply.
    sa.Column("metric", sa.String(200), primary_key=True),
    sa.Column("reason", sa.String(16), nullable=False),
    sa.Column("detail", sa.Text),
    sqlite_with_rowid=False,
)

verdicts = _table(
    "verdicts",
    sa.Column("experiment", sa.ForeignKey("experiments.id"), primary_key=True),
    sa.Column("subject", sa.String(400), primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("proven", sa.Boolean, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)

reply_cache = _table(
    "reply_cache",
    # The SHA-256 of request, model and sample.
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("reply", sa.Text, nullable=False),
    # The run that paid.
    sa.Column("run", sa.String(32)),
    # Null where `text_id` refers to it, or where `reply` has it, as in formats before 5.
    sa.Column("text", sa.Text),
    sa.Column("text_id", sa.LargeBinary(16)),
    sa.Column("reasoning_id", sa.LargeBinary(16)),
)

known_adapters = _table(
    "known_adapters",
    # The SHA-256 of the adapter's settings.
    sa.Column("settings", sa.String(64), primary_key=True),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("files", sa.JSON, nullable=False),
    sa.Column("seen", sa.Float, nullable=False),
)

events = _table(
    "events",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run", sa.String(32), nullable=False, index=True),
    # The experiment's nodeid. Experiment, arm and sample are empty for an event that belongs to none.
    sa.Column("experiment", sa.Text, nullable=False),
    sa.Column("arm", sa.Text, nullable=False),
    sa.Column("sample", sa.Text, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("name", sa.String(40), nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("seconds", sa.Float),
    sa.Column("error", sa.Text),
    sa.Column("input_tokens", sa.Integer),
    sa.Column("output_tokens", sa.Integer),
    sa.Column("first_token_s", sa.Float),
    sa.Column("cost_usd", sa.Float),
    # All other facts; null without any.
    sa.Column("facts", sa.JSON(none_as_null=True)),
)

decisions = _table(
    "decisions",
    sa.Column("run", sa.String(32), primary_key=True),
    # The subject, such as the arms that a sweep drops at its looks.
    sa.Column("subject", sa.String(200), primary_key=True),
    # From 0, in the order in which they were made.
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("body", sa.JSON, nullable=False),
    sqlite_with_rowid=False,
)

training_sets = _table(
    "training_sets",
    # The SHA-256 of the file.
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
    sa.Column("card", sa.JSON, nullable=False),
    # JSON Lines, compressed by zlib: one line for each line of the file.
    sa.Column("origins", sa.LargeBinary, nullable=False),
)

store_key = _table(
    "store_key",
    # Always 1.
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", sa.LargeBinary(32), nullable=False),
)

ADDED: tuple[tuple[sa.Table | sa.Column[Any], ...], ...] = (
    (reply_cache, known_adapters, events, arms.c.requests, arms.c.cache_hits, arms.c.cache_since),
    (tags, runs.c.manifest),
    (
        *(samples.c.metadata, variants, repeats, arms.c.variant, arms.c.original),
        *(messages, calls, reply_cache.c.run),
    ),
    (
        *(texts, replies.c.text_id, calls.c.text_id, calls.c.reasoning_id),
        *(reply_cache.c.text, reply_cache.c.text_id, reply_cache.c.reasoning_id),
    ),
    (repeats.c.training,),
    (decisions, training_sets),
    (variants.c.name, variants.c.sha256, twins),
    (store_key, tags.c.why),
    (calls.c.answered_by, calls.c.cached, calls.c.as_before),
)
"""What the formats 2, 3 ... have added to the one before. Nothing that a format has is ever changed or taken away.

Tables of features are in no format: a store that lacks them gets them when it is opened."""

FORMAT = 1 + len(ADDED)
"""A store with a higher number belongs to a newer version; one with a lower number is upgraded."""


def all_tables() -> Mapping[str, sa.Table]:
    """Return all tables by name, with those of features."""
    # Their modules, which import this one, enter them into the metadata.
    load_rows("store_tables")
    return metadata.tables


def feature_tables() -> list[sa.Table]:
    """Return the tables of features."""
    return [table for _, table in load_rows("store_tables")]
