"""The files of a suite that go to the nodes of a cluster, and the keys that its adapters name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.records import Adapter

_LEFT_OUT = [".git", ".crucible", ".venv", "venv", "node_modules", "__pycache__", "*.db", "*.db-*", ".tox", ".*_cache"]
MOST_BYTES = 100 * 2**20
"""Larger files are left out: Ray takes 512 MiB in all, and a dataset of this size belongs on the nodes."""
_USUAL = (
    *("OPENAI_API_KEY", "TINKER_API_KEY", "TINKER_BASE_URL", "HF_TOKEN"),
    *("CRUCIBLE_CACHE", "CRUCIBLE_TINKER_BASE"),
)
"""Variables that adapters read without naming them, and options that a node has to have like the driver."""
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def suite_environment(root: Path) -> dict[str, Any]:
    """Return Ray's runtime environment with a copy of the suite, for nodes that have no directory of the same name."""
    large = [
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.stat().st_size > MOST_BYTES
    ]
    return {"working_dir": str(root), "excludes": [*_LEFT_OUT, *large]}


def key_variables(root: Path, adapters: Iterable[Adapter]) -> dict[str, str]:
    """Return the environment variables that adapters, scorers and guards refer to, with their values. Raises SpecError.

    `adapters` are those of the session, which may be named on the command line alone.
    """
    tables = {name: read_table(root, name) for name in ("adapters", "scorers", "guards")}
    names = {*_USUAL, *_find_names([tables, *(adapter.options for adapter in adapters)])}
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def _find_names(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _find_names(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _find_names(inner)
    elif isinstance(value, str):
        yield from [value] if key.endswith("_env") else _VARIABLE.findall(value)
