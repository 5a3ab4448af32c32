"""Computes something of a site in a process of its own: a million observations take seconds, and memory that a server lacks."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

from pytest_crucible.records.errors import CrucibleError

_MODULE = "pytest_crucible.features.view.compute.process_main"


def compute_apart(function: str, store: str, *arguments: Any) -> Any:
    """Return what a function ("module:name") returns of a site of the store and arguments, which are plain data.

    Raises CrucibleError with the sentence that it raised, or with the reason why its process has ended.
    """
    # On its standard input: a store's URL may have a password, and everybody on the machine can list arguments.
    done = subprocess.run(
        [sys.executable, "-m", _MODULE],
        input=json.dumps([function, store, arguments]).encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        *_, reason = lines or [f"its process ended with status {done.returncode}"]
        raise CrucibleError(f"the results cannot be computed: {reason}")
    error, value = pickle.loads(done.stdout)
    if error:
        raise CrucibleError(error)
    return value
