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
    hide, named = key_redactor(config), [item for item in items if "[" in item.name and hasattr(item, "callspec")]
    texts = {item: _as_written(item.name.partition("[")[2]) for item in named}
    # All first: what one name shows to be a finding, another may hold without it.
    for text in texts.values():
        hide(text)
    for item in named:
        if hide(texts[item]) != texts[item]:
            _rename(item, "-".join(f"{name}{number}" for name, number in item.callspec.indices.items()))


def _as_written(name: str) -> str:
    """Return a name without the escapes that pytest writes for characters beyond ASCII."""
    if not ("\\" in name and name.isascii()):
        return name
    try:
        return name.encode().decode("unicode_escape")
    except UnicodeDecodeError:
        return name


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
