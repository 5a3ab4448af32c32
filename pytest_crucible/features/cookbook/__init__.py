"""Evaluators of tinker-cookbook as metrics: `from pytest_crucible import cookbook`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Feature

if TYPE_CHECKING:
    from pytest_crucible.features.cookbook.evaluators import evaluator

__all__ = ["evaluator"]

FEATURE = Feature("cookbook")


def __getattr__(name: str) -> Any:
    # Imported when used: a session without evaluators needs none of the libraries that metrics import.
    if name != "evaluator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_crucible.features.cookbook.evaluators import evaluator

    return evaluator
