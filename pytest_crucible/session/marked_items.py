"""The items of a session that are experiments, or samples of joined tests, before -k, -m and --lf remove any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from pytest_crucible.session.joined_tests import function_nodeid, group_by_function, unique_ids
from pytest_crucible.session.markers import is_experiment
from pytest_crucible.session.repeated_items import collected_nodeid


class MarkedItems:
    """Remembers which items were collected."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        """The function of each experiment, by nodeid."""
        self.joined_ids: dict[str, list[str]] = {}
        """The ids of the samples of each joined test, by the nodeid of its function."""

    def remember(self, items: Sequence[pytest.Item]) -> None:
        """Remember all marked items."""
        for item in items:
            if is_experiment(item) and isinstance(item, pytest.Function):
                # pytest-asyncio wraps `item.obj` when it runs; this is the function as it was written.
                self.functions[item.nodeid] = item.function
        self.joined_ids = {nodeid: unique_ids(group) for nodeid, group in group_by_function(items).items()}

    def experiments(self, items: Iterable[pytest.Item]) -> list[pytest.Function]:
        """Return those items that are experiments."""
        return [item for item in items if item.nodeid in self.functions and isinstance(item, pytest.Function)]

    def experiment_of(self, item: pytest.Item) -> str | None:
        """Return the nodeid of the experiment that an item is, or is a sample of; None for any other test."""
        function = function_nodeid(item)
        # Also when planning it failed: a worker has to report why.
        if function in self.joined_ids:
            return function
        nodeid = collected_nodeid(item)
        return nodeid if nodeid in self.functions else None

    def without(self, planned: Iterable[str]) -> list[str]:
        """Return the experiments and joined tests that are not planned: without them a run is not whole."""
        return sorted({*self.functions, *self.joined_ids} - {*planned})
