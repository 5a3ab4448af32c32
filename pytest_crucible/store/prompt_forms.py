"""Messages as prompt forms: texts of the sample and of earlier replies are references, not stored again.

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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_crucible.records.redaction import redact

SHORTEST = 3
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
        if len(text) >= SHORTEST
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
    """Return the form of some messages. The longest texts are replaced first: one may be a part of another."""
    form = _ENCODE(messages)
    for name in sorted(texts, key=lambda name: -len(texts[name])):
        form = form.replace(texts[name], f"\x01{name}\x02")
    return form


def messages_of(form: str, texts: Mapping[str, str]) -> Any:
    """Return the messages of a form that `form_of` made. Raises KeyError for a reference to a text that is not there."""
    return json.loads(_REFERENCE.sub(lambda match: texts[match[1]], form))


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
