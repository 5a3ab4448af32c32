"""Computes the results of a run in a process of its own: a million observations take seconds, and memory that a server lacks.

It reads the store and the run from its standard input, because a store's URL may have a password, and writes HTML.
"""

from __future__ import annotations

import json
import subprocess
import sys

from pytest_crucible.records.errors import CrucibleError


def compute_results(store: str, run: str) -> str:
    """Return the results of a run as HTML. Raises CrucibleError with the reason why they cannot be computed."""
    command = [sys.executable, "-m", "pytest_crucible.features.view.results_process"]
    request = json.dumps([store, run])
    done = subprocess.run(command, input=request, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        *_, reason = done.stderr.strip().splitlines() or [f"its process ended with status {done.returncode}"]
        raise CrucibleError(f"the results of run {run} cannot be computed: {reason}")
    return done.stdout


def main() -> None:
    """Write the results of the run that standard input names."""
    # Imported here: the server starts this process and has no use for what it computes with.
    from pytest_crucible.features.view.results import render_results
    from pytest_crucible.features.view.site import Site
    from pytest_crucible.runs.run_store import existing_store

    store, run = json.load(sys.stdin)
    with existing_store(store) as opened:
        html = render_results(Site(opened), run)
    sys.stdout.buffer.write(html.encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main()
