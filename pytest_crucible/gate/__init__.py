"""Verdicts from analyses: met, missed or undecided. Nothing here prints, imports pytest or reads data."""

from pytest_crucible.gate.decide import AdjustedPValues, decide_comparison, decide_target
from pytest_crucible.gate.verdicts import adjust_p_values, decide_verdicts, decide_with_others

__all__ = [
    "AdjustedPValues",
    "adjust_p_values",
    "decide_comparison",
    "decide_target",
    "decide_verdicts",
    "decide_with_others",
]
