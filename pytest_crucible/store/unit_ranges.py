"""The outcomes of an arm on consecutive samples, as arrays: what the database and Parquet parts have to return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Lost, Unit

UnitColumns = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Units, which count all replies of an arm sample by sample, and a number of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRange:
    """An arm in one form of the prompt, on some samples."""

    arm: int
    start: int
    stop: int
    size: int
    """The replies of the arm to a sample, in all forms."""
    places: range
    """Those of this form among them."""

    def units(self, positions: Any, epochs: Any) -> Any:
        return (positions - self.start) * self.size + self.places[0] + epochs

    def unit(self, number: int, position: int, epoch: int) -> Unit:
        """Return the unit of a loss of the arm with a number."""
        return Unit(position - self.start, 0, number, epoch + self.places[0])


class RangeReader(Protocol):
    """The outcomes of such a range."""

    def replies(self) -> UnitColumns:
        """Return the unit and the state of each reply."""
        ...

    def scores(self, metrics: Sequence[str]) -> dict[str, UnitColumns]:
        """Return the units of each metric, and their values; NaN does not apply."""
        ...

    def lost(self, number: int) -> list[Lost]:
        """Return what is lost, as that of the arm with a number."""
        ...
