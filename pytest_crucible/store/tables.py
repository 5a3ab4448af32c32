"""A stored run as tables for export: one row for each observation, reply or event, read in parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_crucible.records import ColumnKind, ExportTable
from pytest_crucible.records.datasets import LATE
from pytest_crucible.store import schema
from pytest_crucible.store.database import from_json
from pytest_crucible.store.forms import load_forms
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import messages_of, sample_texts, stored_text

# Rows that are fetched at a time, so that a million of them never are in memory.
_PART = 1000
_PLACE: Mapping[str, ColumnKind] = {"run": "text", "experiment": "text", "arm": "text"}
UNIT: Mapping[str, ColumnKind] = {
    **_PLACE,
    "sample": "text",
    "group": "text",
    "repeat": "integer",
    # Empty for the original samples.
    "variant": "text",
}

OBSERVATIONS: Mapping[str, ColumnKind] = {
    **UNIT,
    # None: the whole reply is lost.
    "metric": "text",
    "value": "number",
    "label": "text",
    "reason": "text",
    "lost": "text",
}
REPLIES: Mapping[str, ColumnKind] = {
    **UNIT,
    "input": "json",
    "expected": "json",
    "text": "text",
    "input_tokens": "integer",
    "output_tokens": "integer",
    "latency_s": "number",
    "finish": "text",
    "failure": "text",
    "skipped": "flag",
    "detail": "text",
    "started": "number",
}
REPEATS: Mapping[str, ColumnKind] = {
    **_PLACE,
    "repeat": "integer",
    # Empty if the test has its own prompt.
    "prompt": "text",
    # These count from 0.
    "training": "integer",
    "round": "integer",
    # Within the round.
    "epoch": "integer",
}
VARIANTS: Mapping[str, ColumnKind] = {
    **UNIT,
    # As the variant sends it.
    "text": "json",
    # Start, end and new text of each edit.
    "edits": "json",
    "reply": "text",
    "failure": "text",
    # Why the variant does not apply to the sample.
    "reason": "text",
    # Empty, for people's labels: whether the expected answer is still right.
    "kept": "text",
}
EVENTS: Mapping[str, ColumnKind] = {
    **_PLACE,
    "sample": "text",
    "repeat": "integer",
    "name": "text",
    "at": "number",
    "seconds": "number",
    "error": "text",
    "input_tokens": "integer",
    "output_tokens": "integer",
    "first_token_s": "number",
    "cost_usd": "number",
    "facts": "json",
}


def observations(store: RunStore, run: str) -> ExportTable:
    """Return the table of all values, and after those of each arm its lost ones, with the reason in `lost`, details in `reason`."""
    values = "observations.metric, observations.value, observations.label, observations.reason, NULL"
    missing = "lost.metric, NULL, NULL, lost.detail, lost.reason"

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm in _arms(store, run):
            for table, columns in ((schema.observations, values), (schema.lost, missing)):
                for row in _units(store, table, arm, columns):
                    yield (*place, *row[:4], row[4] or None, *row[5:])

    return ExportTable(columns=OBSERVATIONS, rows=rows())


_ANSWER = f"""{stored_text("replies")}, replies.input_tokens, replies.output_tokens, replies.latency_s, replies.finish,
    replies.failure, replies.skipped, replies.detail, replies.started"""
"""The columns of a reply from `text` on."""


def replies(store: RunStore, run: str) -> ExportTable:
    """Return the table of all replies, failures and skipped samples, without lost units.

    `input` and `expected` are those that the reply is to: of the sample, or of its variant as it was sent.
    """

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm in _arms(store, run):
            units = (_twin_replies if arm.sha256 else _sample_replies)(store, arm)
            for *values, skipped, detail, started in units:
                yield (*place, *values, bool(skipped), detail, started)

    return ExportTable(columns=REPLIES, rows=rows())


def _sample_replies(store: RunStore, arm: _Arm) -> Iterator[tuple[Any, ...]]:
    for row in _units(store, schema.replies, arm, f"samples.input, samples.expected, {_ANSWER}"):
        yield (*row[:4], *map(from_json, row[4:6]), *row[6:])


def _twin_replies(store: RunStore, arm: _Arm) -> Iterator[tuple[Any, ...]]:
    """Yield the replies to the twins of samples, as `_sample_replies` does, with the twins' input and expected value."""
    query = f"""
        SELECT samples.sample_id, samples.sample_group, replies.epoch + :first, CAST(:variant AS TEXT),
            twins.facts, {_SENT_FORM}, samples.metadata, twins.input, twins.expected, {_ANSWER}
        FROM replies
        JOIN samples ON samples.dataset = :dataset AND samples.position = replies.position
        LEFT JOIN twins ON twins.variant = :sha256 AND twins.position = replies.position
        WHERE replies.arm = :arm ORDER BY replies.position, replies.epoch
    """
    for row in _read(store, query, **arm._asdict()):
        unit, (facts, form, metadata, input, expected), answer = row[:4], row[4:9], row[9:]
        sent = _sent_input(store, arm, from_json(facts) or {}, form, from_json(input), metadata)
        yield (*unit, sent, from_json(expected), *answer)


def repeats(store: RunStore, run: str) -> ExportTable:
    """Return the prompt, training, round and number in the round of each repeat, arm by arm."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for _, plan, _ in store.all_experiments(run):
            for number, arm in enumerate(plan.arms):
                for repeat in range(plan.draws(number).size):
                    levels = plan.draws(number).levels(repeat)
                    prompt = plan.prompts[levels.prompts].name if plan.prompts else None
                    yield (run, plan.nodeid, arm.name, repeat, prompt, *levels[1:])

    return ExportTable(columns=REPEATS, rows=rows())


def events(store: RunStore, run: str) -> ExportTable:
    """Return every stored event, in the order in which it was written."""
    # The store's tables keep the column name of the first format.
    columns = ", ".join("epoch" if name == "repeat" else name for name in EVENTS)
    query = f"SELECT {columns} FROM events WHERE run = :run ORDER BY id"
    rows = ((*row, from_json(facts)) for *row, facts in _read(store, query, run=run))
    return ExportTable(columns=EVENTS, rows=rows)


def labels(store: RunStore, run: str, metric: str) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of a unit, and the text, of each value of a text metric."""
    for place, arm in _arms(store, run):
        for *unit, name, text in _units(store, schema.observations, arm, "observations.metric, observations.label"):
            if name == metric and text is not None:
                yield (*place, *unit, text)


def variants(store: RunStore, run: str) -> ExportTable:
    """Return the samples as variants send them, with each arm's replies; the column `kept` is for people's labels.

    A text that was written or found while the experiment ran is that of the stored request; None without one.
    A variant that does not apply to a sample has one row, without a reply and with the reason.
    """
    query = f"""
        SELECT samples.sample_id, samples.sample_group, replies.epoch + :first, CAST(:variant AS TEXT),
            twins.input, twins.facts, {_SENT_FORM}, samples.metadata,
            {stored_text("replies")}, replies.failure, twins.reason
        FROM twins
        JOIN samples ON samples.dataset = :dataset AND samples.position = twins.position
        LEFT JOIN replies ON replies.arm = :arm AND replies.position = twins.position
        WHERE twins.variant = :sha256 ORDER BY twins.position, replies.epoch
    """

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm in _arms(store, run):
            if not arm.sha256:
                continue
            for *unit, input, stored_facts, form, metadata, reply, failure, reason in _read(
                store, query, **arm._asdict()
            ):
                facts = from_json(stored_facts) or {}
                sent = _sent_input(store, arm, facts, form, from_json(input), metadata)
                yield (*place, *unit, sent, facts.get("edits"), reply, failure, reason, None)

    return ExportTable(columns=VARIANTS, rows=rows())


_SENT_FORM = """(
    SELECT calls.messages FROM calls WHERE calls.messages IS NOT NULL
    AND calls.arm = replies.arm AND calls.position = replies.position AND calls.epoch = replies.epoch
    AND calls.member = '' ORDER BY calls.is_scored DESC, calls.call DESC LIMIT 1
)"""
"""The key of the form of the request that a reply is to, or of the last one of a failed reply."""


def _sent_input(
    store: RunStore, arm: _Arm, facts: Mapping[str, Any], form: int | None, input: Any, metadata: str | None
) -> Any:
    """Return a twin's input as it was sent: a text or messages; None if what was made late is not stored whole."""
    if not facts.get(LATE):
        return input
    texts = sample_texts(input, from_json(metadata) or {})
    # It may refer to an earlier reply of the same sample.
    with contextlib.suppress(KeyError):
        return None if form is None else messages_of(load_forms(store.rows, [form], arm=arm.arm)[form], texts)
    return None


TABLES: Mapping[str, Callable[[RunStore, str], ExportTable]] = {
    "observations": observations,
    "replies": replies,
    "repeats": repeats,
    "events": events,
    "variants": variants,
}


class _Arm(NamedTuple):
    """One arm, on the original samples or on a variant of them; by name, the values of queries."""

    arm: int
    """Its key."""
    dataset: str
    """The SHA-256 of its samples."""
    first: int
    """The number of its first repeat, where repeats are counted over all prompts."""
    variant: str | None
    """The name of the variant; None for the original samples."""
    sha256: str
    """The hash of its twins; empty for the original samples."""


def _arms(store: RunStore, run: str) -> Iterator[tuple[tuple[str, str, str], _Arm]]:
    """Yield (run, experiment, arm) and the arm. An experiment that never began has no arms."""
    for key, plan, _ in store.all_experiments(run):
        for number, arm in enumerate(plan.arms):
            for twin in range(1 + len(plan.variants)):
                for arm_key, prompt in variant_keys(store, key, number, twin):
                    first, variant = plan.draws(number).place(prompt, 0), plan.variant_name(twin) or None
                    sha256 = plan.variants[twin - 1].sha256 if twin else ""
                    yield (run, plan.nodeid, arm.name), _Arm(arm_key, plan.dataset_sha256, first, variant, sha256)


def _units(store: RunStore, table: Table, arm: _Arm, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield sample, group, repeat and variant of each row of an arm, and the columns (SQL)."""
    query = f"""
        SELECT samples.sample_id, samples.sample_group, {table.name}.epoch + :first, CAST(:variant AS TEXT), {columns}
        FROM {table.name}
        JOIN samples ON samples.dataset = :dataset AND samples.position = {table.name}.position
        WHERE {table.name}.arm = :arm
        ORDER BY {", ".join(f"{table.name}.{name}" for name in table.key if name != "arm")}
    """
    return _read(store, query, **arm._asdict())


def _read(store: RunStore, query: str, **values: Any) -> Iterator[tuple[Any, ...]]:
    """Yield rows a part at a time, so that a large run never sits in memory."""
    with store.connect() as connection, connection.stream(query, **values) as rows:
        while part := rows.fetchmany(_PART):
            yield from part
