"""Fairness: metrics of a decision, the parities by name, twins of prompts, and mitigation.

    METRICS = fairness.decision(read_decision, favourable="approve")
    TARGETS = [fairness.equalized_odds(by="race", limit=0.05), fairness.disparate_impact(by="sex")]

`METRICS` and `TARGETS` go into the markers, as those of any other suite. Names are resolved on first use.
"""

from __future__ import annotations

from pytest_crucible.lazy_names import lazy_names

# Names are read from the stub beside this module.
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
