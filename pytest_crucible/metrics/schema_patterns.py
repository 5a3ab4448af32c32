"""The keywords of JSON Schema that use regular expressions, with searches that end: `jsonschema` has no limit of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.metrics.patterns import is_found


def with_limited_patterns(validator_class: Any) -> Any:
    """Return the validator with `pattern`, `patternProperties` and `additionalProperties` from here."""
    from jsonschema import validators

    check_additional = validator_class.VALIDATORS.get("additionalProperties")

    def additional_properties(validator: Any, allowed: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if not validator.is_type(value, "object"):
            return
        patterns, known = schema.get("patternProperties", {}), schema.get("properties", {})
        others = {
            key: item for key, item in value.items() if key not in known and not any(is_found(p, key) for p in patterns)
        }
        # The other properties alone, as if there were no patterns: the original would search them without a limit.
        yield from check_additional(validator, allowed, others, {"additionalProperties": allowed})

    keywords = {"pattern": _pattern, "patternProperties": _pattern_properties}
    if check_additional is not None:
        keywords["additionalProperties"] = additional_properties
    extend: Any = validators.extend
    return extend(validator_class, keywords)


def _pattern(validator: Any, pattern: str, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
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
