"""The samples and metrics of experiments: each dataset is loaded once in a session, and features may leave samples out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.adapters.kinds import kind_of_arm
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.builtin import check_dataset_name, registered_metrics
from pytest_crucible.datasets import identify, load_file, load_rows, select
from pytest_crucible.datasets.equal_inputs import group_equal_inputs
from pytest_crucible.datasets.load import LargeFile, is_large
from pytest_crucible.datasets.release import Release
from pytest_crucible.datasets.selection import selection_text
from pytest_crucible.datasets.strategies import StrategySamples
from pytest_crucible.features import feature_of, left_out_sentence
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.definition import as_metric
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Dataset, MetricFacts, Origin, Sample, Selection
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.plan import PlanValue
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.session.markers import sends_requests
from pytest_crucible.session.marks import ExperimentMark, scored_facts


@dataclass(frozen=True, slots=True)
class Selected:
    """The samples of an experiment, and their source."""

    samples: Sequence[Sample]
    selection: Selection
    all_ids: Callable[[], Iterable[str]]
    """Returns the ids of the whole dataset."""


class SessionDatasets:
    """Selects the samples of a session's experiments."""

    def __init__(self, config: pytest.Config, seed: int = 0, equal_inputs: str = "group") -> None:
        self._config = config
        self._seed = seed
        self._equal_inputs = equal_inputs
        self._origins: dict[str, Origin] = {}
        """Where the samples of a named dataset come from, by its name."""
        self._loaded: dict[Any, Sequence[Sample]] = {}
        self._drawn: dict[Any, tuple[Sequence[Sample], int]] = {}
        self._whole: dict[str, tuple[Selected, Dataset]] = {}

    def whole(self, item: pytest.Item, mark: ExperimentMark) -> tuple[Selected, Dataset]:
        """Return the samples that a marker selects, before any is left out, and the dataset that they are. Raises DatasetError."""
        # Once for each test: a dataset may be an iterator, which is empty the second time.
        if item.nodeid not in self._whole:
            name = str(mark.dataset) if isinstance(mark.dataset, str | Path) else item.name
            selected = self._repair(item, mark, self._select(item, mark))
            self._whole[item.nodeid] = selected, identify(name, selected.samples)
        return self._whole[item.nodeid]

    def select(self, item: pytest.Function, mark: ExperimentMark) -> ExperimentData:
        """Return the samples that an experiment sends, in the groups by which they count."""
        selected, dataset = self.whole(item, mark)
        data = ExperimentData(item=item, mark=mark, selected=selected, dataset=dataset)
        self._config.hook.pytest_crucible_select(data=data)
        data.rows_sha256 = data.dataset.sha256
        if self._equal_inputs == "group":
            data.dataset = group_equal_inputs(data.dataset)
        return data

    def samples_facts(self, data: ExperimentData) -> dict[str, Any]:
        """Return the fields of a plan about the origin of its samples."""
        return {
            "selected": len(data.dataset.samples),
            "origin": self._origins.get(data.dataset.name),
            "selection": data.selected.selection if selection_text(data.selected.selection) else None,
        }

    def _select(self, item: pytest.Item, mark: ExperimentMark) -> Selected:
        file = self._large_file(item, mark)
        if file is not None:
            return self._draw(file, mark)
        everything = self.samples(item, mark)
        selection = self._selection(mark, len(everything))
        return Selected(select(everything, selection), selection, lambda: (sample.id for sample in everything))

    def _repair(self, item: pytest.Item, mark: ExperimentMark, selected: Selected) -> Selected:
        if mark.repairs is None:
            return selected
        # Imported here: few experiments repair expected values.
        from pytest_crucible.datasets.labels import repair_expected, split_person

        name, person = split_person(mark.repairs)
        samples = repair_expected(selected.samples, self._path(name, item), person, item.nodeid)
        return replace(selected, samples=samples)

    def samples(self, item: pytest.Item, mark: ExperimentMark) -> Sequence[Sample]:
        """Return all samples of the dataset that a marker names."""
        dataset, fields = mark.dataset, mark.fields or {}
        if isinstance(dataset, str | Path):
            key = (str(dataset), str(item.path.parent), tuple(sorted(fields.items())))
            if key not in self._loaded:
                self._loaded[key] = self._load_named(str(dataset), item, fields)
            return self._loaded[key]
        if isinstance(dataset, StrategySamples):
            rows = dataset.rows(self._seed, id_field=fields.get("id", "id"))
            return load_rows(rows, name=item.name, fields=fields)
        if not (callable(dataset) or isinstance(dataset, Iterable)):
            raise SpecError(f"dataset={dataset!r} cannot be used: pass a file, a name, a list of samples or a function")
        return load_rows(dataset, name=item.name, fields=fields)

    def _load_named(self, name: str, item: pytest.Item, fields: Mapping[str, str]) -> Sequence[Sample]:
        rows = self._config.hook.pytest_crucible_dataset(config=self._config, name=name)
        if rows is not None:
            samples = load_rows(rows, name=name, fields=fields)
            if isinstance(rows, Release):
                self._origins[name] = rows.origin()
            return samples
        path = self._path(name, item)
        if not path.exists():
            check_dataset_name(name)
        return load_file(path, fields=fields)

    def _path(self, name: str, item: pytest.Item) -> Path:
        beside = item.path.parent / name
        return beside if beside.exists() else self._config.rootpath / name

    def _large_file(self, item: pytest.Item, mark: ExperimentMark) -> LargeFile | None:
        """Return the file of which only `limit` samples are needed; None if all samples have to be loaded."""
        if not isinstance(mark.dataset, str | Path) or mark.limit is None or mark.split or mark.fold or mark.stratify:
            return None
        name = str(mark.dataset)
        path = self._path(name, item)
        if not is_large(path) or self._config.hook.pytest_crucible_dataset(config=self._config, name=name) is not None:
            return None
        return LargeFile(path, mark.fields or {})

    def _draw(self, file: LargeFile, mark: ExperimentMark) -> Selected:
        assert mark.limit is not None
        key = (file.path, tuple(sorted(file.fields.items())), mark.limit)
        if key not in self._drawn:
            self._drawn[key] = file.draw(mark.limit, seed=self._seed)
        samples, total = self._drawn[key]
        return Selected(samples, self._selection(mark, total), lambda: (sample_id for _, sample_id in file.ids()))

    def _selection(self, mark: ExperimentMark, of: int) -> Selection:
        parts = {name: getattr(mark, name) for name in ("split", "fold", "limit", "stratify")}
        return Selection(of=of, seed=self._seed, **parts)


@dataclass(kw_only=True)
class ExperimentData:
    """The samples of an experiment. The hook `pytest_crucible_select` may leave some out, warn, and add to the plan."""

    item: pytest.Function
    mark: ExperimentMark
    selected: Selected
    """The samples that the marker selects."""
    dataset: Dataset
    """Without the samples that are left out."""
    rows_sha256: str = ""
    """The hash of the dataset as its rows are: replies do not depend on the groups that equal inputs make."""
    warnings: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    """Values of features in the plan, as plain data."""

    def plan_value(self, name: PlanValue[Any], value: Any) -> None:
        """Keep a value of a feature in the plan; its default is not stored."""
        if value != name.default:
            self.values[name.name] = to_plain(value)


# -- metrics ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExperimentMetrics:
    """Metrics that score replies, and the facts of these and of the test's own numbers."""

    metrics: tuple[Metric, ...]
    facts: tuple[MetricFacts, ...]


def find_metrics(
    item: pytest.Function,
    mark: ExperimentMark,
    arms: Sequence[OpenedArm],
    samples: Sequence[Sample],
    takes: Collection[str],
) -> ExperimentMetrics:
    """Return the metrics of an experiment whose function takes these arguments.

    Raises SpecError for metrics that are unknown or cannot score these samples.
    """
    declared = declared_metrics(item.config, mark.metrics)
    # A test that scores itself may return nothing that these could score.
    kinds = [kind_of_arm(arm.arm) for arm in arms] if sends_requests(takes) else []
    of_kinds = {metric.name: metric for kind in kinds for metric in kind.find_metrics(samples)}
    # A metric that the suite declares replaces a kind's metric of the same name.
    names = {metric.name for metric in declared}
    metrics = (*declared, *(metric for name, metric in of_kinds.items() if name not in names))
    _check_features(metrics, item.config.pluginmanager.is_blocked)
    problem = next(filter(None, (metric.check(samples) for metric in metrics if metric.check is not None)), "")
    if problem:
        raise SpecError(problem)
    scored = _read_scored_facts(item, "score" in takes)
    return ExperimentMetrics(metrics, (*(metric.facts for metric in metrics), *scored))


def _check_features(metrics: Sequence[Metric], is_left_out: Callable[[str], bool]) -> None:
    """Raise SpecError for a metric of a feature that is left out."""
    for metric in metrics:
        feature = feature_of(getattr(metric.function, "__module__", None) or "")
        if feature is not None and is_left_out(feature.plugin_name):
            raise SpecError(left_out_sentence(f"metric {metric.name!r}", feature))


def _read_scored_facts(item: pytest.Function, takes_score: bool) -> tuple[MetricFacts, ...]:
    scored = scored_facts(item)
    if scored and not takes_score:
        marker = next(name for name in ("score_bounds", "score_reach") if item.get_closest_marker(name))
        raise SpecError(
            f"@pytest.mark.{marker} is about numbers that a test scores itself, and {item.originalname} does not take "
            f"the argument score: add it, or give the {marker.removeprefix('score_')} to the metric, as in "
            f"@metric({'bounds=(0, 1)' if marker == 'score_bounds' else 'reach=0.25'})"
        )
    return tuple(scored)


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
