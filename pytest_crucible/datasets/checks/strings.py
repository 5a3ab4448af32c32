"""Expectations on texts of a known form: addresses, identifiers, numbers, lengths."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import regex

from pytest_crucible.datasets.check import Finder, Finding, column_finding, ids_text, row_finding
from pytest_crucible.datasets.checks.statistics import UnusableColumn
from pytest_crucible.datasets.checks.times import read_time
from pytest_crucible.datasets.columns import Table
from pytest_crucible.datasets.expectation import check_choice, check_count, check_number, column_check, row_check
from pytest_crucible.records.errors import SpecError

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# Dots neither first, last nor doubled, as RFC 5321 has it; quoted local parts are not in use.
_EMAIL = re.compile(rf"[\w!#$%&'*+/=?^`{{|}}~-]+(?:\.[\w!#$%&'*+/=?^`{{|}}~-]+)*@(?:{_LABEL}\.)+[A-Za-z]{{2,63}}")
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATETIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")
_PHONE = re.compile(r"(?:\+?1[ .-]?)?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-]?)[2-9]\d{2}[ .-]?\d{4}")
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


FORMATS: dict[str, Callable[[str], Any]] = {
    "us_phone": _PHONE.fullmatch,
    "iso_date": lambda text: _DATE.fullmatch(text) and read_time(text) is not None,
    "iso_datetime": lambda text: _DATETIME.fullmatch(text) and read_time(text) is not None,
    "ip_address": _is_address,
    "hex_color": _COLOUR.fullmatch,
}
"""Format -> whether a whole text has it."""


def _each_text(column: str, is_right: Callable[[str], Any], message: str) -> Finder:
    """Return a finder of values that are not texts, or not right."""

    def find(table: Table) -> Finding:
        values = table.column(column)
        bad = [not (isinstance(value, str) and is_right(value)) for value in values.present_values]
        return row_finding(values, bad, message)

    return find


@row_check
def expect_column_values_to_be_valid_emails(column: str) -> Finder:
    """Expect addresses such as ada@example.org: a name, and a domain with a dot."""
    return _each_text(column, lambda text: len(text) <= 254 and _EMAIL.fullmatch(text), "valid e-mail addresses")


@row_check
def expect_column_values_to_be_valid_urls(
    column: str, schemes: Sequence[str] = ("http", "https"), require_tld: bool = True
) -> Finder:
    """Expect URLs of these schemes; with `require_tld`, their host has a dot or is an IP address."""
    if isinstance(schemes, str) or not all(isinstance(scheme, str) for scheme in schemes) or not schemes:
        raise SpecError('schemes must be a list, such as ["https"]')
    allowed = {scheme.lower() for scheme in schemes}
    return _each_text(column, lambda text: _is_url(text, allowed, require_tld), "valid URLs")


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
    if _is_address(host):
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
        if not _UUID.fullmatch(text):
            return False
        if case is not None and text != (text.lower() if case == "lower" else text.upper()):
            return False
        return version is None or uuid.UUID(text).version == version

    name = "valid UUIDs" if version is None else f"valid UUIDs of version {version}"
    return _each_text(column, is_right, name if case is None else f"{name} in {case} case")


@row_check
def expect_column_values_to_match_format(column: str, format: Any) -> Finder:
    """Expect whole texts of a format: us_phone, iso_date, iso_datetime, ip_address, hex_color, or a compiled regular expression."""
    if isinstance(format, re.Pattern):
        return _each_text(column, compile_regex(format).fullmatch, f"of the form {format.pattern!r}")
    check_choice("format", format, FORMATS)
    return _each_text(column, FORMATS[format], f"of the format {format}")


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
        wrong = [k for k, value in enumerate(values.present_values) if not isinstance(value, str)]
        if wrong or not values.present_values:
            ids = sorted(table.ids(values.present[wrong].tolist()))
            raise UnusableColumn(
                f"{len(wrong):,} values are not texts: {ids_text(ids, len(ids))}" if ids else "no sample has a value"
            )
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


PATTERN_TIMEOUT_S = 1.0
"""For one text; a million characters take milliseconds with most patterns."""


class UserPattern:
    """A regular expression of the user's, as `re` reads it, under a time limit for each text."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        ascii_only = regex.ASCII if pattern.flags & re.ASCII else 0
        # All other flags have the same numbers in both libraries.
        self._pattern = regex.compile(pattern.pattern, (pattern.flags & ~re.ASCII) | ascii_only)

    def search(self, text: str) -> bool:
        """Return whether the pattern is found. Raises SpecError after the time limit."""
        return self._run(self._pattern.search, text)

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches the whole text. Raises SpecError after the time limit."""
        return self._run(self._pattern.fullmatch, text)

    def _run(self, method: Callable[..., Any], text: str) -> bool:
        try:
            return method(text, timeout=PATTERN_TIMEOUT_S) is not None
        except TimeoutError:
            raise SpecError(
                f"the pattern {self._pattern.pattern!r:.80} takes more than {PATTERN_TIMEOUT_S:g} s on the text {text!r:.60}; "
                "make it simpler"
            ) from None


def compile_regex(pattern: Any) -> UserPattern:
    """Return the compiled pattern. Raises SpecError for an invalid one."""
    try:
        return UserPattern(re.compile(pattern))
    except (re.error, regex.error, TypeError) as error:
        raise SpecError(f"{pattern!r} is not a regular expression ({error}); correct it") from None
