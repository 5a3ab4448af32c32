"""The program of `own_process`: reads a function, a store and arguments from its standard input, and writes the result."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import threading
from typing import Any

from pytest_crucible.features.view.site import Site
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.run_store import open_for_reading
from pytest_crucible.store.reading import READINGS, ChangedStoreError


def main() -> None:
    """Write the outcome of the call that standard input names."""
    function, store, arguments = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    # What a plugin prints must not get into the result.
    with contextlib.redirect_stdout(sys.stderr):
        outcome = pickle.dumps(call_function(function, store, arguments))
    sys.stdout.buffer.write(outcome)
    sys.stdout.flush()
    # Without waiting for the thread, which reads.
    os._exit(0)


def _end_with_input() -> None:
    """End this process when the one that waits for its result has ended."""
    # Read past Python's lock of the stream, which an exit would wait for.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def call_function(function: str, store: str, arguments: list[Any]) -> tuple[str, Any]:
    """Return the sentence of an expected error (empty without one), and what a function returned of a site and arguments."""
    sentence = ""
    for _ in range(READINGS):
        try:
            with open_for_reading(store, "view") as opened:
                return "", load_object(function)(Site(opened), *arguments)
        except ChangedStoreError as error:
            sentence = str(error)
        except CrucibleError as error:
            return str(error), None
    return sentence, None


if __name__ == "__main__":
    main()
