"""A check as text: its call as a suite writes it, and its subject in a nodeid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.datasets.checks.check import Check

# A schema or a list of a thousand labels would fill a nodeid.
LONGEST_ARGUMENT = 60


def call_text(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Return a call as it is written.

    >>> call_text("expect_label_balance", ("label",), {"min_ratio": 0.2})
    'expect_label_balance("label", min_ratio=0.2)'
    """
    texts = [*map(_source_text, arguments), *(f"{key}={_source_text(value)}" for key, value in options.items())]
    return f"{name}({', '.join(texts)})"


def subject_text(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Return a call as a part of a nodeid: without quotes, and without its severity.

    >>> subject_text("expect_no_missing_values", ("label",), {"severity": "warn"})
    'expect_no_missing_values(label)'
    """
    texts = [_nodeid_text(value) for value in arguments]
    texts += [f"{key}={_nodeid_text(value)}" for key, value in options.items() if key != "severity"]
    # A nodeid is divided at its double colons.
    return f"{name}({', '.join(texts)})".replace("::", ":")


def _source_text(value: Any) -> str:
    if isinstance(value, Check):
        return value.call
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple) and value and all(isinstance(item, Check) for item in value):
        return f"[{', '.join(item.call for item in value)}]"
    return _shorten(repr(value))


def _nodeid_text(value: Any) -> str:
    if isinstance(value, Check):
        return value.subject
    if isinstance(value, str):
        return _shorten(" ".join(value.split()))
    if isinstance(value, list | tuple) and all(isinstance(item, str | int | float | Check) for item in value):
        return f"[{_shorten(', '.join(map(_nodeid_text, value)))}]"
    return _shorten(repr(value))


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_ARGUMENT else f"{text[: LONGEST_ARGUMENT - 3]}..."
