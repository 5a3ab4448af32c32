"""The tables of the run store. Samples are numbered within their dataset, arms within their experiment.

Replies, observations and lost values are keyed by arm, position and epoch, so that writing one twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import SchemaItem

from pytest_crucible.features import load_rows

metadata = MetaData()

LONGEST_TAG = 100
"""Characters."""


def _table(name: str, *items: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *items, **options)


store_format = _table("store_format", Column("version", Integer, primary_key=True))

runs = _table(
    "runs",
    Column("id", String(32), primary_key=True),
    Column("started", String(40), nullable=False),
    Column("finished", String(40)),
    # running, finished or interrupted; a killed run stays running.
    Column("status", String(16), nullable=False),
    Column("seed", Integer, nullable=False),
    Column("alpha", Float, nullable=False),
    Column("correction", String(16), nullable=False),
    Column("git", JSON),
    Column("environment", JSON, nullable=False),
    Column("exit_status", Integer),
    # Everything else that the run depended on.
    Column("manifest", JSON),
)

tags = _table(
    "tags",
    Column("id", Integer, primary_key=True),
    Column("name", String(LONGEST_TAG), nullable=False),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("at", String(40), nullable=False),
    # Whether `crucible runs tag` made the run a baseline.
    Column("promoted", Boolean, nullable=False),
    # Whether it was promoted although not all its verdicts were met.
    Column("forced", Boolean, nullable=False),
    # The reason that was given for it.
    Column("why", Text),
    UniqueConstraint("name", "run", "promoted"),
)

samples = _table(
    "samples",
    # The SHA-256 of the samples: equal datasets are stored once.
    Column("dataset", String(64), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("sample_id", Text, nullable=False),
    Column("sample_group", Text),
    Column("input", JSON),
    Column("expected", JSON),
    Column("metadata", JSON),
)

experiments = _table(
    "experiments",
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("nodeid", Text, nullable=False),
    Column("plan", JSON, nullable=False),
    Column("finished", Boolean, nullable=False, default=False),
    # Metric -> kind as inferred, so that it cannot change between runs.
    Column("kinds", JSON),
    UniqueConstraint("run", "nodeid"),
)

arms = _table(
    "arms",
    Column("id", Integer, primary_key=True),
    Column("experiment", ForeignKey("experiments.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("reused_from", String(32)),
    Column("reused_answers", Integer),
    # Replies requested through the reply cache.
    Column("requests", Integer),
    # How many of them the cache had.
    Column("cache_hits", Integer),
    # When the oldest of those was received.
    Column("cache_since", Float),
    # Null: the original samples.
    Column("variant", Integer),
    # Of a variant: the key of the same arm on the original samples.
    Column("original", Integer),
    UniqueConstraint("experiment", "number"),
    Index("arms_by_fingerprint", "fingerprint"),
)

variants = _table(
    "variants",
    Column("experiment", ForeignKey("experiments.id"), primary_key=True),
    # 0: the original samples.
    Column("number", Integer, primary_key=True),
    # Which form of the prompt; 0 is the test's own.
    Column("prompt", Integer, nullable=False),
    # Which twin of the sample; 0 is the sample itself.
    Column("twin", Integer, nullable=False),
    # Of a twin: the name of its variant, and the hash under which `twins` has it.
    Column("name", Text),
    Column("sha256", String(64)),
    sqlite_with_rowid=False,
)

twins = _table(
    "twins",
    # The hash of the variant's twins: equal variants of equal samples are stored once.
    Column("variant", String(64), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("input", JSON),
    Column("expected", JSON),
    # Why the variant does not apply to the sample; null where it has a twin.
    Column("reason", Text),
    # Facts about the change, such as the edits; null without any.
    Column("facts", JSON(none_as_null=True)),
)

repeats = _table(
    "repeats",
    Column("experiment", ForeignKey("experiments.id"), primary_key=True),
    # The number that other tables have as `epoch`.
    Column("number", Integer, primary_key=True),
    Column("round", Integer, nullable=False),
    # The number within the round.
    Column("epoch", Integer, nullable=False),
    # Which training of an arm that has several; null, as 0, in runs of formats before 6.
    Column("training", Integer),
    sqlite_with_rowid=False,
)


def _unit_columns() -> list[Column[int]]:
    return [
        Column("arm", ForeignKey("arms.id"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("epoch", Integer, primary_key=True),
    ]


# Texts of replies, each once, under the first 128 bits of its SHA-256 (store/texts.py). With a rowid: long rows of a table without
# one are spread over pages of their own.
texts = _table(
    "texts",
    Column("id", LargeBinary(16), primary_key=True),
    Column("body", Text, nullable=False),
)

replies = _table(
    "replies",
    *_unit_columns(),
    # Null where `text_id` refers to it.
    Column("text", Text),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("latency_s", Float),
    Column("finish", String(16)),
    # Assertion, timeout, truncated, filtered.
    Column("failure", String(16)),
    Column("skipped", Boolean, nullable=False),
    Column("detail", Text),
    Column("started", Float),
    Column("text_id", LargeBinary(16)),
    sqlite_with_rowid=False,
)

# A message list is stored as a form (store/texts.py), under the first 64 bits of its SHA-256.
messages = _table(
    "messages",
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    # JSON, compressed by zlib where that is smaller.
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

calls = _table(
    "calls",
    *_unit_columns(),
    # From 1, in the order of sending.
    Column("call", Integer, primary_key=True, autoincrement=False),
    # The member of an ensemble; empty for the arm's own reply.
    Column("member", String(200), primary_key=True),
    # Counts equal requests of a unit from 1.
    Column("request", Integer, nullable=False),
    # Null: the unchanged input of the sample.
    Column("messages", BigInteger),
    # Null: the adapter's.
    Column("parameters", JSON),
    Column("text", Text),
    # The text is then the one in `replies`, and null here.
    Column("is_scored", Boolean, nullable=False),
    # Sent apart from the text; compressed by zlib. Written by format 4 alone.
    Column("reasoning", LargeBinary),
    # How many characters of the text are a <think> block.
    Column("think", Integer),
    # The error of a call without a reply.
    Column("error", Text),
    # The run that paid for a cached or copied reply; empty: unknown; null: this run.
    Column("paid_by", String(32)),
    Column("text_id", LargeBinary(16)),
    Column("reasoning_id", LargeBinary(16)),
    sqlite_with_rowid=False,
)

observations = _table(
    "observations",
    *_unit_columns(),
    Column("metric", String(200), primary_key=True),
    # Null: the metric does not apply.
    Column("value", Float),
    Column("is_bool", Boolean, nullable=False),
    Column("label", Text),
    Column("reason", Text),
    sqlite_with_rowid=False,
)

lost = _table(
    "lost",
    *_unit_columns(),
    # Empty: the whole reply.
    Column("metric", String(200), primary_key=True),
    Column("reason", String(16), nullable=False),
    Column("detail", Text),
    sqlite_with_rowid=False,
)

verdicts = _table(
    "verdicts",
    Column("experiment", ForeignKey("experiments.id"), primary_key=True),
    Column("subject", String(400), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("proven", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
)

reply_cache = _table(
    "reply_cache",
    # The SHA-256 of request, model and sample.
    Column("key", String(64), primary_key=True),
    Column("identity", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("reply", Text, nullable=False),
    # The run that paid.
    Column("run", String(32)),
    # Null where `text_id` refers to it, or where `reply` has it, as in formats before 5.
    Column("text", Text),
    Column("text_id", LargeBinary(16)),
    Column("reasoning_id", LargeBinary(16)),
)

known_adapters = _table(
    "known_adapters",
    # The SHA-256 of the adapter's settings.
    Column("settings", String(64), primary_key=True),
    Column("identity", Text, nullable=False),
    Column("files", JSON, nullable=False),
    Column("seen", Float, nullable=False),
)

events = _table(
    "events",
    Column("id", Integer, primary_key=True),
    Column("run", String(32), nullable=False, index=True),
    # The experiment's nodeid. Experiment, arm and sample are empty for an event that belongs to none.
    Column("experiment", Text, nullable=False),
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
    # All other facts; null without any.
    Column("facts", JSON(none_as_null=True)),
)

decisions = _table(
    "decisions",
    Column("run", String(32), primary_key=True),
    # The subject, such as the arms that a sweep drops at its looks.
    Column("subject", String(200), primary_key=True),
    # From 0, in the order in which they were made.
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("body", JSON, nullable=False),
    sqlite_with_rowid=False,
)

training_sets = _table(
    "training_sets",
    # The SHA-256 of the file.
    Column("sha256", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("created", String(40), nullable=False),
    Column("card", JSON, nullable=False),
    # JSON Lines, compressed by zlib: one line for each line of the file.
    Column("origins", LargeBinary, nullable=False),
)

store_key = _table(
    "store_key",
    # Always 1.
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("key", LargeBinary(32), nullable=False),
)

ADDED: tuple[tuple[Table | Column[Any], ...], ...] = (
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
)
"""What the formats 2, 3 ... have added to the one before. Nothing that a format has is ever changed or taken away.

Tables of features are in no format: a store that lacks them gets them when it is opened."""

FORMAT = 1 + len(ADDED)
"""A store with a higher number belongs to a newer version; one with a lower number is upgraded."""


def all_tables() -> Mapping[str, Table]:
    """Return all tables by name, with those of features."""
    # Their modules, which import this one, enter them into the metadata.
    load_rows("store_tables")
    return metadata.tables


def feature_tables() -> list[Table]:
    """Return the tables of features."""
    return [table for _, table in load_rows("store_tables")]
