"""Numbers of examples of a property and runs of a simulation: fewer each day, all each night."""

from __future__ import annotations

import os

FULL = bool(os.environ.get("CI_FULL"))


def choose_examples(most: int) -> int:
    """Return how many examples Hypothesis tries: all with CI_FULL=1, and else a fifth."""
    return most if FULL else -(-most // 5)


def choose_runs(most: int) -> int:
    """Return how many runs a simulation has: all with CI_FULL=1, and else an eighth.

    A limit that is some standard errors of the simulation away holds for both: fewer runs only find smaller faults less often.
    """
    return most if FULL else most // 8
