"""Checks of texts: formats, schemas, broken characters, secrets and personal data."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from pytest_crucible.datasets.check import Finder, Finding, column_finding, ids_text, value_finder
from pytest_crucible.datasets.columns import Table
from pytest_crucible.datasets.expectation import check_choice, check_count, check_number, column_check, row_check
from pytest_crucible.detectors.addresses import is_address
from pytest_crucible.detectors.pii import PII_TYPES, find_pii
from pytest_crucible.detectors.secrets import find_secrets
from pytest_crucible.features.data_checks.values import compile_regex, read_time, text_finder
from pytest_crucible.records.errors import SpecError


class UnusableColumn(SpecError):
    """A field without values, or with values that are not numbers."""


_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

# Dots neither first, last nor doubled, as RFC 5321 has it; quoted local parts are not in use.
_EMAIL = re.compile(rf"[\w!#$%&'*+/=?^`{{|}}~-]+(?:\.[\w!#$%&'*+/=?^`{{|}}~-]+)*@(?:{_LABEL}\.)+[A-Za-z]{{2,63}}")
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATETIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")
_PHONE = re.compile(r"(?:\+?1[ .-]?)?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-]?)[2-9]\d{2}[ .-]?\d{4}")
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")


FORMATS: dict[str, Callable[[str], Any]] = {
    "us_phone": _PHONE.fullmatch,
    "iso_date": lambda text: _DATE.fullmatch(text) and read_time(text) is not None,
    "iso_datetime": lambda text: _DATETIME.fullmatch(text) and read_time(text) is not None,
    "ip_address": is_address,
    "hex_color": _COLOUR.fullmatch,
}
"""Format -> whether a whole text has it."""


@row_check
def expect_column_values_to_be_valid_emails(column: str) -> Finder:
    """Expect addresses such as ada@example.org: a name, and a domain with a dot."""
    return text_finder(column, lambda text: len(text) <= 254 and _EMAIL.fullmatch(text), "valid e-mail addresses")


@row_check
def expect_column_values_to_be_valid_urls(
    column: str, schemes: Sequence[str] = ("http", "https"), require_tld: bool = True
) -> Finder:
    """Expect URLs of these schemes; with `require_tld`, their host has a dot or is an IP address."""
    if isinstance(schemes, str) or not all(isinstance(scheme, str) for scheme in schemes) or not schemes:
        raise SpecError('schemes must be a list, such as ["https"]')
    allowed = {scheme.lower() for scheme in schemes}
    return text_finder(column, lambda text: _is_url(text, allowed, require_tld), "valid URLs")


def _is_url(text: str, schemes: set[str], require_tld: bool) -> bool:
    if re.search(r"\s", text):
        return False
    try:
        url = urlsplit(text)
        host, _ = url.hostname or "", url.port
    # For an invalid port or IPv6 address.
    except ValueError:
        return False
    if url.scheme not in schemes or not host:
        return False
    if is_address(host):
        return True
    # Names in other alphabets are written in ASCII before they are looked up.
    try:
        name = host.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    if not _HOST.fullmatch(name):
        return False
    last = name.rstrip(".").rpartition(".")
    return not require_tld or bool(last[0] and not last[2].isdigit() and len(last[2]) > 1)


@row_check
def expect_column_values_to_be_valid_uuids(column: str, version: int | None = None, case: str | None = None) -> Finder:
    """Expect UUIDs with dashes, of one version if it is given, and in "lower" or "upper" case if that is given."""
    if version is not None:
        check_count("version", version)
    if case is not None:
        check_choice("case", case, ("lower", "upper"))

    def is_right(text: str) -> bool:
        cased = {"lower": text.lower(), "upper": text.upper(), None: text}[case]
        return (
            _UUID.fullmatch(text) is not None
            and text == cased
            and (version is None or uuid.UUID(text).version == version)
        )

    name = "valid UUIDs" if version is None else f"valid UUIDs of version {version}"
    return text_finder(column, is_right, name if case is None else f"{name} in {case} case")


@row_check
def expect_column_values_to_match_format(column: str, format: Any) -> Finder:
    """Expect whole texts of a format: us_phone, iso_date, iso_datetime, ip_address, hex_color, or a compiled regular expression."""
    if isinstance(format, re.Pattern):
        return text_finder(column, compile_regex(format).fullmatch, f"of the form {format.pattern!r}")
    check_choice("format", format, FORMATS)
    return text_finder(column, FORMATS[format], f"of the format {format}")


@column_check
def expect_column_string_length_distribution(
    column: str,
    mean_length: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    tolerance: float | None = None,
) -> Finder:
    """Expect texts of these lengths in characters: their mean within `tolerance` of `mean_length` (by default 5 % of it)."""
    expected = {"mean_length": mean_length, "min_length": min_length, "max_length": max_length}
    if all(value is None for value in expected.values()):
        raise SpecError("give mean_length, min_length or max_length")
    for name, value in (*expected.items(), ("tolerance", tolerance)):
        if value is not None:
            check_number(name, value)
    if tolerance is not None and mean_length is None:
        raise SpecError("tolerance is about mean_length; give it, or remove tolerance")

    def find(table: Table) -> Finding:
        values = table.column(column)
        wrong = [not isinstance(value, str) for value in values.present_values]
        if any(wrong):
            ids = sorted(table.ids(values.present[wrong].tolist()))
            raise UnusableColumn(f"{len(ids):,} values are not texts: {ids_text(ids, len(ids))}")
        if not wrong:
            raise UnusableColumn("no sample has a value")
        lengths = np.sort(np.array([len(text) for text in values.present_values]))
        faults = list(_length_faults(lengths, mean_length, min_length, max_length, tolerance))
        summary = f"lengths are {lengths[0]:,} to {lengths[-1]:,}, their mean {lengths.mean():.6g}"
        return column_finding(values, ", and ".join([summary, *faults]), is_met=not faults)

    return find


def _length_faults(
    lengths: Any, mean: float | None, least: int | None, most: int | None, tolerance: float | None
) -> Any:
    if mean is not None:
        slack = 0.05 * abs(mean) if tolerance is None else tolerance
        if abs(lengths.mean() - mean) > slack + 1e-9:
            yield f"a mean of {mean:g} +- {slack:.3g} is expected"
    if least is not None and lengths[0] < least:
        yield f"at least {least:,} are expected"
    if most is not None and lengths[-1] > most:
        yield f"at most {most:,} are expected"


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


def _bad_text_finder(column: str, is_bad: Callable[[str], Any], message: str, fault: str = "") -> Finder:
    return value_finder(column, lambda values: [bool(is_bad(text)) for text in values.texts], message, fault)


@row_check
def expect_clean_text(column: str = "input") -> Finder:
    """Expect texts that are not empty, and have neither control characters nor signs of a wrong encoding."""
    return _bad_text_finder(column, lambda text: not is_clean(text), "clean texts", "are empty or broken")


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
    return _bad_text_finder(column, CANARIES.search, "without a canary", "have a canary")


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

    def is_too_long(text: str) -> bool:
        if tokenizer is None:
            return -(-len(text) // CHARACTERS_A_TOKEN) > tokens
        encoded = tokenizer(text)
        return (encoded if isinstance(encoded, int) else len(encoded)) > tokens

    return _bad_text_finder(column, is_too_long, f"of at most {about}{tokens:,} tokens")


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

    def is_bad(value: Any) -> bool:
        if reads and isinstance(value, str):
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(value)
        return not is_valid(value)

    return value_finder(column, lambda values: list(map(is_bad, values.present_values)), "valid under the schema")


@column_check
def expect_pandera(schema: Any) -> Finder:
    """Expect that the samples, as a data frame with a column for each field, are valid under a pandera schema."""
    try:
        from pandera.errors import SchemaErrors  # type: ignore[import-not-found,unused-ignore]  # not a dependency
    except ImportError:
        raise SpecError("expect_pandera needs pandera; pip install pandera") from None
    errors: type[Exception] = SchemaErrors
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


# A link is part of many prompts, and seldom personal.
PERSONAL = tuple(name for name in PII_TYPES if name != "URL")


@row_check
def expect_no_secrets(column: str = "input") -> Finder:
    """Expect texts without keys, tokens, private keys and passwords. The secrets themselves are not shown."""
    return _bad_text_finder(column, find_secrets, "without a secret", "have a secret")


@row_check
def expect_no_personal_data(column: str = "input", types: Sequence[str] = PERSONAL) -> Finder:
    """Expect texts without personal data.

    `types` are of CREDIT_CARD, EMAIL_ADDRESS, IBAN_CODE, IP_ADDRESS, PHONE_NUMBER, US_SSN and URL; by default, all but URL.
    """
    if isinstance(types, str) or not types:
        raise SpecError('types must be a list, such as ["EMAIL_ADDRESS"]')
    for name in types:
        check_choice("types", name, PII_TYPES)
    return _bad_text_finder(column, lambda text: find_pii(text, types), "without personal data", "have personal data")
