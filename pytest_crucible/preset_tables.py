"""What a project's configuration says to the presets: so far the rules of the antagonist."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_crucible.errors import SpecError
from pytest_crucible.plan.adapters import read_table


def configure(root: Path) -> None:
    """Read the tables of the presets, if there are any. Raises SpecError for what cannot be meant."""
    table = read_table(root, "antagonist")
    if not table and "pytest_crucible.cns3.values" not in sys.modules:
        return
    from pytest_crucible.cns3.antagonist import DEFAULT_RULES, read_rules
    from pytest_crucible.cns3.values import use_rules

    if not table:
        use_rules(DEFAULT_RULES)  # another session of this process may have had its own
        return
    if set(table) != {"rules"} or not isinstance(table["rules"], list):
        raise SpecError("[antagonist] has rules and nothing else: write one table a rule, as in [[antagonist.rules]]")
    use_rules(read_rules(table["rules"]))
