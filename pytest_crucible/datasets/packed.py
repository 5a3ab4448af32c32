"""Many samples in little memory: what they say is kept as bytes, and each sample is made when it is asked for."""

from __future__ import annotations

import itertools
import pickle
from array import array
from collections.abc import Iterable, Sequence
from typing import overload

from pytest_crucible.records import Sample

MANY = 10_000
"""From so many samples on it is worth it: a million take about 100 MB, as objects six times as much."""


class PackedSamples(Sequence[Sample]):
    """Equal samples each time, not the same object. What cannot be pickled is kept as it is.

    >>> packed = PackedSamples([Sample(id="a", input="2 + 2", expected="4")])
    >>> packed[0].expected, len(packed)
    ('4', 1)
    """

    __slots__ = ("_bytes", "_ends", "_odd")

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._bytes = bytearray()
        self._ends = array("Q", [0])
        self._odd: dict[int, Sample] = {}
        for sample in samples:
            self.append(sample)

    def append(self, sample: Sample) -> None:
        fields = (sample.id, sample.input, sample.expected, sample.group, sample.metadata or None)
        try:
            self._bytes += pickle.dumps(fields, protocol=5)
        except Exception:  # whatever an object of the user's raises
            self._odd[len(self)] = sample
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, at: int) -> Sample: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Sample]: ...

    def __getitem__(self, at: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(at, slice):
            return [self[k] for k in range(*at.indices(len(self)))]
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(f"there is no sample {at} among {len(self)}")
        if place in self._odd:
            return self._odd[place]
        name, given, expected, group, metadata = pickle.loads(
            memoryview(self._bytes)[self._ends[place] : self._ends[place + 1]]
        )
        return Sample(id=name, input=given, expected=expected, group=group, metadata=metadata or {})


def kept(samples: Iterable[Sample]) -> Sequence[Sample]:
    """A list, or packed where they are many."""
    if isinstance(samples, PackedSamples):
        return samples
    more = iter(samples)
    first = list(itertools.islice(more, MANY + 1))
    return first if len(first) <= MANY else PackedSamples(itertools.chain(first, more))
