"""The program of `own_process`: reads a function, a store and arguments from its standard input, and writes the result."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

from pytest_crucible.features.view.site import Site
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.run_store import open_for_reading
from pytest_crucible.store.reading import READINGS, ChangedStoreError


def main() -> None:
    """Write the outcome of the call that standard input names."""
    function, store, arguments = json.load(sys.stdin)
    sys.stdout.buffer.write(pickle.dumps(call_function(function, store, arguments)))


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
