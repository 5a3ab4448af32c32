"""Files that tinker-cookbook's recipes need and write, and its evaluators as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_crucible.cookbook.evaluators import evaluator

__all__ = ["evaluator"]


def __getattr__(name: str) -> Any:
    # Imported when used: commands need none of the libraries that metrics import.
    if name != "evaluator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_crucible.cookbook.evaluators import evaluator

    return evaluator
