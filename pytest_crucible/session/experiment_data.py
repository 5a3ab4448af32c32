"""The samples of experiments: each dataset is read once, and features may leave samples out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.datasets import identify
from pytest_crucible.datasets.selection import selection_text
from pytest_crucible.records import Dataset
from pytest_crucible.records.plan import PlanValue
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.session.declared_data import DeclaredDatasets, Selected
from pytest_crucible.session.marks import ExperimentMark


@dataclass(kw_only=True)
class ExperimentData:
    """The samples of an experiment. The hook `pytest_crucible_select` may leave some out, warn, and add to the plan."""

    item: pytest.Function
    mark: ExperimentMark
    selected: Selected
    """The samples that the marker selects."""
    dataset: Dataset
    """Without the samples that are left out."""
    warnings: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    """Values of features in the plan, as plain data."""

    def plan_value(self, name: PlanValue[Any], value: Any) -> None:
        """Keep a value of a feature in the plan; its default is not stored."""
        if value != name.default:
            self.values[name.name] = to_plain(value)


class SessionDatasets:
    """Selects the samples of a session's experiments."""

    def __init__(self, config: pytest.Config, seed: int) -> None:
        self._hook = config.hook
        self._datasets = DeclaredDatasets(config, seed)
        self._whole: dict[str, tuple[Selected, Dataset]] = {}

    def whole(self, item: pytest.Item, mark: ExperimentMark) -> tuple[Selected, Dataset]:
        """Return the samples that a marker selects, before any is left out, and the dataset that they are."""
        # Once for each test: a dataset may be an iterator, which is empty the second time.
        if item.nodeid not in self._whole:
            selected = self._datasets.select(item, mark)
            self._whole[item.nodeid] = selected, identify(_dataset_name(item, mark.dataset), selected.samples)
        return self._whole[item.nodeid]

    def select(self, item: pytest.Function, mark: ExperimentMark) -> ExperimentData:
        """Return the samples that an experiment sends."""
        selected, dataset = self.whole(item, mark)
        data = ExperimentData(item=item, mark=mark, selected=selected, dataset=dataset)
        self._hook.pytest_crucible_select(data=data)
        return data

    def samples_facts(self, data: ExperimentData) -> dict[str, Any]:
        """Return the fields of a plan about the origin of its samples."""
        return {
            "selected": len(data.dataset.samples),
            "origin": self._datasets.origins.get(data.dataset.name),
            "selection": data.selected.selection if selection_text(data.selected.selection) else None,
        }


def _dataset_name(item: pytest.Item, dataset: Any) -> str:
    return str(dataset) if isinstance(dataset, str | Path) else item.name
