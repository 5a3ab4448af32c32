"""A marked test function as an experiment: everything that is settled before the first question is asked."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.backends import Listed
from pytest_crucible.builtin import check_dataset_name, load, named_metrics
from pytest_crucible.contenders import Contender
from pytest_crucible.datasets import identify, load_file, load_rows, select
from pytest_crucible.datasets.release import Release
from pytest_crucible.datasets.selection import said
from pytest_crucible.errors import SpecError
from pytest_crucible.markers import ExperimentMark, comparisons, experiment_mark, targets
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.definition import as_metric
from pytest_crucible.metrics.members import facts_of_ensemble
from pytest_crucible.options import Settings
from pytest_crucible.plan.design import contrasts, group_count, judged_facts
from pytest_crucible.plan.fingerprint import fingerprint
from pytest_crucible.records import Contrast, Dataset, Origin, Plan, Sample, Selection

INJECTED = ("sample", "sampler", "score")
"""Arguments of the function that are bound anew for each call; all others are ordinary fixtures."""


class CrucibleWarning(pytest.PytestWarning):
    """Something in a suite that is worth a look but not wrong."""


@dataclass(frozen=True)
class Experiment:
    """One marked function, planned."""

    function: Callable[..., Any]
    plan: Plan
    dataset: Dataset
    metrics: tuple[Metric, ...]
    contenders: tuple[Contender, ...]
    timeout_s: float | None
    is_async: bool
    warnings: tuple[str, ...]

    def position(self, sample_id: str) -> int | None:
        """Where a sample stands in the dataset; None when it is not there."""
        ids = [sample.id for sample in self.dataset.samples]
        return ids.index(sample_id) if sample_id in ids else None

    @property
    def injected(self) -> frozenset[str]:
        return frozenset(INJECTED) & frozenset(inspect.signature(self.function).parameters)

    def arguments(self, item: pytest.Function) -> dict[str, Any]:
        """The function's own fixtures, without what is injected anew for each call."""
        wanted = inspect.signature(self.function).parameters
        return {name: item.funcargs[name] for name in wanted if name in item.funcargs and name not in INJECTED}

    def bound(self, item: pytest.Function) -> Callable[..., Any]:
        """The function, as a method of its instance where it is written in a class."""
        method = item.instance is not None and "self" in inspect.signature(self.function).parameters
        return self.function.__get__(item.instance) if method else self.function


@dataclass
class Library:
    """What the experiments of a session share: datasets by name, and metrics by theirs."""

    config: pytest.Config
    settings: Settings
    contenders: tuple[Contender, ...]
    _datasets: dict[Any, Sequence[Sample]] = field(default_factory=dict)
    _origins: dict[str, Origin] = field(default_factory=dict)

    def experiment(self, item: pytest.Function, function: Callable[..., Any]) -> Experiment:
        """Plan a marked item. Raises SpecError for anything that cannot be meant."""
        _check_fixtures(item)
        mark = experiment_mark(item)
        takes = inspect.signature(function).parameters
        self._check_adapter("sampler" in takes)
        everything = self.samples(item, mark)
        chosen = self._selection(mark, len(everything))
        dataset = identify(_dataset_name(item, mark.dataset), select(everything, chosen))
        metrics = self.metrics(mark.metrics)
        open_metrics = "score" in takes
        asked = comparisons(item)
        wanted = targets(item)
        asking = self._asking(asked)
        declared = [one.facts for one in metrics]
        further = facts_of_ensemble(declared, dict.fromkeys(name for one in asking for name in one.arm.members))
        facts = judged_facts(declared, wanted, asked, open_metrics=open_metrics, further=further)
        timeout_s = (self.settings.timeout if mark.timeout is None else float(mark.timeout)) or None
        plan = Plan(
            **_place(item),
            dataset=dataset.name,
            dataset_sha256=dataset.sha256,
            planned=len(dataset.samples),
            selected=len(dataset.samples),
            groups=group_count(dataset),
            epochs=mark.epochs,
            arms=tuple(one.arm for one in asking),
            metrics=facts,
            targets=wanted,
            contrasts=contrasts(asked, [one.arm for one in asking]),
            fingerprint=fingerprint(
                dataset=dataset.sha256,
                function=function,
                case=item.callspec.id if hasattr(item, "callspec") else "",
                metrics=metrics,
                sampling={"timeout_s": timeout_s},
                owner=item.cls,
            ),
            open_metrics=open_metrics,
            origin=self._origins.get(dataset.name),
            selection=chosen if said(chosen) else None,
        )
        warnings = tuple(_coverage(asking, everything, dataset)) if "sampler" in takes else ()
        is_async = inspect.iscoroutinefunction(function)
        return Experiment(function, plan, dataset, metrics, asking, timeout_s, is_async, warnings)

    def joined(self, nodeid: str, items: Sequence[pytest.Function], sample_ids: Sequence[str], selected: int) -> Plan:
        """Plan an ordinary parametrised test whose items are the samples."""
        item = items[0]
        asked, wanted = comparisons(item), targets(item)
        asking = self._asking(asked)
        dataset = identify(item.originalname, [Sample(id=one, input=one) for one in sample_ids])
        return Plan(
            **{**_place(item), "nodeid": nodeid},
            dataset=dataset.name,
            dataset_sha256=dataset.sha256,
            planned=len(sample_ids),
            selected=selected,
            groups=None,
            epochs=1,
            arms=tuple(one.arm for one in asking),
            metrics=judged_facts([], wanted, asked, open_metrics=True),
            targets=wanted,
            contrasts=contrasts(asked, [one.arm for one in asking]),
            fingerprint=fingerprint(dataset=dataset.sha256, function=item.function, case="", metrics=(), sampling={}),
            open_metrics=True,
            by_item=True,
        )

    def samples(self, item: pytest.Item, mark: ExperimentMark) -> Sequence[Sample]:
        """All samples of the dataset that a mark names."""
        given, fields = mark.dataset, mark.fields or {}
        if isinstance(given, str | Path):
            key = (str(given), str(item.path.parent), tuple(sorted(fields.items())))
            if key not in self._datasets:
                self._datasets[key] = self._named(str(given), item, fields)
            return self._datasets[key]
        if not (callable(given) or isinstance(given, Iterable)):
            raise SpecError(f"dataset={given!r} is no dataset: give a file, a name, a list of samples or a function")
        return load_rows(given, name=item.name, fields=fields)

    def metrics(self, given: Sequence[Any]) -> tuple[Metric, ...]:
        """Metrics as they are declared, strings by their registered names."""
        known = named_metrics(self.config)
        found: dict[str, Metric] = {}
        for one in given:
            if isinstance(one, str) and one not in known:
                near = difflib.get_close_matches(one, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise SpecError(f"metric {one!r} is not registered: {hint}`crucible metrics` lists what is")
            given_metric = (load(known[one]) if isinstance(one, str) else as_metric(one)).settled()
            for metric in (given_metric, *(beside.settled() for beside in given_metric.beside)):
                if metric.name in found:
                    raise SpecError(f"metric {metric.name!r} is given twice: give each metric a name of its own")
                found[metric.name] = metric
        return tuple(found.values())

    def _selection(self, mark: ExperimentMark, of: int) -> Selection:
        parts = {name: getattr(mark, name) for name in ("split", "fold", "limit", "stratify")}
        return Selection(of=of, seed=self.settings.seed, **parts)

    def _named(self, name: str, item: pytest.Item, fields: Mapping[str, str]) -> Sequence[Sample]:
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

    def _asking(self, asked: Sequence[Contrast]) -> tuple[Contender, ...]:
        """Who is asked: baselines only where something is compared."""
        return self.contenders if asked else self.contenders[:1]

    def _check_adapter(self, takes_sampler: bool) -> None:
        if takes_sampler and self.contenders[0].backend is None:
            raise SpecError(
                "no adapter to judge: give --crucible-adapter=NAME, or set crucible_adapter in pytest's configuration"
            )


def _place(item: pytest.Function) -> dict[str, Any]:
    path, line, _ = item.location
    return {"nodeid": item.nodeid, "path": path, "line": line or 0}


def _dataset_name(item: pytest.Item, given: Any) -> str:
    return str(given) if isinstance(given, str | Path) else item.name


def _check_fixtures(item: pytest.Function) -> None:
    """`sample`, `sampler` and `score` are ours inside an experiment; a fixture of that name would be shadowed silently."""
    for name in INJECTED:
        definitions = item._fixtureinfo.name2fixturedefs.get(name, ())
        if definitions and definitions[-1].func.__module__ != "pytest_crucible.fixtures":
            raise SpecError(
                f"{name!r} is a fixture of {definitions[-1].func.__module__}, but inside an experiment it is what "
                "pytest-crucible injects: rename the fixture"
            )


def _members_coverage(ensemble: Contender, dataset: Dataset) -> Iterable[str]:
    """Members that lack answers which the others give without them."""
    asked = [sample.id for sample in dataset.samples]
    for one in ensemble.members:
        answered = one.backend.samples() if isinstance(one.backend, Listed) else frozenset(asked)
        missing = [name for name in asked if name not in answered]
        if missing:
            yield (
                f"member {one.arm.name!r} of adapter {ensemble.arm.name!r} lacks answers to {len(missing)} of {len(asked)} "
                f"samples (first: {missing[0]}): there the others answer without it"
            )


def _coverage(contenders: Sequence[Contender], everything: Sequence[Sample], dataset: Dataset) -> Iterable[str]:
    """Where recorded answers and samples do not match, with counts and the first name."""
    for one in contenders:
        yield from _members_coverage(one, dataset)
        if not isinstance(one.backend, Listed):
            continue
        known = {sample.id for sample in everything}
        answered = one.backend.samples()
        missing = [sample.id for sample in dataset.samples if sample.id not in answered]
        extra = sorted(answered - known)
        if missing:
            yield (
                f"adapter {one.arm.name!r} lacks answers to {len(missing)} of {len(dataset.samples)} samples "
                f"(first: {missing[0]}): they will be lost"
            )
        if extra:
            yield (
                f"adapter {one.arm.name!r} answers samples that dataset {dataset.name!r} does not have: "
                f"{len(extra)} (first: {extra[0]}); they are ignored"
            )
