"""All that a run depended on besides what was asked: how it was called, configured and priced, and the machine it was on.

What is named like a key is hidden by its name, before it is stored; of the environment only these variables are kept at all.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.errors import SpecError
from pytest_crucible.options import Settings
from pytest_crucible.plan.adapters import read_adapters, read_prices

VARIABLES = (
    *(
        "CI",
        "CUDA_VISIBLE_DEVICES",
        "GITHUB_REF",
        "GITHUB_RUN_ID",
        "GITHUB_SHA",
        "GITHUB_WORKFLOW",
        "LANG",
        "LC_ALL",
        "TZ",
    ),
    *("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTEST_ADDOPTS", "PYTHONHASHSEED", "PYTHONPATH"),
    *("CRUCIBLE_CACHE", "CRUCIBLE_DATA", "CRUCIBLE_RUN_CODE", "CRUCIBLE_STORE", "CRUCIBLE_TINKER_BASE"),
)


def manifest(config: pytest.Config, settings: Settings) -> dict[str, Any]:
    """What a repetition would need to be the same; plain data, keys not hidden yet."""
    root = config.rootpath
    return {
        "command": list(config.invocation_params.args),
        "directory": os.path.relpath(config.invocation_params.dir, root),
        "settings": {name: _plain(value) for name, value in dataclasses.asdict(settings).items()},
        "adapters": configured(root),
        "prices": _or_none(lambda: read_prices(root)),
        "packages": dict(sorted(installed())),
        "machine": machine(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def configured(root: Path) -> Any:
    """The table of adapters, as far as it can be read: what is wrong in it is told elsewhere."""
    found = _or_none(lambda: read_adapters(root)) or {}
    return {name: dataclasses.asdict(adapter) for name, adapter in found.items()}


def machine() -> dict[str, Any]:
    """What computes here."""
    return {
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
    }


def installed() -> Iterator[tuple[str, str]]:
    """Name and version of every package that can be imported: the names of directories say it, which are quick to read."""
    for folder in dict.fromkeys(sys.path):
        path = Path(folder or ".")
        if path.is_dir():
            for one in path.glob("*.dist-info"):
                name, _, version = one.stem.rpartition("-")
                yield name.lower().replace("_", "-"), version


def _processor() -> str:
    """The model's name where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _or_none(read: Any) -> Any:
    try:
        return read()
    except SpecError:
        return None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def hideable(config: pytest.Config) -> Mapping[str, Any]:
    """Where keys may stand: the environment, the adapters' tables and the command line."""
    return {
        "environment": dict(os.environ),
        "adapters": configured(config.rootpath),
        "command": list(config.invocation_params.args),
    }
