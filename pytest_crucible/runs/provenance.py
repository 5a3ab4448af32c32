"""The origin of a run: command, settings, machine and packages."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.config_tables import read_prices, read_table
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.records.settings import Settings

# A fixed list: the environment also holds keys and private data. These change results or identify the machine of a run.
VARIABLES = (
    *("CI", "CUDA_VISIBLE_DEVICES", "GITHUB_REF", "GITHUB_RUN_ID", "GITHUB_SHA", "GITHUB_WORKFLOW", "LANG"),
    *("LC_ALL", "TZ", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTEST_ADDOPTS"),
    *("PYTHONHASHSEED", "PYTHONPATH", "CRUCIBLE_CACHE", "CRUCIBLE_DATA", "CRUCIBLE_RUN_CODE", "CRUCIBLE_STORE"),
    *("CRUCIBLE_TINKER_BASE",),
)
# The packages that compute and store results. Every run records their versions, its manifest those of all others.
PACKAGES = ("pytest-crucible", "pytest", "numpy", "scipy")


def build_manifest(command: Sequence[str], directory: Path, root: Path, settings: Settings) -> dict[str, Any]:
    """Return the data for reproducing a session, as plain data; secrets in it are not redacted yet.

    `command` are pytest's arguments, `directory` is where it was started and `root` its root directory.
    """
    return {
        "command": list(command),
        "directory": os.path.relpath(directory, root),
        "settings": {
            name: (list(value) if isinstance(value, tuple) else value) for name, value in settings.by_option().items()
        },
        "adapters": configured_adapters(root),
        "prices": _or_none(lambda: read_prices(root)),
        "packages": dict(sorted(installed_packages())),
        "machine": machine_facts(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def environment_facts() -> dict[str, Any]:
    """Return Python, the platform, the versions of the packages that compute and that of the rules that decide."""
    return {
        "rules": RULES_VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def utc_now() -> str:
    """Return the time in ISO 8601, in UTC, with milliseconds, as run records store it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def configured_adapters(root: Path) -> Any:
    """Return the table of adapters, empty if it cannot be read: opening an adapter reports the error."""
    # Imported here: it imports backends and asyncio, 40 ms that a stored run is shown without.
    from pytest_crucible.adapters.config import read_adapters

    adapters = _or_none(lambda: read_adapters(root)) or {}
    return {name: asdict(adapter) for name, adapter in adapters.items()}


def configured_tables(root: Path) -> dict[str, Any]:
    """Return the tables of the configuration as they are written; those that cannot be read are left out."""
    return {name: _or_none(lambda name=name: read_table(root, name)) for name in ("adapters", "scorers", "prices")}


def machine_facts() -> dict[str, Any]:
    """Return the interpreter, architecture, processor and number of CPUs."""
    return {
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
    }


def installed_packages() -> Iterator[tuple[str, str]]:
    """Yield name and version of every installed package."""
    # From the names of directories: reading the metadata of hundreds of packages takes a second.
    for folder in dict.fromkeys(sys.path):
        path = Path(folder or ".")
        if path.is_dir():
            for folder_of_package in path.glob("*.dist-info"):
                name, _, version = folder_of_package.stem.rpartition("-")
                # Names of directories have underscores and capitals, names of packages need not.
                yield name.lower().replace("_", "-"), version


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    # Only where it is needed: `platform` starts a process for it.
    return next(names, None) or platform.processor()


def _or_none(read: Any) -> Any:
    try:
        return read()
    except SpecError:
        return None
