"""JSON metrics: whether a reply is JSON, and whether it satisfies a JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_crucible.metrics.definition import Metric, metric
from pytest_crucible.metrics.json_validator import schema_validator
from pytest_crucible.metrics.text import start_clock
from pytest_crucible.records import Reply, Sample

VALID = "valid"
# Characters of a label: a validator quotes the whole instance.
MAX_MESSAGE = 200
_FENCE = re.compile(
    r"^[ \t]*+```[ \t]*+(?:json[ \t]*+)?\r?\n(.*?)(?:^[ \t]*+```|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)


def valid_json(
    schema: Mapping[str, Any] | bool = True,
    *,
    name: str = "valid_json",
    fenced: bool = False,
    formats: bool | None = None,
) -> Metric:
    """Return a metric that is true if the whole reply is JSON and satisfies the JSON Schema (draft by its `$schema`).

    With `fenced`, the content of a fence marked as json or unmarked is checked instead, if there is one. `formats` says whether
    `format` is checked; None is what the dialect says: up to draft 7 it is, since 2019-09, and without `$schema`, it is not.

    >>> valid_json({"type": "object", "required": ["label"]})(Reply(text='{"label": 1}'), Sample(id="1", input=""))
    True
    """
    validator, identity = schema_validator(schema, name, formats)

    @metric(name=name, kind="binary", version=f"2:{identity}{':fenced' if fenced else ''}")
    def valid(reply: Reply, sample: Sample) -> bool:
        """The reply is JSON that satisfies the schema."""
        start_clock()
        try:
            return bool(validator.is_valid(_read(reply.text, fenced)))
        except (ValueError, RecursionError):
            return False

    return valid


def json_problem(
    schema: Mapping[str, Any] | bool = True,
    *,
    name: str = "json_problem",
    fenced: bool = False,
    formats: bool | None = None,
) -> Metric:
    """Return a text metric with the first problem of a reply's JSON and its path; "valid" for valid JSON.

    >>> json_problem({"properties": {"age": {"type": "integer"}}})(Reply(text='{"age": "old"}'), Sample(id="1", input=""))
    "$.age: 'old' is not of type 'integer'"
    """
    validator, identity = schema_validator(schema, name, formats)

    @metric(name=name, kind="text", version=f"2:{identity}{':fenced' if fenced else ''}")
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


def _read(text: str, fenced: bool) -> Any:
    """Parse a reply. Raises ValueError, and RecursionError for JSON nested deeper than Python reads."""
    fence = _FENCE.search(text) if fenced else None
    # NaN and Infinity are Python's additions to JSON.
    return json.loads(fence[1] if fence else text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON, though Python accepts it")
