"""Texts as the store has them: long replies once, by their hash, and messages as prompt forms.

A reply is written several times: to the reply cache as it arrives, with its sample when that is finished, and by each later run
that reads it from the cache or copies the stored arm. Until they are written, rows contain the text.

A test usually writes one prompt around the texts of each sample. With these texts replaced by references, the messages of all
samples are one form, which is stored once; and in a conversation of many turns no reply is stored twice.

    messages   [{"role": "user", "content": "Is this true? The sky is green."}]
    sample     The sky is green.
    form       [{"role":"user","content":"Is this true? <0x01>i0<0x02>"}]

A form is JSON text in ASCII, in which control characters cannot occur, so that a reference is never mistaken for text.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import string
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.records.redaction import redact
from pytest_crucible.store import schema
from pytest_crucible.store.redactors import SHORTEST
from pytest_crucible.store.spill_file import Rows
from pytest_crucible.store.table import Table


def sanitize_text(text: str) -> str:
    r"""Return a text with U+FFFD in place of NUL and of half surrogate pairs, which JSON may contain and databases refuse.

    >>> sanitize_text("a\0b\ud83d")
    'a\ufffdb\ufffd'
    """
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


REFERENCES = ("text_id", "reasoning_id", "parameters_id")
"""Columns that refer to the table `texts`."""


def refer_to_texts(tables: Iterable[Rows], ids: dict[str, bytes]) -> list[Rows]:
    """Return rows to write, with references in place of their long texts, after the rows of the texts themselves.

    In a row to write, `text` may be long, and `reasoning_id` and `parameters_id` are the texts themselves. A text is written with
    every row that refers to it, even if it is stored already, because `crucible gc` may have just removed it.
    """
    referring: list[Rows] = [(table, over, _refer(table, rows, ids)) for table, over, rows in tables]
    # In the order of their keys: writers that insert in different orders would deadlock.
    texts = [{"id": key, "body": text} for text, key in sorted(ids.items(), key=lambda item: item[1])]
    return [(schema.texts, False, texts), *referring] if texts else referring


def stored_text(table: str) -> str:
    """Return the SQL for the column `text` of a table, wherever the text is stored."""
    return f"COALESCE({table}.text, {referred_text(f'{table}.text_id')})"


PARAMETERS = (
    "COALESCE(CAST(calls.parameters AS TEXT), (SELECT texts.body FROM texts WHERE texts.id = calls.parameters_id))"
)
"""The SQL for the parameters of a call as JSON text, wherever they are stored; null for the adapter's."""


def referred_text(reference: str) -> str:
    """Return the SQL for the text that a column refers to."""
    return f"(SELECT texts.body FROM texts WHERE texts.id = {reference})"


def _refer(table: Table, rows: Sequence[Any], ids: dict[str, bytes]) -> Sequence[Any]:
    # Most batches have only short texts and are left as they are. In rows of other processes references stand already.
    if "text_id" in table.names and any("text_id" in row or len(row.get("text") or "") >= SHORTEST for row in rows):
        rows = [_with_long_text_apart(row, ids) for row in rows]
    for name in REFERENCES[1:]:
        if name in table.names and any(row.get(name) for row in rows):
            rows = [{**row, name: _text_id(row.get(name), ids)} for row in rows]
    return rows


def _with_long_text_apart(row: Any, ids: dict[str, bytes]) -> Any:
    text = row.get("text")
    is_long = text is not None and len(text) >= SHORTEST
    key = _text_id(text, ids) if is_long else row.get("text_id")
    return {**row, "text": None if is_long else text, "text_id": key}


def text_id(text: str) -> bytes:
    """Return 128 bits of the text's SHA-256. With 64, a model could be made to write two texts with one id."""
    return hashlib.sha256(text.encode()).digest()[:16]


def _text_id(text: str | bytes | None, ids: dict[str, bytes]) -> bytes | None:
    if text is None or isinstance(text, bytes):
        return text
    if text not in ids:
        ids[text] = text_id(text)
    return ids[text]


SHORTEST_APART = 256
"""Characters of a text of a conversation, as a form has it, that stands apart (store/forms.py): a shorter one, compressed, takes
little more than a row with a key."""
SHORTEST_REFERENCE = 3
"""The fewest characters of a referenced text: shorter ones occur anywhere, and forms of samples would differ."""
_REFERENCE = re.compile("\x01([imr]\\d+)\x02")
_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_COMPRESSED = b"x"
"""The first byte of zlib's output. JSON never begins with it, nor does a reference."""


def sample_texts(input: Any, metadata: Any) -> dict[str, str]:
    """Return the texts of a sample by the name of their reference, as JSON has them without the quotes.

    >>> sample_texts({"claim": "The sky is green", "label": 0}, {"source": "a poem"})
    {'i0': 'The sky is green', 'm0': 'a poem'}
    """
    return {
        f"{kind}{number}": text_form(text)
        for kind, value in (("i", input), ("m", metadata))
        for number, text in enumerate(_leaves(value))
        if len(text) >= SHORTEST_REFERENCE
    }


def text_form(text: str) -> str:
    """Return a text as written between the quotes of JSON."""
    return _ENCODE(text)[1:-1]


def redact_form(form: str, hide: Callable[[str], str]) -> str:
    """Return a form whose own texts are redacted. References to other texts stay."""
    # A word that no text has stands for the control characters of a reference, which JSON would write as those of a text.
    mark = "".join(secrets.choice(string.ascii_lowercase) for _ in range(24))
    marked = _REFERENCE.sub(rf"{mark}\1{mark}", form)
    redacted = _ENCODE(redact(json.loads(marked), hide))
    return re.sub(rf"{mark}([imr]\d+){mark}", "\x01\\1\x02", redacted)


def form_of(messages: Any, texts: Mapping[str, str]) -> str:
    """Return the form of some messages."""
    return replace_texts(_ENCODE(messages), texts)


def replace_texts(form: str, texts: Mapping[str, str]) -> str:
    """Return a form with references in place of texts. The longest are replaced first: one may be a part of another."""
    # Of a long conversation most replies are in it; of a thousand calls with one message each hardly any.
    for name in sorted((name for name in texts if texts[name] in form), key=lambda name: -len(texts[name])):
        form = form.replace(texts[name], f"\x01{name}\x02")
    return form


def messages_of(form: str, texts: Mapping[str, str]) -> Any:
    """Return the messages of a form that `form_of` made. Raises KeyError for a reference to a text that is not there."""
    return json.loads(_REFERENCE.sub(lambda match: texts[match[1]], form))


def split_form(form: str) -> list[str]:
    """Return the own texts of a form, and between them the names of the texts that it refers to.

    >>> split_form(form_of("Is it? Green.", {"i0": "Green"}))
    ['"Is it? ', 'i0', '."']
    """
    return _REFERENCE.split(form)


def text_of_input(messages: Any) -> str:
    """Return messages that refer to no text as their form is written."""
    return _ENCODE(messages)


def form_key(form: str) -> int:
    """Return the first 64 bits of the form's SHA-256, as a signed integer: the key under which it is stored once.

    Among a million different forms the chance that any two have one key is 3 in 100 million.
    """
    return int.from_bytes(hashlib.sha256(form.encode()).digest()[:8], "big", signed=True)


def pack_form(form: str) -> bytes:
    """Return a form as bytes, compressed where that makes it smaller."""
    plain = form.encode("ascii")
    small = zlib.compress(plain) if len(plain) > 64 else plain
    return small if len(small) < len(plain) else plain


def unpack_form(body: bytes) -> str:
    """Return the form that was packed.

    >>> unpack_form(pack_form('"?"')), unpack_form(pack_form('"' + "?" * 100 + '"')) == '"' + "?" * 100 + '"'
    ('"?"', True)
    """
    return (zlib.decompress(body) if body[:1] == _COMPRESSED else body).decode("ascii")


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value, in an order that does not depend on the order of its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name in sorted(value):
            yield from _leaves(value[name])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
