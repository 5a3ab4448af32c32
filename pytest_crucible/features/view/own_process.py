"""Computes something of a site in a process of its own: a million observations take seconds, and memory that a server lacks."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
import tempfile
from typing import Any

from pytest_crucible.records.errors import CrucibleError

_MODULE = "pytest_crucible.features.view.own_process_main"


def compute_apart(function: str, store: str, *arguments: Any) -> Any:
    """Return what a function ("module:name") returns of a site of the store and arguments, which are plain data.

    Raises CrucibleError with the sentence that it raised, or with the reason why its process has ended.
    """
    pipe: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with (
        tempfile.TemporaryFile() as notes,
        # -P: a file of the current folder must not stand for a module of Python.
        subprocess.Popen([sys.executable, "-P", "-m", _MODULE], stderr=notes, **pipe) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        # On its standard input: a store's URL may have a password, and everybody on the machine can list arguments.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps([function, store, arguments]).encode() + b"\n")
        # The input stays open: it ends with this process, however that ends, and the other one with it.
        outcome = process.stdout.read()
        status = process.wait()
        notes.seek(0)
        reasons = notes.read().decode(errors="replace").strip().splitlines()
    if status:
        *_, reason = reasons or [f"its process ended with status {status}"]
        raise CrucibleError(f"the results cannot be computed: {reason}")
    error, value = pickle.loads(outcome)
    if error:
        raise CrucibleError(error)
    return value
