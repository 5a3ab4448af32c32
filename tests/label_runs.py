"""A stored run whose replies are labelled, for tests of labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from experiment_builders import store_run

from pytest_crucible import Sample
from pytest_crucible.store.runs import RunStore

RUN = "3f2a1c9d8e7b"


def store_labelled_run(where: Path | str, candidate: Sequence[bool], baseline: Sequence[bool]) -> Path | str:
    """Store a finished run of two arms, `v2` and `v1`, whose replies are `v2: True` and the like, and return its store."""
    samples = [Sample(id=f"q{k}", input=f"What is {k}?", expected=f"{k}") for k in range(len(candidate))]
    with closing(RunStore(str(where))) as store:
        store_run(store, RUN, samples, v2=candidate, v1=baseline)
        store.end_run(RUN, finished="2026-01-02", status="finished")
    return where
