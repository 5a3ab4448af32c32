"""Collects a suite in a process of its own, in an environment that no caller can tune."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.model_gates import SuiteRecord
from pytest_crucible.records.serialize import from_plain

COLLECTOR = "pytest_crucible.session.collect_suite"
# What programs need to start, to find packages, files and caches, and to reach a mirror. Everything else may be a switch that
# a conftest.py reads, such as FAST=1.
KEPT = (
    *("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "USERPROFILE"),
    *("APPDATA", "COMSPEC", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "WINDIR"),
    *("CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONPYCACHEPREFIX"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "VIRTUAL_ENV", "PYTEST_DEBUG_TEMPROOT"),
    *("CRUCIBLE_DATA", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
)
KEPT_BEGINNINGS = ("LC_", "XDG_", "HF_", "TRANSFORMERS_")
"""Of the names of further variables: locale, folders, and where Hugging Face keeps its files."""


def collect_suite(suite: Sequence[str], variables: Sequence[str], root: Path) -> SuiteRecord:
    """Return what pytest collects with these arguments in its root directory. Nothing is sent to a model.

    `variables` are passed on from the environment, besides those of every process. Raises SpecError where it cannot be collected.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "suite.json"
        done = subprocess.run(
            [sys.executable, "-m", COLLECTOR, str(file), *suite],
            cwd=root,
            env=clean_environment(os.environ, variables),
            capture_output=True,
            text=True,
            check=False,
        )
        if not file.is_file():
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            raise _not_collected(suite, lines[-1])
        plain = json.loads(file.read_text(encoding="utf-8"))
    if plain["error"]:
        raise _not_collected(suite, plain["error"])
    return from_plain(SuiteRecord, plain["record"])


def clean_environment(environment: Mapping[str, str], variables: Sequence[str]) -> dict[str, str]:
    """Return the variables that a suite is collected with: those of every process, and those that are named."""
    return {
        name: value
        for name, value in environment.items()
        if name.upper() in KEPT or name.upper().startswith(KEPT_BEGINNINGS) or name in variables
    }


def _not_collected(suite: Sequence[str], reason: str) -> SpecError:
    where = " ".join(suite) or "pytest's root directory"
    return SpecError(
        f"the suite ({where}) cannot be collected for its gate: {reason}: correct the suite; a variable of the environment "
        "reaches it only where `crucible models gate freeze` names it with --env"
    )
