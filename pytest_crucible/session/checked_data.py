"""The samples of experiments: each dataset is read once, and its data checks run before any request is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_crucible.adapters.context import files_folder
from pytest_crucible.datasets import identify
from pytest_crucible.datasets.check import CheckContext
from pytest_crucible.datasets.selection import selection_text
from pytest_crucible.records import Dataset
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.data_checks import DataChecks
from pytest_crucible.session.declared_data import DeclaredDatasets, Selected
from pytest_crucible.session.marks import ExperimentMark, data_checks


class CheckedData(NamedTuple):
    """The samples of an experiment, and the results of its data checks."""

    selected: Selected
    dataset: Dataset
    """Without the samples that a check drops."""
    results: tuple[CheckResult, ...]


class CheckedDatasets:
    """Selects the samples of a session's experiments and checks them."""

    def __init__(self, config: pytest.Config, settings: Settings, checks: DataChecks) -> None:
        self._config = config
        self._settings = settings
        self._checks = checks
        self._datasets = DeclaredDatasets(config, settings.seed)
        self._whole: dict[str, tuple[Selected, Dataset]] = {}

    def whole(self, item: pytest.Item, mark: ExperimentMark) -> tuple[Selected, Dataset]:
        """Return the samples that a marker selects, before a check drops any, and the dataset that they are."""
        # Once for each test: a dataset may be an iterator, which is empty the second time.
        if item.nodeid not in self._whole:
            selected = self._datasets.select(item, mark)
            self._whole[item.nodeid] = selected, identify(_dataset_name(item, mark.dataset), selected.samples)
        return self._whole[item.nodeid]

    def check_data(self, item: pytest.Function, mark: ExperimentMark) -> CheckedData:
        """Return the samples that a marker selects, as a dataset, and the results of its data checks."""
        checks, (selected, dataset) = data_checks(item), self.whole(item, mark)
        if not checks or not self.runs_checks:
            return CheckedData(selected, dataset, ())
        context = self._check_context(item)
        stem = "" if isinstance(mark.dataset, str | Path) else item.name
        # First, because the other checks judge the samples that remain.
        drops = [check for check in checks if check.drops]
        kept, dropped = self._checks.drop_failing(item.nodeid, drops, selected.samples, context, stem=stem)
        dataset = identify(dataset.name, kept)
        others = [check for check in checks if not check.drops]
        results = self._checks.run(item.nodeid, others, dataset, context, stem=stem, before=dropped)
        return CheckedData(selected, dataset, results)

    @property
    def runs_checks(self) -> bool:
        """True if the session runs data checks: not if it sends nothing, nor for --crucible-sample."""
        settings = self._settings
        is_dry = settings.option("estimate") or settings.sample is not None or self._config.option.collectonly
        return settings.checks != "off" and not is_dry

    def samples_facts(self, data: CheckedData) -> dict[str, Any]:
        """Return the fields of a plan about the origin of its samples."""
        return {
            "selected": len(data.dataset.samples),
            "origin": self._datasets.origins.get(data.dataset.name),
            "selection": data.selected.selection if selection_text(data.selected.selection) else None,
            "checks": data.results,
        }

    def _check_context(self, item: pytest.Function) -> CheckContext:
        """Return the folders of a test's checks: files next to the test, and earlier comparisons next to the run store."""
        cache = files_folder(self._config.rootpath, self._settings.store) / "contamination"
        return CheckContext(folder=item.path.parent, cache=cache)


def _dataset_name(item: pytest.Item, dataset: Any) -> str:
    return str(dataset) if isinstance(dataset, str | Path) else item.name
