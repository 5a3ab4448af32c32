"""Samples of a Hypothesis strategy, for tests of a parser or a tool call on generated input."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_crucible.datasets.release import Row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.serialize import canonical

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Draws for each sample: enough to find nearly all values of a small strategy, and to pass a filter that refuses most.
DRAWS_PER_SAMPLE = 10
# For small n, where a few duplicates would otherwise use up all draws.
LEAST_DRAWS = 100
# Characters of a strategy or value in an error: the repr of a strategy contains the source of its lambdas.
A_LOOK = 100


def from_strategy(strategy: SearchStrategy[Any], n: int = 200) -> StrategySamples:
    """Return a dataset of `n` distinct samples of a Hypothesis strategy, drawn by the run's seed.

    The strategy yields inputs, mappings with `input` and perhaps `expected` and metadata, or `Sample` objects. A seed draws
    the same samples in every process, and the samples of a smaller `n` are the first ones of a larger `n`. Needs the extra
    `[hypothesis]`.
    """
    return StrategySamples(strategy, n)


@dataclass(frozen=True, slots=True)
class StrategySamples:
    """A strategy and a number of samples. Samples are drawn when an experiment is planned, because only then is the seed known."""

    strategy: Any
    n: int

    def rows(self, seed: int, *, id_field: str = "id") -> list[Row]:
        """Return `n` rows that differ; a row without an id gets a hash of its content. Raises DatasetError."""
        if not isinstance(self.n, int) or isinstance(self.n, bool) or self.n < 1:
            raise DatasetError(f"{self} has n={self.n!r}: write a whole number of at least 1")
        rows: dict[str, Row] = {}

        def add(value: Any) -> bool:
            text = self._canonical(value)
            if text not in rows:
                rows[text] = _row(value, text, id_field)
            return len(rows) == self.n

        draws = max(LEAST_DRAWS, DRAWS_PER_SAMPLE * self.n)
        self._draw(add, seed, draws)
        if len(rows) < self.n:
            raise DatasetError(
                f"{self} gives only {len(rows)} distinct samples in {draws:,} draws, and n={self.n}: "
                "write a smaller n, or a strategy with more values or fewer filters"
            )
        return list(rows.values())

    def _draw(self, add: Any, seed: int, draws: int) -> None:
        try:
            from pytest_crucible.datasets.strategy_draws import draw_until
        except ImportError as error:
            raise DatasetError(
                f'from_strategy needs Hypothesis ({error}): pip install "pytest-crucible[hypothesis]"'
            ) from None
        draw_until(add, self.strategy, name=str(self), seed=seed, draws=draws)

    def _canonical(self, value: Any) -> str:
        try:
            return canonical(value)
        except TypeError as error:
            raise DatasetError(
                f"{self} drew {_look(value)}, which cannot be stored ({error}): "
                "draw texts, numbers, lists and mappings with text keys, or convert values with .map(...)"
            ) from None

    def __str__(self) -> str:
        return f"from_strategy({_look(self.strategy)})"


def _row(value: Any, text: str, id_field: str) -> Row:
    """Return a drawn value as a row. The id depends on nothing but the content, so that all seeds agree on it."""
    if isinstance(value, Sample):
        return value
    sample_id = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    row = value if isinstance(value, Mapping) else {"input": value}
    return {id_field: sample_id, **row}


def _look(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= A_LOOK else f"{text[:A_LOOK]}..."
