"""Expectations on the texts that a model is sent: clean, short enough, valid, without secrets and personal data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from pytest_crucible.datasets.check import Finder, Finding, row_finding
from pytest_crucible.datasets.columns import Table
from pytest_crucible.datasets.expectation import check_choice, check_count, column_check, row_check
from pytest_crucible.detectors.pii import PII_TYPES, find_pii
from pytest_crucible.detectors.secrets import find_secrets
from pytest_crucible.records.errors import SpecError

# UTF-8 that was read as Latin-1 or Windows-1252: a lead byte as a letter, and a continuation byte as a sign. The first class covers
# two-byte characters of Europe's alphabets, the second punctuation such as quotation marks and dashes, the third emoji.
_MOJIBAKE = re.compile(
    "[\u00c2\u00c3\u00c4\u00c5\u00d0\u00d1][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122]"
    "|\u00e2(?:\u20ac|\u0080)[\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122]?"
    "|\u00f0\u0178"
)
# The replacement character, and halves of a surrogate pair.
_BROKEN = re.compile("[\ufffd\ud800-\udfff]")
# All of C0 but tab, line feed and carriage return; DEL and C1; and marks that reorder text unseen.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
CANARIES = re.compile(
    r"canary\s*(?:guid|string|token)?\W{0,3}[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|benchmark\s+data\s+should\s+never\s+appear\s+in\s+training\s+corpora",
    re.IGNORECASE,
)
"""Marks by which benchmarks can be found in training data, as BIG-bench introduced them."""
# English prose has about four characters a token in the tokenizers in use. Messages call it an estimate.
CHARACTERS_A_TOKEN = 4


@row_check
def expect_clean_text(column: str = "input") -> Finder:
    """Expect texts that are not empty, and have neither control characters nor signs of a wrong encoding."""
    return _each_text(column, lambda text: not is_clean(text), "clean texts", "are empty or broken")


def _each_text(column: str, is_bad: Callable[[str], bool], message: str, fault: str) -> Finder:
    """Return a finder of bad texts."""

    def find(table: Table) -> Finding:
        values = table.column(column)
        return row_finding(values, [is_bad(text) for text in values.texts], message, fault)

    return find


def is_clean(text: str) -> bool:
    """Return whether a text is not empty, and free of control characters and broken encodings.

    >>> is_clean("caf\u00e9"), is_clean("caf\u00c3\u00a9"), is_clean("  "), is_clean("a\\x00")
    (True, False, False, False)
    """
    if text.isascii():
        return bool(text.strip()) and (text.isprintable() or not _CONTROL.search(text))
    return bool(text.strip()) and not (_CONTROL.search(text) or _BROKEN.search(text) or _MOJIBAKE.search(text))


@row_check
def expect_no_canaries(column: str = "input") -> Finder:
    """Expect texts without a canary, the mark of a benchmark that must not become training data."""
    return _each_text(column, lambda text: CANARIES.search(text) is not None, "without a canary", "have a canary")


@row_check
def expect_prompts_to_fit(
    tokens: int, column: str = "input", tokenizer: Callable[[str], Sized | int] | None = None
) -> Finder:
    """Expect prompts of at most `tokens` tokens.

    `tokenizer` returns the tokens of a text, or their number. Without one, a token is taken as four characters, which is an
    estimate.
    """
    check_count("tokens", tokens)
    if tokenizer is not None and not callable(tokenizer):
        raise SpecError("tokenizer must be a function of a text, such as `tokenizer.encode`")
    about = "" if tokenizer else "about "

    def find(table: Table) -> Finding:
        values = table.column(column)
        lengths = np.array([_count_tokens(text, tokenizer) for text in values.texts], dtype=np.int64)
        return row_finding(values, lengths > tokens, f"of at most {about}{tokens:,} tokens")

    return find


def _count_tokens(text: str, tokenizer: Callable[[str], Sized | int] | None) -> int:
    if tokenizer is None:
        return -(-len(text) // CHARACTERS_A_TOKEN)
    encoded = tokenizer(text)
    return encoded if isinstance(encoded, int) else len(encoded)


@row_check
def expect_json_schema(schema: Mapping[str, Any], column: str = "expected") -> Finder:
    """Expect values that are valid under a JSON Schema. A text is read as JSON first, unless the schema is of a text."""
    import jsonschema

    if not isinstance(schema, Mapping):
        raise SpecError('schema must be a mapping, such as {"type": "object", "required": ["label"]}')
    validator = jsonschema.validators.validator_for(schema)
    try:
        validator.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        raise SpecError(f"the schema is not valid ({error.message}); correct it") from None
    is_valid = validator(schema).is_valid
    reads = schema.get("type") != "string" and "string" not in (schema.get("type") or ())

    def find(table: Table) -> Finding:
        values = table.column(column)
        bad = [not is_valid(_read_json(value) if reads else value) for value in values.present_values]
        return row_finding(values, bad, "valid under the schema")

    return find


def _read_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


@column_check
def expect_pandera(schema: Any) -> Finder:
    """Expect that the samples, as a data frame with a column for each field, are valid under a pandera schema."""
    errors = _schema_errors()
    if not hasattr(schema, "validate"):
        raise SpecError("schema must be a pandera.DataFrameSchema, or a DataFrameModel class")

    def find(table: Table) -> Finding:
        import pandas as pd

        frame = pd.DataFrame({name: table.column(name).values for name in table.fields if table.has(name)})
        try:
            schema.validate(frame, lazy=True)
        except errors as error:
            cases: Any = error.failure_cases  # type: ignore[attr-defined]  # pandera's
            rows = sorted({int(k) for k in cases["index"].dropna()})
            # A missing column has no values: its name is the failure case.
            names = cases["column"].where(cases["column"].notna(), cases["failure_case"])
            faults = sorted({f"{column}: {check}" for column, check in zip(names, cases["check"], strict=True)})
            return Finding(
                message=f"the schema is not met ({'; '.join(faults[:5])})",
                failing=np.array(rows, dtype=np.intp),
                checked=len(table),
                is_met=False,
            )
        return Finding(message="the schema is met", checked=len(table))

    return find


def _schema_errors() -> type[Exception]:
    try:
        from pandera.errors import SchemaErrors  # type: ignore[import-not-found,unused-ignore]  # not a dependency
    except ImportError:
        raise SpecError("expect_pandera needs pandera; pip install pandera") from None
    errors: type[Exception] = SchemaErrors
    return errors


# A link is part of many prompts, and seldom personal.
PERSONAL = tuple(name for name in PII_TYPES if name != "URL")


@row_check
def expect_no_secrets(column: str = "input") -> Finder:
    """Expect texts without keys, tokens, private keys and passwords. The secrets themselves are not shown."""
    return _each_text(column, lambda text: bool(find_secrets(text)), "without a secret", "have a secret")


@row_check
def expect_no_personal_data(column: str = "input", types: Sequence[str] = PERSONAL) -> Finder:
    """Expect texts without personal data.

    `types` are of CREDIT_CARD, EMAIL_ADDRESS, IBAN_CODE, IP_ADDRESS, PHONE_NUMBER, US_SSN and URL; by default, all but URL.
    """
    if isinstance(types, str) or not types:
        raise SpecError('types must be a list, such as ["EMAIL_ADDRESS"]')
    for name in types:
        check_choice("types", name, PII_TYPES)
    return _each_text(column, lambda text: bool(find_pii(text, types)), "without personal data", "have personal data")
