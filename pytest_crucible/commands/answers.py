"""What an analysis of a stored run starts from."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_crucible.analyse.analysis import Given
from pytest_crucible.conclusion import stored_answers
from pytest_crucible.store.runs import RunStore


def given_answers(store: RunStore, run: str) -> Iterator[Given]:
    """Of each experiment of a run that began, with all that is stored of it."""
    for key, plan, finished in store.experiments(run):
        if store.has_arms(key):
            yield stored_answers(store, key, plan, finished)
