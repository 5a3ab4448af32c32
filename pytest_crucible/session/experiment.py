"""A marked test function as an experiment: everything that is known before the first request is sent."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends import KnowsItsSamples
from pytest_crucible.builtin import check_dataset_name, registered_metrics
from pytest_crucible.datasets import identify, load_file, load_rows, select
from pytest_crucible.datasets.release import Release
from pytest_crucible.datasets.selection import selection_text
from pytest_crucible.markers import ExperimentMark, comparisons, experiment_mark, targets
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.definition import as_metric
from pytest_crucible.metrics.ensemble_members import ensemble_facts
from pytest_crucible.plan.design import check_expected, contrasts_with_baselines, group_count, plan_metrics
from pytest_crucible.plan.fingerprint import fingerprint
from pytest_crucible.records import Contrast, Dataset, Origin, Plan, Reasoning, Sample, Selection
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.settings import Settings

# These arguments differ between the calls of one function, which fixtures cannot; all others are ordinary fixtures.
INJECTED = ("sample", "sampler", "score")


class CrucibleWarning(pytest.PytestWarning):
    """A suspicious but valid part of a suite, such as recorded answers to unknown samples."""


@dataclass(frozen=True)
class Experiment:
    """One marked function, planned."""

    function: Callable[..., Any]
    plan: Plan
    dataset: Dataset
    metrics: tuple[Metric, ...]
    opened_arms: tuple[OpenedArm, ...]
    timeout_s: float | None
    is_async: bool
    warnings: tuple[str, ...]
    reasoning: Reasoning = "strip"
    """The setting `crucible_reasoning`."""

    def position(self, sample_id: str) -> int | None:
        """Return the position of a sample in the dataset; None for an unknown id."""
        ids = [sample.id for sample in self.dataset.samples]
        return ids.index(sample_id) if sample_id in ids else None

    @property
    def injected(self) -> frozenset[str]:
        return frozenset(INJECTED) & frozenset(inspect.signature(self.function).parameters)

    def fixture_values(self, item: pytest.Function) -> dict[str, Any]:
        """Return the function's own fixtures, without the arguments that differ between calls."""
        parameters = inspect.signature(self.function).parameters
        return {name: item.funcargs[name] for name in parameters if name in item.funcargs and name not in INJECTED}

    def bind_function(self, item: pytest.Function) -> Callable[..., Any]:
        """Return the function, bound to its instance if it is a method."""
        method = item.instance is not None and "self" in inspect.signature(self.function).parameters
        return self.function.__get__(item.instance) if method else self.function


@dataclass
class ExperimentPlanner:
    """Plans experiments; datasets and metrics are loaded once for a session."""

    config: pytest.Config
    settings: Settings
    opened_arms: tuple[OpenedArm, ...]
    _datasets: dict[Any, Sequence[Sample]] = field(default_factory=dict)
    _origins: dict[str, Origin] = field(default_factory=dict)

    def plan_experiment(self, item: pytest.Function, function: Callable[..., Any]) -> Experiment:
        """Return a marked item as an experiment. Raises SpecError for invalid markers or arguments."""
        _check_fixtures(item)
        mark = experiment_mark(item)
        takes = inspect.signature(function).parameters
        self._check_adapter("sampler" in takes)
        everything = self.samples(item, mark)
        chosen = self._selection(mark, len(everything))
        dataset = identify(_dataset_name(item, mark.dataset), select(everything, chosen))
        metrics = self.metrics(mark.metrics)
        open_metrics = "score" in takes
        contrasts_of_marks = comparisons(item)
        quality_targets = targets(item)
        arms = self._arms_to_query(contrasts_of_marks)
        declared = [arm.facts for arm in metrics]
        further = ensemble_facts(declared, dict.fromkeys(name for arm in arms for name in arm.arm.members))
        facts = plan_metrics(declared, quality_targets, contrasts_of_marks, open_metrics=open_metrics, further=further)
        check_expected(quality_targets, contrasts_of_marks, dataset.samples)
        timeout_s = (self.settings.timeout if mark.timeout is None else float(mark.timeout)) or None
        plan = Plan(
            **_location(item),
            dataset=dataset.name,
            dataset_sha256=dataset.sha256,
            planned=len(dataset.samples),
            selected=len(dataset.samples),
            groups=group_count(dataset),
            epochs=mark.epochs,
            arms=tuple(arm.arm for arm in arms),
            metrics=facts,
            targets=quality_targets,
            contrasts=contrasts_with_baselines(contrasts_of_marks, [arm.arm for arm in arms]),
            fingerprint=fingerprint(
                dataset=dataset.sha256,
                function=function,
                case=item.callspec.id if hasattr(item, "callspec") else "",
                metrics=metrics,
                sampling={"timeout_s": timeout_s},
                owner=item.cls,
                reasoning=self.settings.reasoning,
            ),
            open_metrics=open_metrics,
            origin=self._origins.get(dataset.name),
            selection=chosen if selection_text(chosen) else None,
        )
        warnings = tuple(_coverage(arms, everything, dataset)) if "sampler" in takes else ()
        is_async = inspect.iscoroutinefunction(function)
        return Experiment(
            function, plan, dataset, metrics, arms, timeout_s, is_async, warnings, self.settings.reasoning
        )

    def plan_joined_test(
        self, nodeid: str, items: Sequence[pytest.Function], sample_ids: Sequence[str], selected: int
    ) -> Plan:
        """Return the plan of an ordinary parametrised test whose items are the samples."""
        item = items[0]
        contrasts_of_marks, quality_targets = comparisons(item), targets(item)
        arms = self._arms_to_query(contrasts_of_marks)
        dataset = identify(item.originalname, [Sample(id=arm, input=arm) for arm in sample_ids])
        check_expected(quality_targets, contrasts_of_marks, dataset.samples)
        return Plan(
            **{**_location(item), "nodeid": nodeid},
            dataset=dataset.name,
            dataset_sha256=dataset.sha256,
            planned=len(sample_ids),
            selected=selected,
            groups=None,
            epochs=1,
            arms=tuple(arm.arm for arm in arms),
            metrics=plan_metrics([], quality_targets, contrasts_of_marks, open_metrics=True),
            targets=quality_targets,
            contrasts=contrasts_with_baselines(contrasts_of_marks, [arm.arm for arm in arms]),
            fingerprint=fingerprint(dataset=dataset.sha256, function=item.function, case="", metrics=(), sampling={}),
            open_metrics=True,
            by_item=True,
        )

    def samples(self, item: pytest.Item, mark: ExperimentMark) -> Sequence[Sample]:
        """Return all samples of the dataset that a marker names."""
        dataset, fields = mark.dataset, mark.fields or {}
        if isinstance(dataset, str | Path):
            key = (str(dataset), str(item.path.parent), tuple(sorted(fields.items())))
            if key not in self._datasets:
                self._datasets[key] = self._load_named(str(dataset), item, fields)
            return self._datasets[key]
        if not (callable(dataset) or isinstance(dataset, Iterable)):
            raise SpecError(f"dataset={dataset!r} cannot be used: pass a file, a name, a list of samples or a function")
        return load_rows(dataset, name=item.name, fields=fields)

    def metrics(self, declared: Sequence[Any]) -> tuple[Metric, ...]:
        """Return the declared metrics; strings are names of registered metrics."""
        registered = registered_metrics(self.config)
        metrics: dict[str, Metric] = {}
        for entry in declared:
            if isinstance(entry, str) and entry not in registered:
                near = difflib.get_close_matches(entry, registered, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise SpecError(f"metric {entry!r} is not registered: {hint}`crucible metrics` lists what is")
            given_metric = (
                load_object(registered[entry]) if isinstance(entry, str) else as_metric(entry)
            ).with_version()
            for metric in (given_metric, *(beside.with_version() for beside in given_metric.beside)):
                if metric.name in metrics:
                    raise SpecError(f"metric {metric.name!r} is given twice: give each metric a name of its own")
                metrics[metric.name] = metric
        return tuple(metrics.values())

    def _selection(self, mark: ExperimentMark, of: int) -> Selection:
        parts = {name: getattr(mark, name) for name in ("split", "fold", "limit", "stratify")}
        return Selection(of=of, seed=self.settings.seed, **parts)

    def _load_named(self, name: str, item: pytest.Item, fields: Mapping[str, str]) -> Sequence[Sample]:
        rows = self.config.hook.pytest_crucible_dataset(config=self.config, name=name)
        if rows is not None:
            samples = load_rows(rows, name=name, fields=fields)
            if isinstance(rows, Release):
                self._origins[name] = rows.origin()
            return samples
        beside, below = item.path.parent / name, self.config.rootpath / name
        if not (beside.exists() or below.exists()):
            check_dataset_name(name)
        return load_file(beside if beside.exists() else below, fields=fields)

    def _arms_to_query(self, contrasts: Sequence[Contrast]) -> tuple[OpenedArm, ...]:
        """Return the arms to query: the baselines only if the test compares something."""
        return self.opened_arms if contrasts else self.opened_arms[:1]

    def _check_adapter(self, takes_sampler: bool) -> None:
        if takes_sampler and self.opened_arms[0].backend is None:
            raise SpecError(
                "no adapter to evaluate: give --crucible-adapter=NAME, or set crucible_adapter in pytest's configuration"
            )


def _location(item: pytest.Function) -> dict[str, Any]:
    path, line, _ = item.location
    return {"nodeid": item.nodeid, "path": path, "line": line or 0}


def _dataset_name(item: pytest.Item, dataset: Any) -> str:
    return str(dataset) if isinstance(dataset, str | Path) else item.name


def _check_fixtures(item: pytest.Function) -> None:
    """Raise SpecError for a fixture named like an injected argument, which would hide it silently."""
    for name in INJECTED:
        definitions = item._fixtureinfo.name2fixturedefs.get(name, ())
        if definitions and definitions[-1].func.__module__ != "pytest_crucible.fixtures":
            raise SpecError(
                f"{name!r} is a fixture of {definitions[-1].func.__module__}, but inside an experiment it is what "
                "pytest-crucible injects: rename the fixture"
            )


def _members_coverage(ensemble: OpenedArm, dataset: Dataset) -> Iterable[str]:
    """Yield a warning for each member of an ensemble that lacks answers: the others answer without it."""
    sample_ids = [sample.id for sample in dataset.samples]
    for member in ensemble.members:
        answered = member.backend.samples() if isinstance(member.backend, KnowsItsSamples) else frozenset(sample_ids)
        missing = [name for name in sample_ids if name not in answered]
        if missing:
            yield (
                f"member {member.arm.name!r} of adapter {ensemble.arm.name!r} lacks answers to {len(missing)} of {len(sample_ids)} "
                f"samples (first: {missing[0]}): there the others answer without it"
            )


def _coverage(opened_arms: Sequence[OpenedArm], everything: Sequence[Sample], dataset: Dataset) -> Iterable[str]:
    """Yield a warning where recorded answers and samples do not match, with counts and the first name."""
    for arm in opened_arms:
        yield from _members_coverage(arm, dataset)
        if not isinstance(arm.backend, KnowsItsSamples):
            continue
        dataset_ids = {sample.id for sample in everything}
        answered = arm.backend.samples()
        missing = [sample.id for sample in dataset.samples if sample.id not in answered]
        extra = sorted(answered - dataset_ids)
        if missing:
            yield (
                f"adapter {arm.arm.name!r} lacks answers to {len(missing)} of {len(dataset.samples)} samples "
                f"(first: {missing[0]}): they will be lost"
            )
        if extra:
            yield (
                f"adapter {arm.arm.name!r} answers samples that dataset {dataset.name!r} does not have: "
                f"{len(extra)} (first: {extra[0]}); they are ignored"
            )
