"""Is the reply JSON, and is it the JSON that was asked for?"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.metrics.definition import Metric, metric
from pytest_crucible.records import Reply, Sample

VALID = "valid"
MOST_SAID = 200
_FENCE = re.compile(
    r"^[ \t]*```[ \t]*(?:json)?[ \t]*\r?\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)


def valid_json(schema: Mapping[str, Any] | bool = True, *, name: str = "valid_json", fenced: bool = False) -> Metric:
    """A metric that is true when the whole reply is JSON and satisfies the JSON Schema (draft by its `$schema`).

    With `fenced`, what stands in a fence that says json or nothing is taken instead, where there is one.

    >>> valid_json({"type": "object", "required": ["label"]})(Reply(text='{"label": 1}'), Sample(id="1", input=""))
    True
    """
    validator, identity = _validator(schema, name)

    @metric(name=name, kind="binary", version=f"1:{identity}{':fenced' if fenced else ''}")
    def valid(reply: Reply, sample: Sample) -> bool:
        """The reply is JSON that satisfies the schema."""
        try:
            return bool(validator.is_valid(_read(reply.text, fenced)))
        except (ValueError, RecursionError):
            return False

    return valid


def json_problem(
    schema: Mapping[str, Any] | bool = True, *, name: str = "json_problem", fenced: bool = False
) -> Metric:
    """A metric (text) that says what is wrong with a reply's JSON: the path and the first problem; "valid" where nothing is.

    >>> json_problem({"properties": {"age": {"type": "integer"}}})(Reply(text='{"age": "old"}'), Sample(id="1", input=""))
    "$.age: 'old' is not of type 'integer'"
    """
    validator, identity = _validator(schema, name)

    @metric(name=name, kind="text", version=f"1:{identity}{':fenced' if fenced else ''}")
    def problem(reply: Reply, sample: Sample) -> str:
        """Path and message of the first problem of the reply's JSON."""
        try:
            errors = validator.iter_errors(_read(reply.text, fenced))
            first = min(errors, key=lambda error: (len(error.absolute_path), error.json_path), default=None)
        except RecursionError:
            return "nested too deep to be read"
        except ValueError as error:
            return f"no JSON: {error}"[:MOST_SAID]
        return VALID if first is None else f"{first.json_path}: {first.message}"[:MOST_SAID]

    return problem


def _validator(schema: Mapping[str, Any] | bool, name: str) -> tuple[Any, str]:
    from jsonschema.validators import validator_for  # 60 ms, and most suites check no schema

    validator_class: Any = validator_for(schema)
    try:
        validator_class.check_schema(schema)
    except Exception as error:
        raise SpecError(f"the schema of metric {name!r} is not a JSON Schema: {error}") from error
    return validator_class(schema), hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]


def _read(text: str, fenced: bool) -> Any:
    """Raises ValueError, and RecursionError for what is nested deeper than Python reads."""
    found = _FENCE.search(text) if fenced else None
    return json.loads(found[1] if found else text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON, though Python reads it")
