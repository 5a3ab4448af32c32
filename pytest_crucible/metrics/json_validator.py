"""JSON Schema as its dialects say: decimal multiples, patterns of ECMA-262 with a time limit, formats, known dialects."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pytest_crucible.metrics.json_patterns import compile_json_pattern
from pytest_crucible.metrics.text import search_in_time
from pytest_crucible.records.errors import SpecError, suggest

# Values under these keys are data, though they may look like schemas.
_DATA = ("const", "enum", "default", "examples")
# Dialects in which `format` is an annotation, which validates nothing unless that is asked for.
_ANNOTATED = ("2019-09", "2020-12")


def schema_validator(schema: Mapping[str, Any] | bool, name: str, formats: bool | None = None) -> tuple[Any, str]:
    """Return what checks a JSON value, and the schema's hash; `start_clock` comes before each check.

    `formats` says whether `format` is checked; None is what the schema's dialect says. Formats that are not checked are named in a
    warning. Raises SpecError.
    """
    from jsonschema import FormatChecker  # 60 ms, and most suites check no schema

    dialect = _dialect(schema, name)
    try:
        # Without formats: the one of patterns is that of Python's regular expressions.
        dialect.check_schema(schema, format_checker=FormatChecker(formats=()))
    except Exception as error:
        raise SpecError(f"the schema of metric {name!r} is not a JSON Schema: {error}") from error
    _check_patterns(schema, name)
    checker = _format_checker(schema, name, dialect, formats)
    identity = hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]
    return _with_own_keywords(dialect)(
        schema, format_checker=checker
    ), identity if formats is None else f"{identity}:{formats}"


def _dialect(schema: Mapping[str, Any] | bool, name: str) -> Any:
    """Return the validator class of a schema's dialect, the newest without `$schema`. Raises SpecError for an unknown one."""
    from jsonschema import validators

    if isinstance(schema, bool) or "$schema" not in schema:
        return validators.validator_for(schema)
    uri = schema["$schema"]
    known_class = validators.validator_for(schema, default=None) if isinstance(uri, str) else None  # type: ignore[arg-type]
    if known_class is None:
        uris = [f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 6, 7)]
        uris += [f"https://json-schema.org/draft/{date}/schema" for date in _ANNOTATED]
        raise SpecError(
            f"the schema of metric {name!r} has $schema {uri!r}, which is not a dialect that can be checked: "
            f"{suggest(str(uri), uris, always='write one of ' + ', '.join(uris) + ', or leave it out')}"
        )
    return known_class


def _subschemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all that are in it."""
    if isinstance(schema, Mapping):
        yield schema
    inner = [value for key, value in schema.items() if key not in _DATA] if isinstance(schema, Mapping) else schema
    for value in inner if isinstance(inner, list) else ():
        yield from _subschemas(value)


def _check_patterns(schema: Any, name: str) -> None:
    """Raise SpecError for an invalid pattern, before a reply meets it."""
    schemas = list(_subschemas(schema))
    keys = [key for each in schemas if isinstance(keyed := each.get("patternProperties"), Mapping) for key in keyed]
    patterns = [each["pattern"] for each in schemas if isinstance(each.get("pattern"), str)]
    try:
        for pattern in (*keys, *patterns):
            compile_json_pattern(pattern)
    except SpecError as error:
        raise SpecError(f"the schema of metric {name!r} is not a JSON Schema: {error}") from error
    if any("unevaluatedProperties" in each for each in schemas):
        _check_python_patterns(keys, name)


def _check_python_patterns(patterns: list[str], name: str) -> None:
    # jsonschema searches for the properties that patterns have evaluated by Python's `re`, and offers no place to change that.
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error:
            raise SpecError(
                f"the schema of metric {name!r} has unevaluatedProperties and the pattern {pattern!r}, which are not checked "
                "together: write additionalProperties, or a pattern without \\p"
            ) from None


def _format_checker(schema: Any, name: str, dialect: Any, formats: bool | None) -> Any:
    """Return the checker of formats, None for none, after naming formats that are not checked."""
    names = {each["format"] for each in _subschemas(schema) if isinstance(each.get("format"), str)}
    date = next((date for date in _ANNOTATED if date in str(dialect.META_SCHEMA.get("$id", ""))), "")
    is_checked = not date if formats is None else formats
    checker = dialect.FORMAT_CHECKER if is_checked else None
    left = sorted(names.difference(checker.checkers if checker else ()))
    if not left or formats is False:
        return checker
    listed = ", ".join(map(repr, left))
    if formats:
        raise SpecError(
            f'metric {name!r} is to check formats, and {listed} cannot be checked: pip install "jsonschema[format]", '
            "or leave formats that are not JSON Schema's out of the schema"
        )
    why = (
        'without pip install "jsonschema[format]"' if is_checked else f"by JSON Schema {date}: formats=True checks them"
    )
    warnings.warn(f"metric {name!r}: format {listed} not checked {why}", stacklevel=4)
    return checker


def _with_own_keywords(dialect: Any) -> Any:
    """Return the validator with `multipleOf` and the keywords of patterns from here."""
    from jsonschema import validators

    check_additional = dialect.VALIDATORS.get("additionalProperties")

    def additional_properties(validator: Any, allowed: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if not validator.is_type(value, "object"):
            return
        patterns, handled = schema.get("patternProperties", {}), schema.get("properties", {})
        others = {
            key: item
            for key, item in value.items()
            if key not in handled and not any(_matches(p, key) for p in patterns)
        }
        # The other properties alone, as if there were no patterns: the original would search them without a limit.
        yield from check_additional(validator, allowed, others, {"additionalProperties": allowed})

    keywords = {"pattern": _check_pattern, "patternProperties": _pattern_properties}
    keywords |= {name: _check_multiple for name in ("multipleOf", "divisibleBy") if name in dialect.VALIDATORS}
    if check_additional is not None:
        keywords["additionalProperties"] = additional_properties
    extend: Any = validators.extend
    return extend(dialect, keywords)


def _matches(pattern: str, text: str) -> bool:
    return search_in_time(compile_json_pattern(pattern), pattern, text)


def _check_multiple(validator: Any, unit: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(value, "number"):
        return
    # By the decimals as they are written: as doubles 19.99 is no multiple of 0.01. An infinity is a number beyond all doubles.
    if str(value).endswith("inf") or (Fraction(str(value)) / Fraction(str(unit))).denominator != 1:
        yield ValidationError(f"{value!r} is not a multiple of {unit!r}")


def _check_pattern(validator: Any, pattern: str, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "string") and not _matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], value: Any, schema: Mapping[str, Any]
) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    for pattern, inner in patterns.items():
        for key, item in value.items():
            if _matches(pattern, key):
                yield from validator.descend(item, inner, path=key, schema_path=pattern)
