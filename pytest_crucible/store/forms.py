r"""Forms as the store has them: of conversations, each long text once, whichever calls and units send it.

An agent sends its conversation again with each call. In the form of a conversation (store/texts.py) each text of 256 characters or
more is replaced by a reference to a form of its own, under its key, and that is stored once:

    form       [{"content":"...","role":"assistant"},{"content":"(20,000 characters)","role":"tool"}]
    stored     [{"content":"...","role":"assistant"},{"content":<0x01>p-7166290487519<0x02>,"role":"tool"}]

The key of a form is that of the whole form, so that what was sent has one key however it is stored. What is a conversation, and which
texts stand apart, depends on the form alone: equal forms are stored alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from pytest_crucible.store.database import BATCH_SIZE
from pytest_crucible.store.texts import form_key, pack_form, replace_texts, text_of_input, unpack_form

SHORTEST_APART = 256
"""Characters of a text that stands apart: a shorter one, compressed, takes little more than the row with its key."""
_SIGNS = ('"role":"assistant"', '"type":"function"')
"""A form with one of these is of a conversation, or of tool calls, whose texts further calls send again."""
_LITERAL = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_APART = re.compile("\x01p(-?\\d+)\x02")
_PLACE = '"\x03"'
"""Stands in place of a long text while the others are replaced: no text of a sample or reply has a control character."""


class StoredForm(NamedTuple):
    """A form as it is stored."""

    key: int
    body: bytes
    texts: Mapping[int, bytes]
    """The bodies of the texts that stand apart, by key."""


def is_conversation(form: str) -> bool:
    """Return whether the long texts of a form stand apart."""
    return any(sign in form for sign in _SIGNS)


def store_form(form: str) -> StoredForm:
    """Return what is stored of a form.

    >>> stored = store_form('[{"content":"' + "?" * 300 + '","role":"assistant"}]')
    >>> unpack_form(stored.body) == f'[{{"content":\x01p{[*stored.texts][0]}\x02,"role":"assistant"}}]'
    True
    """
    texts: dict[int, bytes] = {}

    def put_apart(match: re.Match[str]) -> str:
        literal = match[0]
        if len(literal) < SHORTEST_APART:
            return literal
        key = form_key(literal)
        if key not in texts:
            texts[key] = pack_form(literal)
        return f"\x01p{key}\x02"

    body = _LITERAL.sub(put_apart, form) if is_conversation(form) else form
    return StoredForm(form_key(form), pack_form(body), texts)


def expand_form(body: str, texts: Mapping[int, str]) -> str:
    """Return the whole form. Raises KeyError without one of its texts."""
    return _APART.sub(lambda match: texts[int(match[1])], body)


def texts_apart(body: str) -> list[int]:
    """Return the keys of the texts that a stored form refers to."""
    return list(dict.fromkeys(map(int, _APART.findall(body))))


def conversation_form(messages: Any, texts: Mapping[str, str], known: dict[str, str]) -> str:
    """Return the form of some messages, as `form_of` does; a long text has the form that it had at first.

    `known` has those of the unit's earlier calls, and receives others: a later reply that is a part of an earlier text, such as
    "Paris", would give it another form, and it would be stored again.
    """
    written, apart = text_of_input(messages), list[str]()
    if not is_conversation(written):
        return replace_texts(written, texts)

    def put_apart(match: re.Match[str]) -> str:
        literal = match[0]
        if len(literal) < SHORTEST_APART:
            return literal
        if literal not in known:
            known[literal] = replace_texts(literal, texts)
        apart.append(known[literal])
        return _PLACE

    first, *rest = replace_texts(_LITERAL.sub(put_apart, written), texts).split(_PLACE)
    return "".join([first, *(part for pair in zip(apart, rest, strict=True) for part in pair)])


class Rows(Protocol):
    """Runs a query."""

    def __call__(self, sql: str, /, **values: Any) -> Iterable[tuple[Any, ...]]: ...


def load_forms(rows: Rows, keys: Iterable[int], **owner: int) -> dict[int, str]:
    """Return the forms with these keys. Those that are not stored, or not whole, are left out.

    `owner` is the `experiment` or `arm` whose calls refer to them: of a run in Parquet parts, no other run's are read then.
    """
    bodies = {key: unpack_form(body) for key, body in load_bodies(rows, keys, owner)}
    apart = {text for body in bodies.values() for text in texts_apart(body)}
    texts = {key: unpack_form(body) for key, body in load_bodies(rows, apart, owner)}
    return {key: expand_form(body, texts) for key, body in bodies.items() if texts.keys() >= {*texts_apart(body)}}


def load_bodies(rows: Rows, keys: Iterable[int], owner: Mapping[str, int]) -> Iterator[tuple[int, bytes]]:
    """Yield the keys and bodies of forms that are stored. `owner` is that of `load_forms`."""
    ordered = sorted(set(keys))
    conditions = (f"EXISTS (SELECT 1 FROM {name}s WHERE {name}s.id = :{name})" for name in owner)
    query = " AND ".join(["SELECT id, body FROM messages WHERE id IN (:keys)", *conditions])
    for start in range(0, len(ordered), BATCH_SIZE):
        for key, body in rows(query, keys=ordered[start : start + BATCH_SIZE], **owner):
            yield key, body
