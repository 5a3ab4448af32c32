"""Fairness: metrics of a decision, the parities by name, twins of prompts, and mitigation.

    METRICS = fairness.decision(read_decision, favourable="approve")
    TARGETS = [fairness.equalized_odds(by="race", limit=0.05), fairness.disparate_impact(by="sex")]

`METRICS` and `TARGETS` go into the markers, as those of any other suite. Names are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_crucible.fairness.decisions import decision as decision
    from pytest_crucible.fairness.fitted_thresholds import thresholds as thresholds
    from pytest_crucible.fairness.parities import calibration as calibration
    from pytest_crucible.fairness.parities import demographic_parity as demographic_parity
    from pytest_crucible.fairness.parities import disparate_impact as disparate_impact
    from pytest_crucible.fairness.parities import equal_opportunity as equal_opportunity
    from pytest_crucible.fairness.parities import equalized_odds as equalized_odds
    from pytest_crucible.fairness.parities import predictive_parity as predictive_parity
    from pytest_crucible.fairness.twin_samples import twins as twins
    from pytest_crucible.fairness.weights import reweigh as reweigh

_PARITIES = (
    *("calibration", "demographic_parity", "disparate_impact"),
    *("equal_opportunity", "equalized_odds", "predictive_parity"),
)
# No module has the name of a function that it holds: importing it would replace the function.
_MODULES = {
    "decision": "decisions",
    "reweigh": "weights",
    "thresholds": "fitted_thresholds",
    "twins": "twin_samples",
    **dict.fromkeys(_PARITIES, "parities"),
}
__all__ = [
    "calibration",
    "decision",
    "demographic_parity",
    "disparate_impact",
    "equal_opportunity",
    "equalized_odds",
    "predictive_parity",
    "reweigh",
    "thresholds",
    "twins",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
