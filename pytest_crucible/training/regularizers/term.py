"""The role of a regularizer, and the value that it returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.training.regularizers.reply_tokens import ReplyTokens

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Term:
    """The value of a regularizer, before its weight, and its derivative by each log-probability, (tokens,)."""

    value: float
    derivative: Array


class Regularizer(Protocol):
    """A term of a loss. A recipe may have regularizers of its own; their repr has to name all their settings."""

    @property
    def name(self) -> str:
        """The name in metrics."""
        ...

    @property
    def weight(self) -> float:
        """The factor of the term in the loss."""
        ...

    def evaluate(self, tokens: ReplyTokens) -> Term:
        """Return value and derivative. Raises ValueError for data that it cannot be computed of."""
        ...


@dataclass(frozen=True)
class Weighted:
    """A regularizer with its weight."""

    weight: float
    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"{self.name} has weight = {self.weight!r}: write a number of at least 0, such as 0.1")


def check_choice(name: str, setting: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} has {setting} = {value!r}: write {' or '.join(map(repr, choices))}")
