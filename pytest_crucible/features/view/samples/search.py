"""Searches ids, prompts and replies of an experiment for a text, in the store: they do not fit in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from pytest_crucible.analyse.scores import Flags
from pytest_crucible.records import Plan
from pytest_crucible.store.database import from_json
from pytest_crucible.store.outcomes import of_arm
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import stored_text


class AbandonedError(Exception):
    """Nothing waits for the result of a search any more: its text was changed meanwhile."""


_CHECK_EVERY = 20_000
"""Candidates after which a search looks whether it is still waited for."""


def find_samples(
    store: RunStore,
    experiment: int,
    plan: Plan,
    text: str,
    size: int,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> Flags:
    """Return which samples have a text in their id, their prompt or a reply, whatever its case.

    The database leaves out most of the others by the longest part of the text that it compares as Python does. Raises
    AbandonedError.
    """
    needle, pattern = text.lower(), _pattern(text)
    matches = np.zeros(size, dtype=bool)
    for rows in _queries(store, experiment, plan, pattern):
        # The first row of a query may take most of its time.
        for number, (position, *texts) in enumerate(rows):
            if number % _CHECK_EVERY == 0 and is_abandoned():
                raise AbandonedError
            if not matches[position] and any(needle in each.lower() for each in texts):
                matches[position] = True
        if is_abandoned():
            raise AbandonedError
    return matches


def _pattern(text: str) -> str:
    """Return the pattern of LIKE for texts that may contain this one: its longest run of plain letters, digits and blanks.

    >>> _pattern("50% of ALL"), _pattern("\u00e9t\u00e9")
    ('% of all%', '%t%')
    """
    # JSON escapes quotes, control characters and letters that are not ASCII, whose case databases do not know either.
    runs = re.findall(r"[A-Za-z0-9 .,:;!?()+*/=<>-]+", text)
    return f"%{max(runs, key=len, default='').lower()}%"


def _queries(store: RunStore, experiment: int, plan: Plan, pattern: str) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Yield the results of each query: positions with texts that may match."""
    yield _samples_like(store, plan.dataset_sha256, pattern)
    replies = f"""
        SELECT replies.position, {stored_text("replies")} AS reply
        FROM replies JOIN arms ON arms.id = replies.arm
        WHERE {of_arm()} AND LOWER({stored_text("replies")}) LIKE :pattern
    """
    for number in range(len(plan.arms)):
        yield store.rows(replies, experiment=experiment, number=number, pattern=pattern)


def _samples_like(store: RunStore, dataset: str, pattern: str) -> Iterator[tuple[Any, ...]]:
    query = """
        SELECT position, sample_id, input FROM samples WHERE dataset = :dataset
            AND (LOWER(sample_id) LIKE :pattern OR LOWER(CAST(input AS TEXT)) LIKE :pattern)
    """
    for position, name, input in store.rows(query, dataset=dataset, pattern=pattern):
        yield position, name, *_strings(from_json(input))


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in a prompt: itself, or those of its messages."""
    if isinstance(value, dict | list):
        for inner in chain.from_iterable(value.items()) if isinstance(value, dict) else value:
            yield from _strings(inner)
    elif value is not None:
        yield str(value)
