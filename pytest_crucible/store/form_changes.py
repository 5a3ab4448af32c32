"""Redacts the forms of a run's calls again, and the texts that stand apart from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection
from pytest_crucible.store.forms import load_bodies, load_forms, split_conversation, texts_apart
from pytest_crucible.store.texts import form_key, pack_form, redact_form, unpack_form

_OF_ARMS = "arm IN (SELECT id FROM arms WHERE experiment IN (SELECT id FROM experiments WHERE run = :run))"
_UNIT = ("arm", "position", "epoch")


def redact_forms(connection: Connection, run: str, hide: Callable[[str], str]) -> None:
    """Let the calls of a run refer to redacted forms. The forms themselves stay for the calls of other runs, if there are any."""
    changed = _redacted_keys(connection, run, hide)
    if not changed:
        return
    with connection.changing(schema.calls, _OF_ARMS, run=run):
        for column in schema.FORM_COLUMNS:
            for old, new in changed.items():
                statement = f"UPDATE calls SET {column} = :new WHERE {column} = :old AND {_OF_ARMS}"
                connection.execute(statement, new=new, old=old, run=run)
    with connection.changing(schema.conversation_texts, _OF_ARMS, run=run):
        connection.execute(f"DELETE FROM conversation_texts WHERE {_OF_ARMS}", run=run)
        _enter_texts(connection, run)


def _redacted_keys(connection: Connection, run: str, hide: Callable[[str], str]) -> Mapping[int, int]:
    """Enter the redacted forms of a run; return their keys by those of the forms before."""
    changed: dict[int, int] = {}
    for old, form in load_forms(connection.execute, _form_keys(connection, run)).items():
        redacted = redact_form(form, hide)
        if redacted != form:
            changed[old] = form_key(redacted)
            _, body, texts = split_conversation(redacted)
            forms = {**texts, changed[old]: body}
            connection.insert(schema.messages, [{"id": key, "body": pack_form(form)} for key, form in forms.items()])
    return changed


def _form_keys(connection: Connection, run: str) -> set[int]:
    queries = (f"SELECT {name} FROM calls WHERE {name} IS NOT NULL AND {_OF_ARMS}" for name in schema.FORM_COLUMNS)
    return {key for query in queries for key in connection.scalars(query, run=run)}


def _enter_texts(connection: Connection, run: str) -> None:
    """Enter which texts the conversations of each unit of a run refer to."""
    bodies = load_bodies(connection.execute, _form_keys(connection, run), {})
    apart = {key: texts for key, body in bodies if (texts := texts_apart(unpack_form(body)))}
    query = f"SELECT {', '.join((*_UNIT, *schema.FORM_COLUMNS))} FROM calls WHERE {_OF_ARMS}"
    calls = connection.execute(query, run=run).fetchall()
    rows = {
        (*unit, text) for *unit, messages, tools in calls for form in (messages, tools) for text in apart.get(form, ())
    }
    # Within `changing`, which records all that is new.
    connection.execute_many(_INSERT, sorted(rows))


_INSERT = "INSERT INTO conversation_texts (arm, position, epoch, message) VALUES (?, ?, ?, ?)"
