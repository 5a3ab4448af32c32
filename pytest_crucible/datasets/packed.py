"""Samples in little memory, and the texts of their fields, without numpy: each session reads samples."""

from __future__ import annotations

import itertools
import json
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from pytest_crucible.datasets.indexed import IndexedSamples
from pytest_crucible.records import Sample

# A million samples take about 100 MB packed and 600 MB as objects. Below this number access time matters more than memory.
MANY = 10_000


class SpilledBytes:
    """Bytes in a file for temporary data, for one thread. The file has no name, so that it ends with the process.

    >>> spilled = SpilledBytes()
    >>> spilled.extend(b"hello")
    >>> spilled[1:3], len(spilled)
    (b'el', 5)
    """

    __slots__ = ("_file", "_size")

    def __init__(self) -> None:
        self._file, self._size = tempfile.TemporaryFile(), 0  # noqa: SIM115 - closed with the object

    def __del__(self) -> None:
        self._file.close()

    def extend(self, more: bytes) -> None:
        self._file.seek(self._size)
        self._size += self._file.write(more)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: slice) -> bytes:
        self._file.seek(at.start)
        return self._file.read(at.stop - at.start)


class PackedSamples(Sequence[Sample]):
    """A sequence that returns equal samples on each access, not the same object. Samples that cannot be pickled stay objects.

    >>> packed = PackedSamples([Sample(id="a", input="2 + 2", expected="4")])
    >>> packed[0].expected, len(packed)
    ('4', 1)
    """

    __slots__ = ("_bytes", "_ends", "_odd")

    def __init__(self, samples: Iterable[Sample] = (), into: bytearray | SpilledBytes | None = None) -> None:
        """`into` has the packed samples, by default in memory."""
        self._bytes = bytearray() if into is None else into
        self._ends = array("Q", [0])
        self._odd: dict[int, Sample] = {}
        for sample in samples:
            self.append(sample)

    def append(self, sample: Sample) -> None:
        fields: tuple[Any, ...] = (sample.id, sample.input, sample.expected, sample.group, sample.metadata or None)
        # Few datasets have twins or equal inputs, and a million empty mappings take room.
        fields += (sample.variants, sample.joined_group) if sample.variants or sample.joined_group else ()
        try:
            self._bytes.extend(pickle.dumps(fields, protocol=5))
        except Exception:
            # a user's object may raise anything while it is pickled
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
        number = len(self)
        place = at + number if at < 0 else at
        if not 0 <= place < number:
            raise IndexError(f"sample {at} is out of range for {number} samples")
        if place in self._odd:
            return self._odd[place]
        fields = self._bytes[self._ends[place] : self._ends[place + 1]]
        name, text, expected, group, metadata, *more = pickle.loads(fields)
        variants, joined_group = more or ({}, None)
        return Sample(
            id=name,
            input=text,
            expected=expected,
            group=group,
            metadata=metadata or {},
            variants=variants,
            joined_group=joined_group,
        )

    def iterate_fields(self) -> Iterator[tuple[Any, ...]]:
        """Yield the fields of each sample, without building it."""
        start = 0
        for place, end in enumerate(self._ends[1:]):
            if place in self._odd:
                sample = self._odd[place]
                yield sample.id, sample.input, sample.expected, sample.group, sample.metadata
            else:
                name, text, expected, group, metadata, *_ = pickle.loads(self._bytes[start:end])
                yield name, text, expected, group, metadata or {}
            start = end


def iterate_fields(samples: Iterable[Sample]) -> Iterator[tuple[Any, ...]]:
    """Yield id, input, expected, group and metadata of each sample.

    >>> list(iterate_fields([Sample(id="a", input="2 + 2")]))
    [('a', '2 + 2', None, None, {})]
    """
    if isinstance(samples, PackedSamples):
        return samples.iterate_fields()
    return ((sample.id, sample.input, sample.expected, sample.group, sample.metadata) for sample in samples)


def pack_if_many(samples: Iterable[Sample]) -> Sequence[Sample]:
    """Return the samples as a list, or packed if there are more than `MANY`."""
    if isinstance(samples, PackedSamples | IndexedSamples):
        return samples
    more = iter(samples)
    # One more than MANY shows that there are more, without reading an unbounded iterator to its end.
    first = list(itertools.islice(more, MANY + 1))
    return first if len(first) <= MANY else PackedSamples(itertools.chain(first, more))


def text_of(value: Any) -> str:
    """Return a text as it is, messages as their contents, and any other value as JSON.

    >>> text_of([{"role": "user", "content": "Hello"}]), text_of(7)
    ('Hello', '7')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "content" in item for item in value):
        return "\n".join(_content(item["content"]) for item in value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)


def _content(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in content)
    return "" if content is None else str(content)
