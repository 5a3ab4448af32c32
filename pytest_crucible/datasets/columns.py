"""The fields of samples as columns, each read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.packed import iterate_fields, text_of
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import suggest

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


def label_of(value: Any) -> str:
    """Return a text as it is, and any other value as JSON: equal for equal values.

    >>> label_of(True), label_of(1), label_of(1.0), label_of("1")
    ('true', '1', '1', '1')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)


def _as_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
