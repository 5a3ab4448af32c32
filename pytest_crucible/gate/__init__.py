"""Deciding: analyses to verdicts of met, missed or undecided. No printing, no pytest and no data: only what was computed."""

from pytest_crucible.gate.rulings import comparison_ruling, target_ruling
from pytest_crucible.gate.verdicts import adjust, judge

__all__ = ["adjust", "comparison_ruling", "judge", "target_ruling"]
