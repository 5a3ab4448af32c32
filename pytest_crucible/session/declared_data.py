"""The datasets and metrics that markers name: each dataset is loaded once in a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.builtin import check_dataset_name, registered_metrics
from pytest_crucible.datasets import load_file, load_rows, select
from pytest_crucible.datasets.load import LargeFile, is_large
from pytest_crucible.datasets.release import Release
from pytest_crucible.datasets.strategies import StrategySamples
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.definition import as_metric
from pytest_crucible.records import Origin, Sample, Selection
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.session.marks import ExperimentMark


@dataclass(frozen=True, slots=True)
class Selected:
    """The samples of an experiment, and their source."""

    samples: Sequence[Sample]
    selection: Selection
    all_ids: Callable[[], Iterable[str]]
    """Returns the ids of the whole dataset."""


@dataclass
class DeclaredDatasets:
    """The datasets that a session has loaded."""

    config: pytest.Config
    seed: int = 0
    origins: dict[str, Origin] = field(default_factory=dict)
    """Where the samples of a named dataset come from, by its name."""
    _loaded: dict[Any, Sequence[Sample]] = field(default_factory=dict)
    _drawn: dict[Any, tuple[Sequence[Sample], int]] = field(default_factory=dict)

    def select(self, item: pytest.Item, mark: ExperimentMark) -> Selected:
        """Return the samples that a marker selects of its dataset. Raises DatasetError."""
        file = self._large_file(item, mark)
        if file is not None:
            return self._draw(file, mark)
        everything = self.samples(item, mark)
        selection = self._selection(mark, len(everything))
        return Selected(select(everything, selection), selection, lambda: (sample.id for sample in everything))

    def samples(self, item: pytest.Item, mark: ExperimentMark) -> Sequence[Sample]:
        """Return all samples of the dataset that a marker names."""
        dataset, fields = mark.dataset, mark.fields or {}
        if isinstance(dataset, str | Path):
            key = (str(dataset), str(item.path.parent), tuple(sorted(fields.items())))
            if key not in self._loaded:
                self._loaded[key] = self._load_named(str(dataset), item, fields)
            return self._loaded[key]
        if isinstance(dataset, StrategySamples):
            rows = dataset.rows(self.seed, id_field=fields.get("id", "id"))
            return load_rows(rows, name=item.name, fields=fields)
        if not (callable(dataset) or isinstance(dataset, Iterable)):
            raise SpecError(f"dataset={dataset!r} cannot be used: pass a file, a name, a list of samples or a function")
        return load_rows(dataset, name=item.name, fields=fields)

    def _load_named(self, name: str, item: pytest.Item, fields: Mapping[str, str]) -> Sequence[Sample]:
        rows = self.config.hook.pytest_crucible_dataset(config=self.config, name=name)
        if rows is not None:
            samples = load_rows(rows, name=name, fields=fields)
            if isinstance(rows, Release):
                self.origins[name] = rows.origin()
            return samples
        path = self._path(name, item)
        if not path.exists():
            check_dataset_name(name)
        return load_file(path, fields=fields)

    def _path(self, name: str, item: pytest.Item) -> Path:
        beside = item.path.parent / name
        return beside if beside.exists() else self.config.rootpath / name

    def _large_file(self, item: pytest.Item, mark: ExperimentMark) -> LargeFile | None:
        """Return the file of which only `limit` samples are needed; None if all samples have to be loaded."""
        if not isinstance(mark.dataset, str | Path) or mark.limit is None or mark.split or mark.fold or mark.stratify:
            return None
        name = str(mark.dataset)
        path = self._path(name, item)
        if not is_large(path) or self.config.hook.pytest_crucible_dataset(config=self.config, name=name) is not None:
            return None
        return LargeFile(path, mark.fields or {})

    def _draw(self, file: LargeFile, mark: ExperimentMark) -> Selected:
        assert mark.limit is not None
        key = (file.path, tuple(sorted(file.fields.items())), mark.limit)
        if key not in self._drawn:
            self._drawn[key] = file.draw(mark.limit, seed=self.seed)
        samples, total = self._drawn[key]
        return Selected(samples, self._selection(mark, total), lambda: (sample_id for _, sample_id in file.ids()))

    def _selection(self, mark: ExperimentMark, of: int) -> Selection:
        parts = {name: getattr(mark, name) for name in ("split", "fold", "limit", "stratify")}
        return Selection(of=of, seed=self.seed, **parts)


def declared_metrics(config: pytest.Config, declared: Sequence[Any]) -> tuple[Metric, ...]:
    """Return the metrics of a marker, with their side values and complete versions. Raises SpecError."""
    return tuple(metric.with_version() for metric in named_metrics(config, declared))


def named_metrics(config: pytest.Config, declared: Sequence[Any]) -> tuple[Metric, ...]:
    """Return the metrics of a marker as they were written: no judge or scorer is looked up. Raises SpecError.

    Strings are names of registered metrics.
    """
    registered = registered_metrics(config)
    metrics: dict[str, Metric] = {}
    for entry in declared:
        first = _metric(entry, registered)
        for metric in (first, *first.beside):
            if metric.name in metrics:
                raise SpecError(f"metric {metric.name!r} is given twice: give each metric a name of its own")
            metrics[metric.name] = metric
    return tuple(metrics.values())


def _metric(entry: Any, registered: Mapping[str, Any]) -> Metric:
    if not isinstance(entry, str):
        return as_metric(entry)
    if entry not in registered:
        hint = suggest(entry, registered, always="`crucible metrics` lists what is")
        raise SpecError(f"metric {entry!r} is not registered: {hint}")
    metric: Metric = load_object(registered[entry])
    return metric
