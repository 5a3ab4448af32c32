"""A stored run as tables for export: one row for each observation, reply or event, read in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Float, ScalarSelect, String, and_, literal, null, select
from sqlalchemy import Table as Stored

from pytest_crucible.records import ColumnKind, ExportTable
from pytest_crucible.records.datasets import LATE
from pytest_crucible.store import schema
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import messages_of, sample_texts, stored_text, unpack_form

# Rows that are fetched at a time, so that a million of them never are in memory.
_PART = 1000
_PLACE: Mapping[str, ColumnKind] = {"run": "text", "experiment": "text", "arm": "text"}
# The store's tables keep the column name of the first format.
_STORED_AS = {"repeat": "epoch"}
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
    stored_values, lost = schema.observations, schema.lost
    values = (
        stored_values.c.metric,
        stored_values.c.value,
        stored_values.c.label,
        stored_values.c.reason,
        null().cast(String),
    )
    missing = (lost.c.metric, null().cast(Float), null().cast(String), lost.c.detail, lost.c.reason)

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm in _arms(store, run):
            for table, columns in ((stored_values, values), (lost, missing)):
                for row in _units(store, table, arm, columns):
                    yield (*place, *row[:4], row[4] or None, *row[5:])

    return ExportTable(columns=OBSERVATIONS, rows=rows())


def replies(store: RunStore, run: str) -> ExportTable:
    """Return the table of all replies, failures and skipped samples, without lost units.

    `input` and `expected` are those that the reply is to: of the sample, or of its variant as it was sent.
    """
    stored, samples = schema.replies.c, schema.samples.c
    others = (stored[name] for name in list(REPLIES)[len(UNIT) + 3 :])
    columns = (samples.input, samples.expected, stored_text(schema.replies), *others)

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm in _arms(store, run):
            units = _twin_replies(store, arm, columns) if arm.sha256 else _units(store, schema.replies, arm, columns)
            yield from ((*place, *row) for row in units)

    return ExportTable(columns=REPLIES, rows=rows())


def _twin_replies(store: RunStore, arm: _Arm, columns: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the replies to the twins of samples, as `_units` does, with the twins' input and expected value."""
    twins, stored, samples = schema.twins.c, schema.replies, schema.samples
    of_unit = and_(twins.variant == arm.sha256, twins.position == stored.c.position)
    of_sample = and_(samples.c.dataset == arm.dataset, samples.c.position == stored.c.position)
    query = (
        select(
            *(samples.c.sample_id, samples.c.sample_group, stored.c.epoch + arm.first, literal(arm.variant, String)),
            *(twins.facts, _sent_form(stored), samples.c.metadata, twins.input, twins.expected, *columns[2:]),
        )
        .select_from(stored.join(samples, of_sample).outerjoin(schema.twins, of_unit))
        .where(stored.c.arm == arm.key)
        .order_by(stored.c.position, stored.c.epoch)
    )
    for row in _read(store, query):
        unit, (facts, form, metadata, input), others = row[:4], row[4:8], row[8:]
        text = _sent_text(form, input, metadata) if (facts or {}).get(LATE) else input
        yield (*unit, text, *others)


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
    table = schema.events
    query = (
        select(*(table.c[_STORED_AS.get(name, name)] for name in EVENTS)).where(table.c.run == run).order_by(table.c.id)
    )
    return ExportTable(columns=EVENTS, rows=_read(store, query))


def labels(store: RunStore, run: str, metric: str) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of a unit, and the text, of each value of a text metric."""
    table = schema.observations
    for place, arm in _arms(store, run):
        for *unit, name, text in _units(store, table, arm, (table.c.metric, table.c.label)):
            if name == metric and text is not None:
                yield (*place, *unit, text)


def variants(store: RunStore, run: str) -> ExportTable:
    """Return the samples as variants send them, with each arm's replies; the column `kept` is for people's labels.

    A text that was written or found while the experiment ran is that of the stored request; None without one.
    A variant that does not apply to a sample has one row, without a reply and with the reason.
    """
    twins, stored, samples = schema.twins.c, schema.replies, schema.samples

    def rows() -> Iterator[tuple[Any, ...]]:
        for place, arm in _arms(store, run):
            if not arm.sha256:
                continue
            of_unit = and_(stored.c.arm == arm.key, stored.c.position == twins.position)
            of_sample = and_(samples.c.dataset == arm.dataset, samples.c.position == twins.position)
            query = (
                select(
                    *(samples.c.sample_id, samples.c.sample_group, stored.c.epoch + arm.first),
                    *(literal(arm.variant, String), twins.input, twins.facts, stored_text(stored)),
                    *(stored.c.failure, twins.reason, null().cast(String), _sent_form(stored), samples.c.metadata),
                )
                .select_from(schema.twins.join(samples, of_sample).outerjoin(stored, of_unit))
                .where(twins.variant == arm.sha256)
                .order_by(twins.position, stored.c.epoch)
            )
            for *unit, input, facts, reply, failure, reason, label, form, metadata in _read(store, query):
                text = _sent_text(form, input, metadata) if (facts or {}).get(LATE) else input
                yield (*place, *unit, text, (facts or {}).get("edits"), reply, failure, reason, label)

    return ExportTable(columns=VARIANTS, rows=rows())


def _sent_form(replies: Stored) -> ScalarSelect[bytes]:
    """Return the form of the request that a reply is to, or of the last one of a failed reply."""
    calls, forms = schema.calls, schema.messages
    of_reply = and_(*(calls.c[name] == replies.c[name] for name in ("arm", "position", "epoch")), calls.c.member == "")
    query = select(forms.c.body).select_from(calls.join(forms, forms.c.id == calls.c.messages)).where(of_reply)
    return query.order_by(calls.c.is_scored.desc(), calls.c.call.desc()).limit(1).scalar_subquery()


def _sent_text(form: bytes | None, input: Any, metadata: Any) -> Any:
    """Return the prompt of a request: a text or messages; None if it is not stored whole."""
    try:
        return None if form is None else messages_of(unpack_form(form), sample_texts(input, metadata or {}))
    except KeyError:
        # It refers to an earlier reply of the same sample.
        return None


TABLES: Mapping[str, Callable[[RunStore, str], ExportTable]] = {
    "observations": observations,
    "replies": replies,
    "repeats": repeats,
    "events": events,
    "variants": variants,
}


class _Arm(NamedTuple):
    """One arm, on the original samples or on a variant of them."""

    key: int
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


def _units(store: RunStore, table: Stored, arm: _Arm, columns: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    samples = schema.samples
    of_sample = and_(samples.c.dataset == arm.dataset, samples.c.position == table.c.position)
    repeat = table.c.epoch + arm.first if arm.first else table.c.epoch
    query = (
        select(samples.c.sample_id, samples.c.sample_group, repeat, literal(arm.variant, String), *columns)
        .select_from(table.join(samples, of_sample))
        .where(table.c.arm == arm.key)
        .order_by(*(column for column in table.primary_key if column.name != "arm"))
    )
    return _read(store, query)


def _read(store: RunStore, query: Any) -> Iterator[tuple[Any, ...]]:
    """Yield rows a part at a time, so that a large run never sits in memory."""
    with store.connect() as connection:
        for part in connection.execution_options(yield_per=_PART).execute(query).partitions():
            yield from map(tuple, part)
