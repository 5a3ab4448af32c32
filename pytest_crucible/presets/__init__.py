"""Presets: metrics, targets and datasets of one project, built on the public hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.records.errors import SpecError

EXPORTS: Mapping[str, str] = {"findings": "pytest_crucible.presets.cns3.antagonist_section:findings"}
"""Tables of `crucible export`: name -> function of a run store and a run."""


def configure(root: Path) -> Callable[[], object]:
    """Read the presets' tables; return a function that restores the former settings. Raises SpecError."""
    table = read_table(root, "antagonist")
    if not table and "pytest_crucible.presets.cns3.antagonist" not in sys.modules:
        return lambda: None
    from pytest_crucible.presets.cns3.antagonist import DEFAULT_RULES, read_rules, use_rules

    if not table:
        # A session that runs within another one must not inherit its rules.
        return use_rules(DEFAULT_RULES)
    if set(table) != {"rules"} or not isinstance(table["rules"], list):
        raise SpecError("[antagonist] has rules and nothing else: write one table a rule, as in [[antagonist.rules]]")
    return use_rules(read_rules(table["rules"]))
