"""The reference procedures by name: (input, options) of a case -> the same keys that the case expects.

Each `answers_<room>.py` beside this file answers for one room of `pytest_crucible.stats`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
if str(HERE) not in sys.path:  # this file is also loaded by its path alone
    sys.path.insert(0, str(HERE))

from answering import Answer, Case  # noqa: E402

PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {}
for _path in sorted(HERE.glob("answers_*.py")):
    PROCEDURES |= import_module(_path.stem).PROCEDURES

METHODS = {
    "mcnemar": {"exact"},
    "p_adjust": {"bonferroni", "holm", "BH"},
    "proportion_ci": {"wilson", "clopper_pearson", "wilson_cc"},
    "two_proportions_ci": {"miettinen_nurminen"},
    "paired_proportions_ci": {"tango"},
    "confseq": {"betting_cs", "hedged_cs"},
    "confseq_paired": {"betting_cs", "hedged_cs"},
    "mann_whitney": {"scipy's choice"},
    "wilcoxon_signed_rank": {"scipy's choice"},
}
"""Procedures with several methods in the literature, and those that the package has."""


def is_offered(case: Case) -> bool:
    """Return whether the package has the procedure of a case, by the method and for the missing values that it asks for."""
    options, name = case["options"], case["procedure"]
    method = options.get("function", options.get("method"))
    if name not in PROCEDURES or options.get("nan_policy", "raise") != "raise":
        return False
    return "raises" in case["expected"] or method is None or method in METHODS.get(name, {method})
