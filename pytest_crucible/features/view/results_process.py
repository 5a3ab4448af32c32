"""Computes the results of a run in a process of its own: a million observations take seconds, and memory that a server lacks."""

from __future__ import annotations

import json
import subprocess
import sys

from pytest_crucible.records.errors import CrucibleError

_MODULE = "pytest_crucible.features.view.results"


def compute_results(store: str, run: str) -> str:
    """Return the results of a run as HTML. Raises CrucibleError with the reason why they cannot be computed."""
    # On its standard input: a store's URL may have a password, and everybody on the machine can list arguments.
    done = subprocess.run(
        [sys.executable, "-m", _MODULE],
        input=json.dumps([store, run]),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        *_, reason = done.stderr.strip().splitlines() or [f"its process ended with status {done.returncode}"]
        raise CrucibleError(f"the results of run {run} cannot be computed: {reason}")
    return done.stdout
