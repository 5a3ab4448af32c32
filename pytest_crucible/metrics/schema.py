"""Is the reply JSON, and is it the JSON that was asked for?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.metrics.definition import Metric, metric
from pytest_crucible.records import Reply, Sample


def valid_json(schema: Mapping[str, Any] | bool = True, *, name: str = "valid_json") -> Metric:
    """A metric that is true when the whole reply is JSON and satisfies the JSON Schema (draft by its `$schema`).

    >>> valid_json({"type": "object", "required": ["label"]})(Reply(text='{"label": 1}'), Sample(id="1", input=""))
    True
    """
    from jsonschema.validators import validator_for  # 60 ms, and most suites check no schema

    validator_class: Any = validator_for(schema)
    try:
        validator_class.check_schema(schema)
    except Exception as error:
        raise SpecError(f"the schema of metric {name!r} is not a JSON Schema: {error}") from error
    validator = validator_class(schema)
    identity = hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]

    @metric(name=name, kind="binary", version=f"1:{identity}")
    def valid(reply: Reply, sample: Sample) -> bool:
        try:
            return bool(validator.is_valid(json.loads(reply.text, parse_constant=_refuse)))
        except (ValueError, RecursionError):
            return False

    return valid


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON, though Python reads it")
