"""Parses comparisons as `ab_compare` and the command line write them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pytest_crucible.plan.targets import parse_measure
from pytest_crucible.records import Contrast, Measure
from pytest_crucible.records.errors import SpecError

ALTERNATIVES = ("regression", "non-inferior", "superior", "equivalent")


def parse_contrast(metric: Any, margin: float | None = None, alternative: str | None = None) -> Contrast:
    """Return the comparison of `ab_compare(metric, margin=..., alternative=...)`, without its baseline. Raises SpecError."""
    what = f"ab_compare({metric!r})"
    if not isinstance(metric, str):
        raise SpecError(f"{what} compares a {type(metric).__name__}: name the metric by a string")
    measure = parse_measure(metric, what)
    if margin is not None and (isinstance(margin, bool) or not isinstance(margin, int | float) or not margin > 0):
        raise SpecError(f"{what} has margin={margin!r}: write a positive number in the metric's units, such as 0.05")
    chosen = alternative or ("regression" if margin is None else "non-inferior")
    if chosen not in ALTERNATIVES:
        raise SpecError(f"{what} has alternative={alternative!r}: write one of {', '.join(ALTERNATIVES)}")
    if margin is None and chosen in ("non-inferior", "equivalent"):
        raise SpecError(f"{what} has alternative={chosen!r} without a margin: add one, for example margin=0.05")
    if margin is not None and chosen == "regression":
        raise SpecError(f"{what} has a margin and alternative='regression': leave one of them out")
    return Contrast(**_fields(measure), baseline="", alternative=chosen, margin=margin)  # type: ignore[arg-type]  # one of ALTERNATIVES


def _fields(measure: Measure) -> dict[str, Any]:
    return {item.name: getattr(measure, item.name) for item in fields(measure)}
