"""The demands of an experiment on a candidate, as text: everything that can make its verdicts easier to meet.

A run records it of its own experiments, and the gate of a model holds it. Nothing here opens an adapter or a judge.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from pytest_crucible.metrics import Metric
from pytest_crucible.records import Contrast, Dataset, MetricFacts
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.serialize import canonical
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.declared_data import named_metrics
from pytest_crucible.session.joined_tests import unique_ids
from pytest_crucible.session.local_files import conftest_files, is_installed
from pytest_crucible.session.marks import comparisons, experiment_mark, scored_facts, targets
from pytest_crucible.session.prompt_files import read_prompts
from pytest_crucible.stats.number_format import quantity

TIMES = ("latency_s", "first_token_s")
"""Metrics that depend on the number of requests in flight."""


def experiment_demands(
    item: pytest.Function, function: Callable[..., Any], dataset: Dataset, settings: Settings
) -> dict[str, str]:
    """Return the demands of a marked item. `dataset` has all samples that its marker selects."""
    mark = experiment_mark(item)
    timeout = settings.timeout if mark.timeout is None else float(mark.timeout)
    forms, _ = read_prompts(item, function, mark.prompts)
    hook = item.config.hook.pytest_crucible_demands
    values = {
        "dataset": f"{dataset.name}, {quantity(len(dataset.samples), 'sample')}, {dataset.sha256}",
        **_judged(item, settings),
        **{f"metric {metric.name}": _metric_text(metric) for metric in named_metrics(item.config, mark.metrics)},
        "test function": _function_digest(item, function),
        "prompts": ", ".join(f"{form.name} {form.sha256}" for form in forms),
        "repeats": str(mark.epochs * settings.rounds),
        "timeout": f"{timeout!r} s",
        "fixed factors": ", ".join(mark.fixed),
        **{name: text for demands in hook(item=item, settings=settings) for name, text in demands.items()},
    }
    return {name: value for name, value in values.items() if value}


def joined_demands(items: Sequence[pytest.Function], settings: Settings) -> dict[str, str]:
    """Return the demands of an ordinary parametrised test whose items are the samples."""
    item, ids = items[0], unique_ids(items)
    return {
        "dataset": f"{quantity(len(ids), 'item')}, {_sha(sorted(ids))}",
        **_judged(item, settings),
        "test function": _function_digest(item, item.function),
    }


def _judged(item: pytest.Function, settings: Settings) -> dict[str, str]:
    """Return targets, comparisons, the numbers that the test scores itself, and the conftest.py files that apply to it."""
    declared_targets, declared = targets(item), comparisons(item)
    names = {name for measure in (*declared_targets, *declared) for name in measure.metrics}
    return {
        **{f"target {target.text}": target.decide for target in declared_targets},
        **_comparison_texts(declared),
        **{f"metric {facts.name}": _facts_text(facts) for facts in scored_facts(item)},
        **dict(conftest_files(item)),
        **({"requests in flight": str(settings.concurrency)} if names.intersection(TIMES) else {}),
    }


def _comparison_texts(declared: Sequence[Contrast]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    for contrast in declared:
        texts.setdefault(f"comparison of {contrast.expression}", []).append(_comparison_text(contrast))
    return {name: "; ".join(sorted(claims)) for name, claims in texts.items()}


def _comparison_text(contrast: Contrast) -> str:
    unit = " of the ratio" if contrast.is_relative else ""
    margin = "" if contrast.margin is None else f" by {contrast.margin!r}{unit}"
    relevant = "" if contrast.relevant is None else f", relevant {contrast.relevant!r}{unit}"
    return f"{contrast.alternative}{margin}{relevant}"


def _metric_text(metric: Metric) -> str:
    """Return a metric's facts and the hash of its source: a declared version may stay when the code changes."""
    return f"{_facts_text(metric.facts)}, {_sha(list(sources(metric.function)))}"


def _facts_text(facts: MetricFacts) -> str:
    parts = [
        facts.kind or "of any kind",
        f"{facts.direction} is better" if facts.is_directed else "neither direction is better",
        f"from {facts.low!r} to {facts.high!r}",
        "" if facts.reach is None else f"reach {facts.reach!r}",
        "" if facts.relevant is None else f"relevant {facts.relevant!r}",
        f"version {facts.version}" if facts.version else "",
    ]
    return ", ".join(part for part in parts if part)


def _function_digest(item: pytest.Function, function: Callable[..., Any]) -> str:
    """Return the hash of a test function, of what it reads, and of the suite's fixtures that it uses."""
    return _sha([*sources(function, item.cls), *_fixture_sources(item)])


def _fixture_sources(item: pytest.Function) -> Iterator[str]:
    for name, definitions in sorted(item._fixtureinfo.name2fixturedefs.items()):
        function = definitions[-1].func
        if not is_installed(inspect.getmodule(function)):
            yield name
            yield from sources(function)


def _sha(value: Sequence[str]) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()
