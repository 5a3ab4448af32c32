"""The argument `perturb` of a test function: it attacks a text of the test's choice in attacked variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from pytest_crucible.adversary.twins import Draw
from pytest_crucible.records import NoTwin, Sample

Perturb = Callable[[str], str]


class Perturbations:
    """Returns the function for each twin: it changes nothing in the original samples and in the controls."""

    def __init__(self, draws: Mapping[int, Draw]) -> None:
        """`draws` are those of attacked variants, by the number of the twins."""
        self._draws = draws

    def __call__(self, twin: int, sample: Sample) -> Perturb:
        if twin not in self._draws:
            return _keep_text
        draw = self._draws[twin]

        def perturb(text: str) -> str:
            perturbed = draw.perturb(text, sample)
            if isinstance(perturbed, NoTwin):
                # The attack does not apply: the sample counts neither as broken nor as robust.
                pytest.skip(perturbed.reason)
            return perturbed.text

        return perturb


def _keep_text(text: str) -> str:
    return text
