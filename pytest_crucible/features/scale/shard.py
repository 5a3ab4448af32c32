"""A shard: one of several parts of a run's samples, by a hash of their group, else of their id.

The hash of a sample depends on no other one, so that no sample moves to another shard when a dataset grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_crucible.datasets.selection import draw
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError

_SHARD = re.compile(r"([0-9]+)/([0-9]+)")
_MOST = 99_999


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One of `of` parts, counted from 1."""

    of: int
    number: int

    def __str__(self) -> str:
        return f"{self.number} of {self.of}"

    @property
    def option(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def file(self) -> str:
        """The run store that the shard writes, below pytest's root directory."""
        return f"crucible-shard-{self.number}-of-{self.of}.db"

    def positions(self, samples: Iterable[Sample]) -> list[int]:
        """Return the positions of its samples."""
        return [position for position, number in enumerate(shard_numbers(samples, self.of)) if number == self.number]


def parse_shard(text: str) -> Shard:
    """Return the shard of an option's value, such as `3/8`. Raises SpecError."""
    match = _SHARD.fullmatch(text)
    # Compared by digits: Python refuses to convert texts of thousands of them, with an error of its own.
    if match and max(len(part) for part in match.groups()) > len(str(_MOST)):
        raise SpecError(f"--crucible-shard={text:.40}: expected at most {_MOST} parts")
    of = int(match[2]) if match else 0
    if match is None or not of:
        raise SpecError(f"--crucible-shard={text}: expected a part such as 3/8")
    if not 1 <= int(match[1]) <= of:
        raise SpecError(f"--crucible-shard={text}: expected 1/{of} to {of}/{of}")
    return Shard(of, int(match[1]))


def shard_numbers(samples: Iterable[Sample], of: int) -> Iterator[int]:
    """Yield the number of each sample's shard, from 1: one for all samples of a cluster, and for their twins.

    >>> list(shard_numbers([Sample(id="a", input=""), Sample(id="b", input="", group="g")], 8))
    [7, 8]
    """
    firsts: dict[str, str] = {}
    for sample in samples:
        key = f"sample {sample.id}" if sample.group is None else f"group {sample.group}"
        if sample.cluster is not None:
            # Equal inputs change the names of all groups, and must not move a sample that has none.
            key = firsts.setdefault(sample.cluster, key)
        yield int.from_bytes(draw(key)) % of + 1


_APART = {
    "stop": "--crucible-stop",
    "stages": "crucible_stages",
    "until": "--crucible-until",
    "estimate": "--crucible-estimate",
    "sample": "--crucible-sample",
    "executor": "--crucible-executor",
    "json": "--crucible-json",
    "report": "--crucible-report",
}
"""Options that look at a run as a whole, or at one sample."""


def option_conflicts(values: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield each conflict of a shard: whether the values of the options have it, and the sentence that reports it."""
    if values["shard"] is None:
        return
    problem = _problem_of(values["shard"])
    yield bool(problem), problem
    for name, option in _APART.items():
        yield bool(values.get(name)), f"--crucible-shard cannot be combined with {option}: remove one"


def _problem_of(text: str) -> str:
    try:
        parse_shard(text)
    except SpecError as error:
        return str(error)
    return ""
