"""Hides parameters in the names of tests: a name is in the run store, pytest's cache, `--durations` and temporary folders too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pytest_crucible.session.redact_reports import key_redactor


def hide_parameters(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Give items new names whose parameters hold what is redacted: `test_a[anna@example.com]` becomes `test_a[name0]`.

    pytest names parameters without a readable id in this way, by argument and number. Equal in all runs and workers, the names
    are those that xdist, --lf and baselines recognise tests by. `-k` still finds the old ones.
    """
    hide = key_redactor(config)
    for item in items:
        spec = getattr(item, "callspec", None)
        if spec is not None and hide(spec.id) != spec.id:
            _rename(item, "-".join(f"{name}{number}" for name, number in spec.indices.items()))


def _rename(item: Any, parameters: str) -> None:
    name, _, _ = item.name.partition("[")
    before, item.name = item.name, f"{name}[{parameters}]"
    item.extra_keyword_matches.add(before)
    nodeid = item.nodeid.removesuffix(before) + item.name
    # From pytest 9.2 on an object; before, a text.
    if hasattr(item, "_nodeid"):
        item._nodeid = nodeid
    else:
        item._id = type(item._id).parse(nodeid)
