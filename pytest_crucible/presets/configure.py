"""Configures the presets from a project's configuration: the rules of the antagonist."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.records.errors import SpecError


def configure(root: Path) -> Callable[[], object]:
    """Read the presets' tables; return a function that restores the former settings. Raises SpecError."""
    table = read_table(root, "antagonist")
    if not table and "pytest_crucible.presets.cns3.rule_values" not in sys.modules:
        return lambda: None
    from pytest_crucible.presets.cns3.antagonist import DEFAULT_RULES, read_rules
    from pytest_crucible.presets.cns3.rule_values import use_rules

    if not table:
        # A session that runs within another one must not inherit its rules.
        return use_rules(DEFAULT_RULES)
    if set(table) != {"rules"} or not isinstance(table["rules"], list):
        raise SpecError("[antagonist] has rules and nothing else: write one table a rule, as in [[antagonist.rules]]")
    return use_rules(read_rules(table["rules"]))
