r"""Forms as the store has them: of conversations, each long text once, whichever calls and units send it.

An agent sends its conversation again with each call. In the form of a conversation (store/texts.py) each text of 256 characters or
more is replaced by a reference to a form of its own, under its key, and that is stored once:

    form       [{"content":"...","role":"assistant"},{"content":"(20,000 characters)","role":"tool"}]
    stored     [{"content":"...","role":"assistant"},{"content":<0x01>p-7166290487519<0x02>,"role":"tool"}]

The key of a form is that of the whole form, so that what was sent has one key however it is stored. What is a conversation, and
which texts stand apart, depends on the form alone: equal forms are stored alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pytest_crucible.records.redaction import redact
from pytest_crucible.store.database import BATCH_SIZE
from pytest_crucible.store.texts import SHORTEST_APART, form_key, replace_texts, text_of_input, unpack_form

_SHORTEST_LOOKED_AT = 20
"""Characters of a text that may stand apart: in a form, each has twelve at most."""
_SIGNS = ('"role":"assistant"', '"type":"function"')
"""A form with one of these is of a conversation, or of tool calls, whose texts further calls send again."""
_LITERAL = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_APART = re.compile("\x01p(-?\\d+)\x02")
_PLACE, _WRITTEN_PLACE = "\x03", '"\\u0003"'
"""Stands in place of a text while the others are replaced, and how JSON has it."""


class SplitForm(NamedTuple):
    """A form, and what is stored of it."""

    form: str
    body: str
    """Has references in place of the texts that stand apart."""
    texts: Mapping[int, str]
    """The forms of these texts, by key."""


def is_conversation(form: str) -> bool:
    """Return whether the long texts of a form stand apart."""
    return any(sign in form for sign in _SIGNS)


def split_conversation(form: str) -> SplitForm:
    """Return a form with its long texts apart.

    >>> form, body, texts = split_conversation('[{"content":"' + "?" * 300 + '","role":"assistant"}]')
    >>> body == f'[{{"content":\x01p{[*texts][0]}\x02,"role":"assistant"}}]'
    True
    """
    texts: dict[int, str] = {}

    def put_apart(match: re.Match[str]) -> str:
        literal = match[0]
        if len(literal) < SHORTEST_APART:
            return literal
        key = form_key(literal)
        texts[key] = literal
        return _reference(key)

    return SplitForm(form, _LITERAL.sub(put_apart, form) if is_conversation(form) else form, texts)


class ConversationForms:
    """Makes the forms of the messages that one unit sends.

    A message has the form that it had at first: a later reply that is a part of it, such as "Paris", would give it another one, and
    a long text would be stored again. Nor is it read, redacted and written again: most of a conversation was sent before.
    """

    def __init__(self, hide: Callable[[str], str]) -> None:
        """`hide` redacts a text."""
        self._hide = hide
        self._written: dict[str, tuple[int | None, str]] = {}
        """The form of each text, and its key if it stands apart."""
        self._sent: tuple[str, Sequence[SplitForm]] = ("", ())
        """The last messages as JSON, and the form of each of them."""

    def extend(self, written: str, texts: Mapping[str, str]) -> Sequence[SplitForm] | None:
        """Return the forms of messages, as JSON, that begin with the last ones; None for others."""
        before, parts = self._sent
        end = len(before) - 1
        if not before or written[end : end + 1] != "," or not written.startswith(before[:end]):
            return None
        return self._keep(written, [*parts, *self.parts(json.loads(f"[{written[end + 1 :]}"), texts)])

    def begin(self, written: str, messages: Sequence[Any], texts: Mapping[str, str]) -> Sequence[SplitForm]:
        """Return the forms of messages, which later ones may continue. `written` has them as JSON."""
        return self._keep(written, self.parts(messages, texts))

    def _keep(self, written: str, parts: Sequence[SplitForm]) -> Sequence[SplitForm]:
        self._sent = written, parts
        return parts

    def parts(self, messages: Sequence[Any], texts: Mapping[str, str]) -> list[SplitForm]:
        """Return the form of each message, redacted, which refers to `texts`; with all long texts apart."""
        return [self.split(message, texts) for message in messages]

    def split(self, value: Any, texts: Mapping[str, str]) -> SplitForm:
        """Return the form of a JSON value, likewise."""
        leaves: list[str] = []
        rest = text_of_input(redact(_take_leaves(value, leaves), self._hide)).replace(_WRITTEN_PLACE, _PLACE)
        between = replace_texts(rest, texts).split(_PLACE)
        if len(between) != len(leaves) + 1:
            # A key of an object, or a text that was redacted, is the mark itself.
            form = replace_texts(text_of_input(redact(value, self._hide)), texts)
            return SplitForm(form, form, {})
        written = [self._write(leaf, texts) for leaf in leaves]
        form = _join(between, (literal for _, literal in written))
        body = _join(between, (literal if key is None else _reference(key) for key, literal in written))
        return SplitForm(form, body, {key: literal for key, literal in written if key is not None})

    def _write(self, leaf: str, texts: Mapping[str, str]) -> tuple[int | None, str]:
        """Return the form of a text, and its key if it is long enough to stand apart."""
        if leaf not in self._written:
            literal = replace_texts(text_of_input(self._hide(leaf)), texts)
            self._written[leaf] = (form_key(literal) if len(literal) >= SHORTEST_APART else None), literal
        return self._written[leaf]


def join_parts(parts: Sequence[SplitForm]) -> SplitForm:
    """Return the form of a list, from those of its items: with its long texts apart if it is a conversation."""
    form = f"[{','.join(part.form for part in parts)}]"
    if not is_conversation(form):
        return SplitForm(form, form, {})
    texts = {key: text for part in parts for key, text in part.texts.items()}
    return SplitForm(form, f"[{','.join(part.body for part in parts)}]", texts)


def _take_leaves(value: Any, leaves: list[str]) -> Any:
    """Return a JSON value with a mark in place of texts, and add these to `leaves`, in the order of the form."""
    if isinstance(value, str) and (len(value) >= _SHORTEST_LOOKED_AT or value == _PLACE):
        leaves.append(value)
        return _PLACE
    if isinstance(value, Mapping):
        return {name: _take_leaves(value[name], leaves) for name in sorted(value)}
    return [_take_leaves(part, leaves) for part in value] if isinstance(value, list | tuple) else value


def _join(between: Sequence[str], texts: Iterable[str]) -> str:
    first, *rest = between
    return "".join([first, *(part for pair in zip(texts, rest, strict=True) for part in pair)])


def _reference(key: int) -> str:
    return f"\x01p{key}\x02"


def expand_form(body: str, texts: Mapping[int, str]) -> str:
    """Return the whole form. Raises KeyError without one of its texts."""
    return _APART.sub(lambda match: texts[int(match[1])], body)


def texts_apart(body: str) -> list[int]:
    """Return the keys of the texts that a stored form refers to."""
    return list(dict.fromkeys(map(int, _APART.findall(body))))


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
        yield from rows(query, keys=ordered[start : start + BATCH_SIZE], **owner)
