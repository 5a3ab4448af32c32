"""Places of findings, for characters of every width, and values that stand in for a secret."""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import accumulate

from pytest_crucible.records.outcomes import Span

Place = tuple[int, int]
"""The first character of a finding, and the one after its last."""


def drop_overlapping(places: Iterable[Place], *occupied: Iterable[Place]) -> list[Place]:
    """Return the places that overlap none of those taken, which may be in any order and overlap each other.

    >>> drop_overlapping([(0, 4), (6, 9)], [(3, 5)])
    [(6, 9)]
    """
    others = sorted(place for group in occupied for place in group)
    starts = [start for start, _ in others]
    # The farthest end of all that begin before a place ends.
    farthest = [0, *accumulate((end for _, end in others), max)]
    return [(start, end) for start, end in places if farthest[bisect_left(starts, end)] <= start]


def make_spans(findings: Mapping[str, Iterable[Place]]) -> tuple[Span, ...]:
    """Return the spans of the places of each type, in order of place.

    >>> make_spans({"URL": [(5, 9)], "IP_ADDRESS": [(0, 4)]})
    (Span(type='IP_ADDRESS', start=0, end=4), Span(type='URL', start=5, end=9))
    """
    ordered = sorted((start, end, name) for name, places in findings.items() for start, end in places)
    return tuple(Span(name, start, end) for start, end, name in ordered)


_BLANKS = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63"
# Full stops of other scripts end a sentence: they are no part of an address before them.
_DOTS, _AT = "\u2024\ufe52", "\ufe6b"
# Characters that are not drawn stand between those that are.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def find_in_any_width(find: Callable[[str], Iterable[Span]], text: str) -> list[Span]:
    """Return what is found in a text whose digits, letters, signs and blanks may be of any width.

    >>> find_in_any_width(lambda text: [Span("AT", text.index("@"), text.index("@") + 1)], "a\uff20b")
    [Span(type='AT', start=1, end=2)]
    """
    if text.isascii():
        return list(find(text))
    folded = text.translate(_list_widths())
    if not _INVISIBLE.search(folded):
        return list(find(folded))
    places = [place for place, character in enumerate(folded) if not _INVISIBLE.match(character)]
    spans = find("".join(folded[place] for place in places))
    return [replace(span, start=places[span.start], end=places[span.end - 1] + 1) for span in spans]


@functools.cache
def _list_widths() -> dict[int, str]:
    """Return the character of ASCII for each that is one of another width, a blank, a dash, or a decimal digit of any script."""
    full = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    decimals = {
        code: str(value) for code in range(128, 0x20000) if (value := unicodedata.decimal(chr(code), None)) is not None
    }
    signs = {" ": _BLANKS, "-": _DASHES, ".": _DOTS, "@": _AT}
    return full | decimals | {ord(other): sign for sign, others in signs.items() for other in others}


# Of these words a value is made that somebody is to replace, or that describes one.
_WORDS = (
    "your", "yours", "my", "our", "their", "the", "a", "an", "this", "that", "some", "any", "new", "old", "real", "actual",
    "own", "and", "or", "of", "for", "with", "in", "to", "from", "at", "on", "is", "be", "must", "not", "no", "as", "if",
    "by", "only", "here", "there", "goes", "example", "sample", "demo", "test", "tests", "testing", "dummy", "fake", "mock",
    "stub", "foo", "bar", "baz", "foobar", "todo", "fixme", "tbd", "placeholder", "place", "holder", "insert", "enter",
    "replace", "replaced", "change", "changed", "changeit", "changeme", "me", "it", "fill", "put", "paste", "add", "set",
    "unset", "provide", "provided", "generate", "generated", "redacted", "hidden", "masked", "removed", "omitted",
    "censored", "filtered", "sanitized", "obfuscated", "encrypted", "empty", "blank", "none", "null", "nil", "undefined",
    "missing", "unknown", "invalid", "valid", "true", "false", "yes", "required", "optional", "default", "string", "str",
    "text", "bytes", "int", "integer", "bool", "boolean", "number", "object", "type", "value", "values", "val", "var",
    "variable", "env", "environ", "config", "settings", "field", "name", "user", "username", "admin", "root", "client",
    "server", "service", "account", "app", "application", "project", "database", "db", "host", "url", "uri", "file", "path",
    "vault", "id", "code", "hash", "hashed", "salt", "public", "private", "access", "api", "apikey", "auth", "authorization",
    "bearer", "basic", "token", "tokens", "key", "keys", "secret", "secrets", "secretkey", "password", "passwords", "passwd",
    "passphrase", "pass", "pwd", "pw", "passwort", "kennwort", "credential", "credentials", "login", "signing", "encryption",
    "master", "session", "refresh", "webhook", "openai", "anthropic", "google", "aws", "azure", "github", "gitlab", "stripe",
    "slack", "groq", "hf", "huggingface", "wandb", "npm", "pypi", "sendgrid", "databricks", "super", "very", "long",
    "strong", "secure", "random", "confirm", "confirmation", "current", "repeat", "again", "reset", "forgot", "forgotten",
    "input", "output", "prod", "production", "dev", "development", "staging", "local", "localhost", "x", "xx", "xxx", "xxxx",
    "abc", "something", "anything", "whatever", "please", "dein", "deine", "ihr", "ihre", "mein", "hier", "eingeben",
    "eintragen", "beispiel", "geheim", "schluessel", "neues", "sk", "pk", "proj", "ant", "live", "ghp", "glpat", "xoxb",
)  # fmt: skip
# Possessive, with longer words first: each character is read once.
_MADE_OF_WORDS = re.compile(rf"(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})++\d{{0,2}}")
_NO_LETTERS = re.compile(r"[\W_]+")
_MASK = re.compile(r"([*•●·…xX?#])\1{3,}|\*{3}|\.{3}|…|•{2}")
# `${NAME}`, `$NAME`, `{{ name }}`, `%(name)s`, `%NAME%`, `<name>`, `[name]`, `(name)`, `#{name}`, `@name@`, `__NAME__`, `:name`.
_REFERENCE = re.compile(
    r"\$[({].*|\$\$?[A-Z_][A-Z0-9_]*|\$[a-z_]+(?:(?:\.|->|:)[a-z_]+)*|\$env:.*|\{\{.*|#?\{.*\}|%\(.*|%[A-Za-z_]+%|%[sdrv]"
    r"|<[^>]*>?|\[.*\]|\(.*\)|@[A-Za-z_-]+@|__[A-Za-z_]+__|:[a-z_]+|![A-Za-z]+|ENC\[.*",
    re.DOTALL,
)
# `client_secret`, `clientSecret`, `API_KEY`
_NAME = "[A-Z]{0,3}[a-z_]{2,}(?:[A-Z]{1,3}[a-z]{2,})*|[A-Z_]{3,}"
_ARGUMENTS = r"[(\[{][\w.,()\[\]{}=: -]*"
# A call, an index, a dotted name, a list, a constant, or where a secret is kept.
_CODE = re.compile(
    rf"[A-Za-z_]?[a-z]{{2,}}+(?:(?:(?:->|::|[._])[A-Z]?|[A-Z])[a-z]++)*+(?:_[A-Z]++)*+{_ARGUMENTS}|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+{_ARGUMENTS}"
    rf"|(?:{_NAME})(?:(?:\.|->|::?)(?:{_NAME})\d{{0,2}}){{1,6}}|[\[({{](?:{_NAME})(?:\.(?:{_NAME}))*|(?:[Tt]rue|[Ff]alse|None|null|nil)\b.*"
    r"|(?:file|vault|op|https?|arn|ref|env|ssm|secretsmanager|keyring|sops)(?:://|:|\+).*"
    r"|(?:\.{0,2}|~|[A-Za-z]:)[/\\](?:[A-Za-z_. -]+[/\\])+[\w.-]+",
    re.DOTALL,
)
_FEWEST_CHARACTERS, _SEPARATORS = 3, frozenset("-_. ")


def is_placeholder(value: str) -> bool:
    """Return whether a value only stands in for a secret.

    >>> [is_placeholder(value) for value in ("${DB_PASSWORD}", "your-key-here", "********", "Tr0ub4dor")]
    [True, True, True, False]
    """
    letters = _NO_LETTERS.sub("", value).lower()
    return (
        len(set(value) - _SEPARATORS) < _FEWEST_CHARACTERS
        or "example" in letters
        or _MASK.search(value) is not None
        or _REFERENCE.fullmatch(value) is not None
        or _CODE.fullmatch(value) is not None
        or _MADE_OF_WORDS.fullmatch(letters) is not None
    )
