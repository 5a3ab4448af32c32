"""Redacts the stored texts of a run once more: a reply may show what was found only in a later one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Select, Table, delete, select, update

from pytest_crucible.records.redaction import redact
from pytest_crucible.store import schema
from pytest_crucible.store.bulk_insert import insert_many
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.prompt_forms import form_key, pack_form, redact_form, unpack_form
from pytest_crucible.store.prune import remove_messages, remove_texts
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import REFERENCES, referred_text, text_id

_TEXTS = {
    schema.replies: ("text", "detail"),
    schema.calls: ("text", "error", "parameters"),
    schema.observations: ("label", "reason"),
    schema.lost: ("detail",),
    schema.events: ("error", "facts"),
    schema.samples: ("input", "expected", "metadata"),
    schema.twins: ("input", "expected", "reason", "facts"),
}
"""The columns with texts of samples, models and servers. Ids and names are joined by, and stay as they were first stored."""


def redact_again(store: RunStore, run: str, hide: Callable[[str], str]) -> None:
    """Redact all texts of a run in one transaction. Raises StoreError."""
    with explain_errors(store.location), store.engine.begin() as connection:
        for table, columns in _TEXTS.items():
            _redact_columns(connection, table, columns, _of_run(table, run), hide)
        for table in (schema.replies, schema.calls):
            for column in REFERENCES:
                if column in table.c:
                    _redact_texts(connection, table, column, _of_run(table, run), hide)
        _redact_messages(connection, run, hide)
        _remove_cached(connection, run, hide)
        remove_messages(connection)
        remove_texts(connection)


def _of_run(table: Table, run: str) -> Any:
    """Return the condition on the rows of a run."""
    experiments = select(schema.experiments.c.id).where(schema.experiments.c.run == run)
    if table is schema.events:
        return table.c.run == run
    if table is schema.samples:
        digest = schema.experiments.c.plan["dataset_sha256"].as_string()
        return table.c.dataset.in_(select(digest).where(schema.experiments.c.run == run))
    if table is schema.twins:
        variants = schema.variants.c
        return table.c.variant.in_(select(variants.sha256).where(variants.experiment.in_(experiments)))
    return table.c.arm.in_(select(schema.arms.c.id).where(schema.arms.c.experiment.in_(experiments)))


def _redact_columns(
    connection: Connection, table: Table, columns: tuple[str, ...], where: Any, hide: Callable[[str], str]
) -> None:
    key = list(table.primary_key)
    for row in connection.execute(select(*key, *(table.c[name] for name in columns)).where(where)).mappings().all():
        changed = {name: new for name in columns if (new := redact(row[name], hide)) != row[name]}
        if changed:
            connection.execute(update(table).where(*(column == row[column.name] for column in key)).values(**changed))


def _redact_texts(connection: Connection, table: Table, column: str, where: Any, hide: Callable[[str], str]) -> None:
    """Let rows refer to redacted texts. The texts themselves stay for the rows of other runs, if there are any."""
    reference = table.c[column]
    texts: Select[Any] = select(schema.texts).where(schema.texts.c.id.in_(select(reference).where(where)))
    for old, body in connection.execute(texts).all():
        if (redacted := hide(body)) != body:
            new = text_id(redacted)
            insert_many(connection, schema.texts, [{"id": new, "body": redacted}], over=False)
            connection.execute(update(table).where(where, reference == old).values({column: new}))


def _redact_messages(connection: Connection, run: str, hide: Callable[[str], str]) -> None:
    calls = schema.calls
    where = _of_run(calls, run)
    forms = select(schema.messages).where(schema.messages.c.id.in_(select(calls.c.messages).where(where)))
    for old, body in connection.execute(forms).all():
        form = unpack_form(body)
        redacted = redact_form(form, hide)
        if redacted != form:
            row = {"id": form_key(redacted), "body": pack_form(redacted)}
            insert_many(connection, schema.messages, [row], over=False)
            connection.execute(update(calls).where(where, calls.c.messages == old).values(messages=row["id"]))


def _remove_cached(connection: Connection, run: str, hide: Callable[[str], str]) -> None:
    """Delete cached replies with findings: changed, they would not be the model's."""
    table = schema.reply_cache
    apart = (referred_text(table.c[name]).label(f"of_{name}") for name in REFERENCES)
    query = select(table.c.key, table.c.reply, table.c.text, *apart).where(table.c.run == run)
    for key, *parts in connection.execute(query).all():
        if any(part and hide(part) != part for part in parts):
            connection.execute(delete(table).where(table.c.key == key))
