"""Samples in little memory, and their fields as columns, each read once."""

from __future__ import annotations

import itertools
import json
import pickle
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import Sample
from pytest_crucible.records.errors import suggest

# A million samples take about 100 MB packed and 600 MB as objects. Below this number access time matters more than memory.
MANY = 10_000


class PackedSamples(Sequence[Sample]):
    """A sequence that returns equal samples on each access, not the same object. Samples that cannot be pickled stay objects.

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
        fields: tuple[Any, ...] = (sample.id, sample.input, sample.expected, sample.group, sample.metadata or None)
        # Few datasets have twins or equal inputs, and a million empty mappings take room.
        fields += (sample.variants, sample.joined_group) if sample.variants or sample.joined_group else ()
        try:
            self._bytes += pickle.dumps(fields, protocol=5)
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
        name, text, expected, group, metadata, *more = pickle.loads(
            memoryview(self._bytes)[self._ends[place] : self._ends[place + 1]]
        )
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
        view, start = memoryview(self._bytes), 0
        for place, end in enumerate(self._ends[1:]):
            if place in self._odd:
                sample = self._odd[place]
                yield sample.id, sample.input, sample.expected, sample.group, sample.metadata
            else:
                name, text, expected, group, metadata, *_ = pickle.loads(view[start:end])
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
    if isinstance(samples, PackedSamples):
        return samples
    more = iter(samples)
    # One more than MANY shows that there are more, without reading an unbounded iterator to its end.
    first = list(itertools.islice(more, MANY + 1))
    return first if len(first) <= MANY else PackedSamples(itertools.chain(first, more))


Positions = npt.NDArray[np.intp]
_OWN = {"id": 0, "input": 1, "expected": 2, "group": 3}
"""Fields of every sample, by their place in the rows of `iterate_fields`."""


class MissingColumn(Exception):
    """No sample has the field that a check is about."""


class Column:
    """The values of one field, sample by sample; a missing value is None."""

    def __init__(self, name: str, values: list[Any]) -> None:
        self.name, self.values = name, values

    @cached_property
    def types(self) -> frozenset[type]:
        """The types of all values."""
        return frozenset(map(type, self.values))

    @cached_property
    def present(self) -> Positions:
        """The positions of the values that are not missing: neither null nor NaN."""
        if not self.types & {type(None), float}:
            return np.arange(len(self.values))
        return np.array(
            [k for k, value in enumerate(self.values) if value is not None and value == value], dtype=np.intp
        )

    @property
    def missing(self) -> int:
        return len(self.values) - len(self.present)

    @cached_property
    def present_values(self) -> list[Any]:
        if len(self.present) == len(self.values):
            return self.values
        return [self.values[k] for k in self.present.tolist()]

    def at(self, positions: Positions, values: Sequence[str]) -> list[str]:
        """Return the values at some positions, of those in `texts` or `labels`."""
        return [values[k] for k in np.searchsorted(self.present, positions).tolist()]

    @cached_property
    def numbers(self) -> npt.NDArray[np.float64]:
        """One number for each value that is not missing; NaN if it is not a number. Booleans are not numbers."""
        if self.types <= {int, float, type(None)}:
            try:
                return np.array(self.present_values, dtype=np.float64)
            except OverflowError:
                # An integer beyond the range of floats: value by value below.
                pass
        return np.array([_as_float(value) for value in self.present_values], dtype=np.float64)

    @cached_property
    def texts(self) -> list[str]:
        """The text of each value that is not missing: messages as their contents, other values as JSON."""
        if self.types <= {str, type(None)}:
            return self.present_values
        return [text_of(value) for value in self.present_values]

    @cached_property
    def labels(self) -> list[str]:
        """One text for each value that is not missing: `1`, `1.0` and `"1"` have one label, `true` another."""
        return self.texts if self.types <= {str, type(None)} else [label_of(value) for value in self.present_values]


class Table:
    """The columns of a dataset. `names` are those that checks will need, so that the samples are read once."""

    def __init__(self, samples: Sequence[Sample], names: Iterable[str] = ()) -> None:
        self.samples = samples
        self._columns: dict[str, Column] = {}
        self._further: dict[str, None] = {}
        self._used: set[str] = set()
        self._read(dict.fromkeys((*_OWN, *names)))

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the samples: first those that every dataset may have (`id`, `input`, ...), then the others by name."""
        own = [name for name in _OWN if name in self._used]
        return (*own, *sorted(self._further.keys() - set(own)))

    def column(self, name: str) -> Column:
        """Return the values of a field. Raises MissingColumn if no sample has it."""
        self.load([name])
        if name not in self._used:
            first = next((value for value in self._columns["expected"].values if isinstance(value, Mapping)), {})
            names = [*self.fields, *(f"expected.{key}" for key in first)]
            hint = suggest(name, names, otherwise=f"the fields are {', '.join(self.fields)}")
            raise MissingColumn(f"no sample has a field {name!r}; {hint}")
        return self._columns[name]

    def load(self, names: Iterable[str]) -> None:
        """Read columns that were not read yet, in one pass over the samples."""
        new = dict.fromkeys(name for name in names if name not in self._columns)
        if new:
            self._read(new)

    def ids(self, positions: Iterable[int]) -> list[str]:
        """Return the ids of the samples at some positions."""
        ids = self._columns["id"].values
        return [ids[k] for k in positions]

    def has(self, name: str) -> bool:
        """Return whether some sample has the field."""
        try:
            return bool(self.column(name))
        except MissingColumn:
            return False

    def _read(self, new: Mapping[str, None]) -> None:
        columns: list[list[Any]] = [[] for _ in new]
        readers = [
            (_OWN.get(name), name, name.split("."), values.append) for name, values in zip(new, columns, strict=True)
        ]
        for fields in iterate_fields(self.samples):
            metadata = fields[4]
            if not metadata.keys() <= self._further.keys():
                self._further.update(dict.fromkeys(metadata))
            for own, name, path, append in readers:
                if own is not None:
                    append(fields[own])
                elif name in metadata:
                    self._used.add(name)
                    append(metadata[name])
                else:
                    append(self._inside(fields, name, path))
        self._columns |= {name: Column(name, values) for name, values in zip(new, columns, strict=True)}
        self._used |= {name for name in new if name in _OWN and self._columns[name].types - {type(None)}}

    def _inside(self, fields: tuple[Any, ...], name: str, path: Sequence[str]) -> Any:
        """Return the value at a path such as `expected.label`; None for samples without it."""
        value = fields[_OWN[path[0]]] if path[0] in _OWN else fields[4].get(path[0])
        if len(path) == 1:
            return None
        for key in path[1:]:
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        self._used.add(name)
        return value


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


def label_of(value: Any) -> str:
    """Return a text as it is, and any other value as JSON: equal for equal values.

    >>> label_of(True), label_of(1), label_of(1.0), label_of("1")
    ('true', '1', '1', '1')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)


def _content(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in content)
    return "" if content is None else str(content)


def _as_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
