"""Items that run an experiment's test again, under a name of their own: `test_x.py::test_schema@dev`.

Fixtures, -x, --durations and reports treat each as a test.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest


class _Repeated(NamedTuple):
    nodeid: str
    """Of the item that was collected."""
    number: int


_REPEATED = pytest.StashKey[_Repeated]()


def collected_nodeid(item: pytest.Item) -> str:
    """Return the collected nodeid of the item, which is that of its experiment."""
    repeated = item.stash.get(_REPEATED, None)
    return item.nodeid if repeated is None else repeated.nodeid


def repeat_number(item: pytest.Item) -> int | None:
    """Return the number of a repeated item; None for one that was collected."""
    repeated = item.stash.get(_REPEATED, None)
    return None if repeated is None else repeated.number


def repeat_item(item: pytest.Function, name: str, number: int) -> pytest.Function:
    """Return another item of the same test, named `TEST@name`."""
    again: pytest.Function = type(item).from_parent(
        item.parent,
        name=f"{item.name}@{name}",
        callspec=getattr(item, "callspec", None),
        fixtureinfo=item._fixtureinfo,
        originalname=item.originalname,
    )
    _set_nodeid(again, f"{item.nodeid}@{name}")
    # Also the markers that a conftest.py has added since it was collected.
    again.own_markers[:] = item.own_markers
    again.keywords.update({mark.name: mark for mark in item.own_markers})
    again.stash[_REPEATED] = _Repeated(item.nodeid, number)
    return again


def _set_nodeid(item: Any, nodeid: str) -> None:
    """Name an item: pytest makes the nodeid of a function from its original name, without the addition."""
    # Until pytest 9.1 it is a text, and then a NodeId.
    if hasattr(item, "_id"):
        item._id = type(item._id).parse(nodeid)
    else:
        item._nodeid = nodeid
