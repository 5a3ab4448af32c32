"""The differences of a sweep from that of an earlier run: a choice is repeated only where nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.records import Sweep


def sweep_changes(before: Sweep, now: Sweep) -> Iterator[str]:
    """Yield a clause for each difference of a sweep from that of an earlier run, with what to do."""
    for key in dict.fromkeys((*before.grid, *now.grid)):
        then, here = before.grid.get(key), now.grid.get(key)
        if then is None or here is None or list(then) != list(here):
            now_is = f"it is {list(here)}" if then and here else _swept_text(key, here, "it sweeps")
            yield f"{_swept_text(key, then, 'swept')}; now {now_is}: restore the grid"
    for name in ("by", "confirm", "drop", "trials", "seed"):
        then, here = getattr(before, name), getattr(now, name)
        if then != here:
            yield f"swept with {name} = {then!r}; now it is {here!r}: restore it"
    if before.choosing_sha256 != now.choosing_sha256:
        yield f"chose on other samples than {now.test} has now: restore the dataset"
    for member, other in zip(before.members, now.members, strict=False):
        if member.identity != other.identity:
            yield f"had another model as {other.name}: restore it"


def _swept_text(key: str, values: Sequence[Any] | None, verb: str) -> str:
    """Return `swept steps = [9, 30]`, or `swept no steps`."""
    name = key.rpartition(".")[2]
    return f"{verb} no {name}" if values is None else f"{verb} {name} = {list(values)}"
