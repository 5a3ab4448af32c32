"""The checks of the options of runs on many machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.features.scale.executor_options import check_executor
from pytest_crucible.features.scale.shard import option_conflicts


def check_options(values: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield pairs of (is wrong, sentence)."""
    yield from option_conflicts(values)
    yield from check_executor(values)
