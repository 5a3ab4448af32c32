"""JSON metrics: whether a reply is JSON, and whether it satisfies a JSON Schema."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.metrics.definition import Metric, metric
from pytest_crucible.metrics.text import is_found, start_clock
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError

VALID = "valid"
# Characters of a label: a validator quotes the whole instance.
MAX_MESSAGE = 200
_FENCE = re.compile(
    r"^[ \t]*+```[ \t]*+(?:json[ \t]*+)?\r?\n(.*?)(?:^[ \t]*+```|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)


def valid_json(schema: Mapping[str, Any] | bool = True, *, name: str = "valid_json", fenced: bool = False) -> Metric:
    """Return a metric that is true if the whole reply is JSON and satisfies the JSON Schema (draft by its `$schema`).

    With `fenced`, the content of a fence marked as json or unmarked is checked instead, if there is one.

    >>> valid_json({"type": "object", "required": ["label"]})(Reply(text='{"label": 1}'), Sample(id="1", input=""))
    True
    """
    validator, identity = schema_validator(schema, name)

    @metric(name=name, kind="binary", version=f"1:{identity}{':fenced' if fenced else ''}")
    def valid(reply: Reply, sample: Sample) -> bool:
        """The reply is JSON that satisfies the schema."""
        start_clock()
        try:
            return bool(validator.is_valid(_read(reply.text, fenced)))
        except (ValueError, RecursionError):
            return False

    return valid


def json_problem(
    schema: Mapping[str, Any] | bool = True, *, name: str = "json_problem", fenced: bool = False
) -> Metric:
    """Return a text metric with the first problem of a reply's JSON and its path; "valid" for valid JSON.

    >>> json_problem({"properties": {"age": {"type": "integer"}}})(Reply(text='{"age": "old"}'), Sample(id="1", input=""))
    "$.age: 'old' is not of type 'integer'"
    """
    validator, identity = schema_validator(schema, name)

    @metric(name=name, kind="text", version=f"1:{identity}{':fenced' if fenced else ''}")
    def problem(reply: Reply, sample: Sample) -> str:
        """Path and message of the first problem of the reply's JSON."""
        start_clock()
        try:
            errors = validator.iter_errors(_read(reply.text, fenced))
            first = min(errors, key=lambda error: (len(error.absolute_path), error.json_path), default=None)
        except RecursionError:
            return "nested too deeply to be read"
        except ValueError as error:
            return f"not JSON: {error}"[:MAX_MESSAGE]
        return VALID if first is None else f"{first.json_path}: {first.message}"[:MAX_MESSAGE]

    return problem


def schema_validator(schema: Mapping[str, Any] | bool, name: str) -> tuple[Any, str]:
    """Return what checks a JSON value, and the schema's hash; `start_clock` comes before each check. Raises SpecError."""
    from jsonschema.validators import validator_for  # 60 ms, and most suites check no schema

    validator_class: Any = validator_for(schema)
    try:
        validator_class.check_schema(schema)
    except Exception as error:
        raise SpecError(f"the schema of metric {name!r} is not a JSON Schema: {error}") from error
    return with_limited_patterns(validator_class)(schema), hashlib.sha256(
        json.dumps(schema, sort_keys=True).encode()
    ).hexdigest()[:16]


def _read(text: str, fenced: bool) -> Any:
    """Parse a reply. Raises ValueError, and RecursionError for JSON nested deeper than Python reads."""
    fence = _FENCE.search(text) if fenced else None
    # NaN and Infinity are Python's additions to JSON.
    return json.loads(fence[1] if fence else text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON, though Python accepts it")


def with_limited_patterns(validator_class: Any) -> Any:
    """Return the validator with `pattern`, `patternProperties` and `additionalProperties` from here."""
    from jsonschema import validators

    check_additional = validator_class.VALIDATORS.get("additionalProperties")

    def additional_properties(validator: Any, allowed: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if not validator.is_type(value, "object"):
            return
        patterns, handled = schema.get("patternProperties", {}), schema.get("properties", {})
        others = {
            key: item
            for key, item in value.items()
            if key not in handled and not any(is_found(p, key) for p in patterns)
        }
        # The other properties alone, as if there were no patterns: the original would search them without a limit.
        yield from check_additional(validator, allowed, others, {"additionalProperties": allowed})

    keywords = {"pattern": _check_pattern, "patternProperties": _pattern_properties}
    if check_additional is not None:
        keywords["additionalProperties"] = additional_properties
    extend: Any = validators.extend
    return extend(validator_class, keywords)


def _check_pattern(validator: Any, pattern: str, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "string") and not is_found(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], value: Any, schema: Mapping[str, Any]
) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    for pattern, inner in patterns.items():
        for key, item in value.items():
            if is_found(pattern, key):
                yield from validator.descend(item, inner, path=key, schema_path=pattern)
