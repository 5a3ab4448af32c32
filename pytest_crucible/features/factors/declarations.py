"""Factors that a suite declares fixed, the rounds of a session, and what the announcement of a plan says about factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.records import FACTORS, FEWEST_LEVELS, Plan
from pytest_crucible.records.errors import SpecError, suggest


def read_fixed(declared: Any) -> tuple[str, ...]:
    """Return the factors that are declared fixed. Raises SpecError for a name that is not a factor."""
    names = (declared,) if isinstance(declared, str) else declared
    if not isinstance(names, list | tuple):
        raise SpecError(f"@pytest.mark.crucible has fixed={declared!r}: write one or several of {', '.join(FACTORS)}")
    for name in names:
        if name not in FACTORS:
            hint = suggest(str(name), FACTORS, always=f"the factors are {', '.join(FACTORS)}")
            raise SpecError(f"@pytest.mark.crucible has fixed={declared!r}, and {name!r} is not a factor: {hint}")
    return tuple(dict.fromkeys(names))


def check_rounds(values: Mapping[str, Any]) -> tuple[tuple[bool, str], ...]:
    """Return whether the number of rounds is too small, and the sentence that reports it."""
    return (
        (
            values["rounds"] < 1,
            f"crucible_rounds is {values['rounds']}: write a whole number of at least 1, and of at least 3 for a verdict "
            "that counts noise between runs",
        ),
    )


def factor_lines(plan: Plan) -> Iterator[str]:
    """Yield a line for each random factor, whose effect on the intervals is known only after the run."""
    for name in plan.random_factors:
        # An arm that is one model has no noise between trainings.
        tables = [getattr(plan.draws(number), name) for number in range(len(plan.arms))]
        levels = min(count for count in tables if count > 1)
        if levels < FEWEST_LEVELS:
            few = f"a random factor needs {FEWEST_LEVELS} levels for a verdict"
            yield f"{levels} {name}: {few} (or fixed={name!r}: claims are about these)"
        else:
            yield f"{levels} {name}: their noise widens every interval; this run measures by how much"
