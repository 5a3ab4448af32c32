"""Draw from a Hypothesis strategy: independently, and alike in every process with the same seed. Imports Hypothesis."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import InvalidArgument, Unsatisfiable
from hypothesis.internal.conjecture.choice import choice_permitted
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, GLOBAL_CONSTANTS, HypothesisProvider
from hypothesis.strategies import SearchStrategy

from pytest_crucible.records.errors import DatasetError

BACKEND = "pytest-crucible"


class SeededProvider(HypothesisProvider):
    """Hypothesis' own generator without the constants that it collects from the source of the modules that are loaded.

    With them, samples would change with an edit of the code under test, or with the selection of test files.
    """

    def _maybe_draw_constant(self, choice_type: Any, constraints: Any, *, p: float = 0.05) -> Any:
        assert self._random is not None
        if self._random.random() > p:
            return None
        constants = [each for each in GLOBAL_CONSTANTS.set_for_type(choice_type) if choice_permitted(each, constraints)]
        return self._random.choice(constants) if constants else None


# With a backend of its own, Hypothesis also draws each value independently, and mutates no earlier one.
# Named by a string, because older versions of Hypothesis take no class.
AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.SeededProvider"


class _Complete(unittest.SkipTest):
    """Ends the draws: Hypothesis passes on a skip at once, and regards any other exception as a failure to be replayed."""


def draw_until(complete: Callable[[Any], bool], strategy: Any, *, name: str, seed: int, draws: int) -> None:
    """Draw values until `complete(value)` returns True, or as often as `draws`. Raises DatasetError for an invalid strategy."""
    if not isinstance(strategy, SearchStrategy):
        raise DatasetError(f"{name} is not a Hypothesis strategy: write for example from_strategy(st.text(), n=200)")
    try:
        _run(complete, strategy, seed, draws)
    except (_Complete, Unsatisfiable):
        # The number of draws that passed the filters is for the caller to judge.
        return
    except InvalidArgument as error:
        raise DatasetError(f"{name} is not valid: {error}") from error


def _run(complete: Callable[[Any], bool], strategy: SearchStrategy[Any], seed_of_run: int, draws: int) -> None:
    # Every setting that changes the draws, because a profile of the suite may have changed its default.
    @settings(
        max_examples=draws,
        backend=BACKEND,
        database=None,
        derandomize=False,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @seed(seed_of_run)
    @given(strategy)
    def draw(value: Any) -> None:
        if complete(value):
            raise _Complete("all samples are drawn")

    draw()
