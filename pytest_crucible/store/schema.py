"""The tables of the run store. Samples are numbered within their dataset, arms within their experiment.

Replies, observations and lost values are keyed by arm, position and epoch, so that writing one twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_crucible.features import load_rows
from pytest_crucible.store.table import Column, Table

LONGEST_TAG = 100
"""Characters."""


store_format = Table("store_format", (Column("version", "INTEGER", key=True, numbered=True),))

runs = Table(
    "runs",
    (
        Column("id", "VARCHAR(32)", key=True),
        Column("started", "VARCHAR(40)", required=True),
        Column("finished", "VARCHAR(40)"),
        # running, finished or interrupted; a killed run stays running.
        Column("status", "VARCHAR(16)", required=True),
        Column("seed", "INTEGER", required=True),
        Column("alpha", "FLOAT", required=True),
        Column("correction", "VARCHAR(16)", required=True),
        Column("git", "JSON"),
        Column("environment", "JSON", required=True),
        Column("exit_status", "INTEGER"),
        # Everything else that the run depended on.
        Column("manifest", "JSON"),
        # The store's format when the run was entered; of runs of formats before 11, the one that was upgraded.
        Column("format", "INTEGER"),
    ),
)

tags = Table(
    "tags",
    (
        Column("id", "INTEGER", key=True, numbered=True),
        Column("name", f"VARCHAR({LONGEST_TAG})", required=True),
        Column("run", "VARCHAR(32)", required=True, references="runs"),
        Column("at", "VARCHAR(40)", required=True),
        # Whether `crucible runs tag` made the run a baseline.
        Column("promoted", "BOOLEAN", required=True),
        # Whether it was promoted although not all its verdicts were met.
        Column("forced", "BOOLEAN", required=True),
        # The reason that was given for it.
        Column("why", "TEXT"),
    ),
    unique=(("name", "run", "promoted"),),
)

samples = Table(
    "samples",
    (
        # The SHA-256 of the samples: equal datasets are stored once.
        Column("dataset", "VARCHAR(64)", key=True),
        Column("position", "INTEGER", key=True),
        Column("sample_id", "TEXT", required=True),
        Column("sample_group", "TEXT"),
        Column("input", "JSON"),
        Column("expected", "JSON"),
        Column("metadata", "JSON"),
    ),
)

experiments = Table(
    "experiments",
    (
        Column("id", "INTEGER", key=True, numbered=True),
        Column("run", "VARCHAR(32)", required=True, references="runs"),
        Column("nodeid", "TEXT", required=True),
        Column("plan", "JSON", required=True),
        Column("finished", "BOOLEAN", required=True),
        # Metric -> kind as inferred, so that it cannot change between runs.
        Column("kinds", "JSON"),
    ),
    unique=(("run", "nodeid"),),
)

arms = Table(
    "arms",
    (
        Column("id", "INTEGER", key=True, numbered=True),
        Column("experiment", "INTEGER", required=True, references="experiments"),
        Column("number", "INTEGER", required=True),
        Column("name", "TEXT", required=True),
        Column("fingerprint", "VARCHAR(64)", required=True),
        Column("reused_from", "VARCHAR(32)"),
        Column("reused_answers", "INTEGER"),
        # Replies requested through the reply cache.
        Column("requests", "INTEGER"),
        # How many of them the cache had.
        Column("cache_hits", "INTEGER"),
        # When the oldest of those was received.
        Column("cache_since", "FLOAT"),
        # Null: the original samples.
        Column("variant", "INTEGER"),
        # Of a variant: the key of the same arm on the original samples.
        Column("original", "INTEGER"),
    ),
    unique=(("experiment", "number"),),
    indexes=(("arms_by_fingerprint", "fingerprint"),),
)

variants = Table(
    "variants",
    (
        Column("experiment", "INTEGER", key=True, references="experiments"),
        # 0: the original samples.
        Column("number", "INTEGER", key=True),
        # Which form of the prompt; 0 is the test's own.
        Column("prompt", "INTEGER", required=True),
        # Which twin of the sample; 0 is the sample itself.
        Column("twin", "INTEGER", required=True),
        # Of a twin: the name of its variant, and the hash under which `twins` has it.
        Column("name", "TEXT"),
        Column("sha256", "VARCHAR(64)"),
    ),
    has_rowid=False,
)

twins = Table(
    "twins",
    (
        # The hash of the variant's twins: equal variants of equal samples are stored once.
        Column("variant", "VARCHAR(64)", key=True),
        Column("position", "INTEGER", key=True),
        Column("input", "JSON"),
        Column("expected", "JSON"),
        # Why the variant does not apply to the sample; null where it has a twin.
        Column("reason", "TEXT"),
        # Facts about the change, such as the edits; null without any.
        Column("facts", "JSON"),
    ),
)

repeats = Table(
    "repeats",
    (
        Column("experiment", "INTEGER", key=True, references="experiments"),
        # The number that other tables have as `epoch`.
        Column("number", "INTEGER", key=True),
        Column("round", "INTEGER", required=True),
        # The number within the round.
        Column("epoch", "INTEGER", required=True),
        # Which training of an arm that has several; null, as 0, in runs of formats before 6.
        Column("training", "INTEGER"),
    ),
    has_rowid=False,
)


UNIT_COLUMNS = (
    # The writer looks the arms of a commit up together: for each row it takes PostgreSQL as long as inserting it.
    Column("arm", "INTEGER", key=True, references="arms", is_checked=False),
    Column("position", "INTEGER", key=True),
    Column("epoch", "INTEGER", key=True),
)


# Texts of replies, each once, under the first 128 bits of its SHA-256 (store/texts.py). With a rowid: long rows of a table without
# one are spread over pages of their own.
texts = Table(
    "texts",
    (
        Column("id", "BLOB", key=True),
        Column("body", "TEXT", required=True),
    ),
)

replies = Table(
    "replies",
    (
        *UNIT_COLUMNS,
        # Null where `text_id` refers to it.
        Column("text", "TEXT"),
        Column("input_tokens", "INTEGER"),
        Column("output_tokens", "INTEGER"),
        Column("latency_s", "FLOAT"),
        Column("finish", "VARCHAR(16)"),
        # Assertion, timeout, truncated, filtered.
        Column("failure", "VARCHAR(16)"),
        Column("skipped", "BOOLEAN", required=True),
        Column("detail", "TEXT"),
        Column("started", "FLOAT"),
        Column("text_id", "BLOB"),
    ),
    has_rowid=False,
)

# A message list is stored as a form (store/texts.py), under the first 64 bits of its SHA-256.
messages = Table(
    "messages",
    (
        Column("id", "BIGINT", key=True),
        # JSON, compressed by zlib where that is smaller.
        Column("body", "BLOB", required=True),
    ),
    has_rowid=False,
)

calls = Table(
    "calls",
    (
        *UNIT_COLUMNS,
        # From 1, in the order of sending.
        Column("call", "INTEGER", key=True),
        # The member of an ensemble; empty for the arm's own reply.
        Column("member", "VARCHAR(200)", key=True),
        # Counts equal requests of a unit from 1.
        Column("request", "INTEGER", required=True),
        # Null: the unchanged input of the sample.
        Column("messages", "BIGINT"),
        # Null: the adapter's.
        Column("parameters", "JSON"),
        Column("text", "TEXT"),
        # The text is then the one in `replies`, and null here.
        Column("is_scored", "BOOLEAN", required=True),
        # Sent apart from the text; compressed by zlib. Written by format 4 alone.
        Column("reasoning", "BLOB"),
        # How many leading characters of the text are reasoning.
        Column("think", "INTEGER"),
        # The error of a call without a reply.
        Column("error", "TEXT"),
        # The run that paid for a cached or copied reply; empty: unknown; null: this run.
        Column("paid_by", "VARCHAR(32)"),
        Column("text_id", "BLOB"),
        Column("reasoning_id", "BLOB"),
        # The model's own name, the system fingerprint and what the server's headers say, up to the last known; null: unknown.
        Column("answered_by", "JSON"),
        # Whether the reply was read from the reply cache; null: unknown, in formats before 10.
        Column("cached", "BOOLEAN"),
        # Whether a reply that should repeat the cached one, and was requested again, does; null for others.
        Column("as_before", "BOOLEAN"),
        # False where messages and texts are hashes without rows of their own (--crucible-trace=off); else null.
        Column("has_texts", "BOOLEAN"),
        # How the reply ended; empty for `stop`, which most are; null without a reply, and in formats before 12.
        Column("finish", "VARCHAR(16)"),
        # The tools that the reply calls, as a form in `messages`; null without any, and in formats before 13.
        Column("tool_calls", "BIGINT"),
        # Of long parameters, such as the schemas of tools, the id of their JSON in `texts`; `parameters` is null then.
        Column("parameters_id", "BLOB"),
    ),
    has_rowid=False,
)

# Long texts within the conversations of a unit, which further calls send again: each is a form of its own in `messages`, once, and
# forms refer to it by its id. These rows keep it for as long as the unit's calls.
conversation_texts = Table(
    "conversation_texts",
    (*UNIT_COLUMNS, Column("message", "BIGINT", key=True)),
    has_rowid=False,
)

FORM_COLUMNS = ("messages", "tool_calls")
"""Columns of `calls` that refer to forms in `messages`."""

observations = Table(
    "observations",
    (
        *UNIT_COLUMNS,
        Column("metric", "VARCHAR(200)", key=True),
        # Null: the metric does not apply.
        Column("value", "FLOAT"),
        Column("is_bool", "BOOLEAN", required=True),
        Column("label", "TEXT"),
        Column("reason", "TEXT"),
    ),
    has_rowid=False,
)

lost = Table(
    "lost",
    (
        *UNIT_COLUMNS,
        # Empty: the whole reply.
        Column("metric", "VARCHAR(200)", key=True),
        Column("reason", "VARCHAR(16)", required=True),
        Column("detail", "TEXT"),
    ),
    has_rowid=False,
)

verdicts = Table(
    "verdicts",
    (
        Column("experiment", "INTEGER", key=True, references="experiments"),
        Column("subject", "VARCHAR(400)", key=True),
        Column("kind", "VARCHAR(16)", required=True),
        Column("state", "VARCHAR(16)", required=True),
        Column("proven", "BOOLEAN", required=True),
        Column("reason", "TEXT", required=True),
    ),
)

reply_cache = Table(
    "reply_cache",
    (
        # The SHA-256 of request, model and sample.
        Column("key", "VARCHAR(64)", key=True),
        Column("identity", "TEXT", required=True),
        Column("created", "FLOAT", required=True),
        Column("reply", "TEXT", required=True),
        # The run that paid.
        Column("run", "VARCHAR(32)"),
        # Null where `text_id` refers to it, or where `reply` has it, as in formats before 5.
        Column("text", "TEXT"),
        Column("text_id", "BLOB"),
        Column("reasoning_id", "BLOB"),
    ),
)

known_adapters = Table(
    "known_adapters",
    (
        # The SHA-256 of the adapter's settings.
        Column("settings", "VARCHAR(64)", key=True),
        Column("identity", "TEXT", required=True),
        Column("files", "JSON", required=True),
        Column("seen", "FLOAT", required=True),
    ),
)

events = Table(
    "events",
    (
        Column("id", "INTEGER", key=True, numbered=True),
        Column("run", "VARCHAR(32)", required=True),
        # The experiment's nodeid. Experiment, arm and sample are empty for an event that belongs to none.
        Column("experiment", "TEXT", required=True),
        Column("arm", "TEXT", required=True),
        Column("sample", "TEXT", required=True),
        Column("epoch", "INTEGER", required=True),
        Column("name", "VARCHAR(40)", required=True),
        Column("at", "FLOAT", required=True),
        Column("seconds", "FLOAT"),
        Column("error", "TEXT"),
        Column("input_tokens", "INTEGER"),
        Column("output_tokens", "INTEGER"),
        Column("first_token_s", "FLOAT"),
        Column("cost_usd", "FLOAT"),
        # All other facts; null without any.
        Column("facts", "JSON"),
        # The call of the unit, as in `calls`, and the request of this call or of its member; null for events of none.
        Column("call", "INTEGER"),
        Column("request", "INTEGER"),
    ),
    indexes=(("ix_events_run", "run"),),
)

decisions = Table(
    "decisions",
    (
        Column("run", "VARCHAR(32)", key=True),
        # The subject, such as the arms that a sweep drops at its looks.
        Column("subject", "VARCHAR(200)", key=True),
        # From 0, in the order in which they were made.
        Column("number", "INTEGER", key=True),
        Column("body", "JSON", required=True),
    ),
    has_rowid=False,
)

training_sets = Table(
    "training_sets",
    (
        # The SHA-256 of the file.
        Column("sha256", "VARCHAR(64)", key=True),
        Column("name", "TEXT", required=True),
        Column("created", "VARCHAR(40)", required=True),
        Column("card", "JSON", required=True),
        # JSON Lines, compressed by zlib: one line for each line of the file.
        Column("origins", "BLOB", required=True),
    ),
)

store_key = Table(
    "store_key",
    (
        # Always 1.
        Column("id", "INTEGER", key=True),
        Column("key", "BLOB", required=True),
    ),
)

ADDED: tuple[tuple[Table | tuple[Table, str], ...], ...] = (
    (reply_cache, known_adapters, events, (arms, "requests"), (arms, "cache_hits"), (arms, "cache_since")),
    (tags, (runs, "manifest")),
    (
        *((samples, "metadata"), variants, repeats, (arms, "variant"), (arms, "original")),
        *(messages, calls, (reply_cache, "run")),
    ),
    (
        *(texts, (replies, "text_id"), (calls, "text_id"), (calls, "reasoning_id")),
        *((reply_cache, "text"), (reply_cache, "text_id"), (reply_cache, "reasoning_id")),
    ),
    ((repeats, "training"),),
    (decisions, training_sets),
    ((variants, "name"), (variants, "sha256"), twins),
    (store_key, (tags, "why")),
    ((calls, "answered_by"), (calls, "cached"), (calls, "as_before")),
    ((events, "call"), (events, "request"), (runs, "format"), (calls, "has_texts")),
    ((calls, "finish"),),
    (conversation_texts, (calls, "tool_calls"), (calls, "parameters_id")),
)
"""What the formats 2, 3 ... have added to the one before. Nothing that a format has is ever changed or taken away.

Tables of features are in no format: a store that lacks them gets them when it is opened."""


def later_columns(table: Table, formats: int = 0) -> frozenset[str]:
    """Return the columns that the formats after the first ones, so many, have added to a table."""
    additions = (addition for of_format in ADDED[formats:] for addition in of_format)
    return frozenset(
        name for of_table, name in (each for each in additions if isinstance(each, tuple)) if of_table is table
    )


FORMS_APART = 13
"""The format in which long texts of conversations stand apart for the first time."""


def has_whole_forms(run_format: int | None) -> bool:
    """Return whether the forms of a run are whole: nothing keeps texts for it that stand apart from an equal form."""
    return run_format is None or run_format < FORMS_APART


FORMAT = 1 + len(ADDED)
"""A store with a higher number belongs to a newer version; one with a lower number is upgraded."""

# In this order: a table refers to earlier ones.
_TABLES = (
    *(store_format, runs, tags, samples, experiments, arms, variants, twins, repeats, texts, replies, messages, calls),
    *(
        conversation_texts,
        observations,
        lost,
        verdicts,
        reply_cache,
        known_adapters,
        events,
        decisions,
        training_sets,
        store_key,
    ),
)


def forms_of_calls(where: str = "1 = 1") -> str:
    """Return the SQL for the ids in `messages` that calls and conversations refer to, of the rows that meet a condition."""
    columns = [(calls, name) for name in FORM_COLUMNS] + [(conversation_texts, "message")]
    return " UNION ALL ".join(
        f"SELECT {name} FROM {table.name} WHERE {name} IS NOT NULL AND {where}" for table, name in columns
    )


def all_tables() -> Mapping[str, Table]:
    """Return all tables by name, with those of features."""
    return {table.name: table for table in (*_TABLES, *feature_tables())}


def feature_tables() -> list[Table]:
    """Return the tables of features."""
    return [table for _, table in load_rows("store_tables")]


def unit_tables() -> dict[str, Table]:
    """Return the tables of features whose rows are about units, by name: `Outcome.feature_rows` has theirs.

    With them is the table of the texts within conversations, whose rows follow those of the calls everywhere.
    """
    unit = tuple(column.name for column in UNIT_COLUMNS)
    tables = (conversation_texts, *feature_tables())
    return {table.name: table for table in tables if table.key[: len(unit)] == unit}


def experiment_tables() -> list[str]:
    """Return the names of features' tables whose rows belong to experiments."""
    return [table.name for table in feature_tables() if table.key[0] == "experiment"]
