"""Reads the markers of a test function: the experiment, its targets and its comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields
from typing import Any

import pytest

from pytest_crucible.features import all_features, left_out_sentence, owner_of
from pytest_crucible.metrics.definition import declared_facts
from pytest_crucible.options import features_of
from pytest_crucible.plan.targets import is_sequence, parse_contrast, parse_target
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Contrast, MetricFacts, Purpose, Target
from pytest_crucible.records.errors import SpecError, closest_name, suggest
from pytest_crucible.signs import JUDGING, is_judged


@dataclass(frozen=True)
class ExperimentMark:
    """The arguments of `@pytest.mark.crucible`."""

    dataset: Any
    metrics: tuple[Any, ...] = ()
    split: str | None = None
    fold: str | None = None
    limit: int | None = None
    stratify: str | None = None
    epochs: int = 1
    timeout: float | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    budget: str | None = None
    purpose: Purpose = "gate"
    arms_differ_in: tuple[str, ...] = ()
    repairs: str | None = None
    """A file of people's labels that are the right `expected`."""
    features: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of features, by name."""


def experiment_mark(item: pytest.Item) -> ExperimentMark:
    """Read `@pytest.mark.crucible(...)`. Raises SpecError."""
    mark = item.get_closest_marker("crucible")
    further = [name for feature in features_of(item.config.pluginmanager) for name in feature.arguments]
    own = [argument.name for argument in fields(ExperimentMark) if argument.name != "features"]
    arguments = _arguments(mark, [*own, *further], positional=("dataset",))
    arguments["features"] = {name: arguments.pop(name) for name in further if name in arguments}
    if "dataset" not in arguments:
        raise SpecError("@pytest.mark.crucible needs dataset=: a file, a name, a list of samples or a function")
    metrics = arguments.get("metrics", ())
    arguments["metrics"] = tuple(metrics) if isinstance(metrics, list | tuple) else (metrics,)
    _check_purpose(item, arguments.get("purpose", "gate"))
    for name in ("limit", "epochs"):
        value = arguments.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise SpecError(f"@pytest.mark.crucible has {name}={value!r}: write a whole number of at least 1")
    if arguments.get("stratify") and not any(arguments.get(name) for name in ("limit", "fold", "split")):
        raise SpecError(
            f"@pytest.mark.crucible has stratify={arguments['stratify']!r} but nothing to draw: add limit=, fold= or split="
        )
    arguments["arms_differ_in"] = _differing_names(arguments.get("arms_differ_in", ()))
    return ExperimentMark(**arguments)


def _differing_names(argument: Any) -> tuple[str, ...]:
    """Return the parameters in which arms may differ. Raises SpecError for anything but names."""
    names = (argument,) if isinstance(argument, str) else argument
    is_list = isinstance(names, list | tuple | set | frozenset)
    if not is_list or not all(isinstance(name, str) and name.strip() for name in names):
        raise SpecError(
            f"@pytest.mark.crucible has arms_differ_in={argument!r}: write names of parameters that the test passes, such as "
            "['reasoning_effort'], or '*' for whatever it sends"
        )
    return tuple(dict.fromkeys(names if not isinstance(names, set | frozenset) else sorted(names)))


def _check_purpose(item: pytest.Item, purpose: Any) -> None:
    """Raise SpecError for an unknown purpose, and for a practice experiment with a verdict of its own."""
    if purpose not in ("gate", "practice"):
        raise SpecError(f"@pytest.mark.crucible has purpose={purpose!r}: write 'practice', or leave it out")
    if purpose == "practice" and is_judged(item):
        raise SpecError(
            "@pytest.mark.crucible has purpose='practice', which gives no verdict: remove the target or comparison, or the purpose"
        )


def is_practice(item: pytest.Item) -> bool:
    """Return whether an item is a practice experiment, whose replies are scored and give no verdict."""
    mark = item.get_closest_marker("crucible")
    return mark is not None and mark.kwargs.get("purpose") == "practice"


def targets(item: pytest.Item) -> tuple[Target, ...]:
    """Return all quality targets on the module, the class and the function, in the order of the source. Raises SpecError."""
    by_text: dict[str, Target] = {}
    for mark in _verdict_marks(item, "quality_target"):
        decide = _keywords(mark, ("decide",)).get("decide")
        if not mark.args:
            raise SpecError("@pytest.mark.quality_target names no target: write for example 'accuracy >= 0.80'")
        for text in mark.args:
            target = parse_target(text, decide=decide)
            if by_text.setdefault(target.text, target) != target:
                raise SpecError(f"target {target.text!r} is declared twice with different decide=: declare it once")
    return tuple(by_text.values())


def comparisons(item: pytest.Item) -> tuple[Contrast, ...]:
    """Return all comparisons, without their baselines. Raises SpecError."""
    by_expression: dict[str, list[Contrast]] = {}
    for mark in _verdict_marks(item, "ab_compare"):
        options = _keywords(mark, ("margin", "alternative", "relevant"))
        if not mark.args:
            raise SpecError("@pytest.mark.ab_compare names no metric: write for example ab_compare('accuracy')")
        for metric in mark.args:
            comparison = parse_contrast(metric, **options)
            declared = by_expression.setdefault(comparison.expression, [])
            if comparison in declared:
                continue
            if not all(is_sequence(comparison, other) for other in declared):
                raise SpecError(
                    f"ab_compare({metric!r}) is declared twice with different margins, alternatives or relevant "
                    "differences: declare it once, or once with a margin and once with alternative='superior'"
                )
            declared.append(comparison)
    return tuple(comparison for declared in by_expression.values() for comparison in declared)


def scored_facts(item: pytest.Item) -> tuple[MetricFacts, ...]:
    """Return the metrics that the test scores itself, with their bounds and reach. The nearest marker counts. Raises SpecError."""
    bounds = {name: _bounds(name, ends) for name, ends in _by_name(item, "score_bounds", "(0, 1)").items()}
    reaches = _by_name(item, "score_reach", "0.25")
    return tuple(
        declared_facts(name, bounds=bounds.get(name), reach=reaches.get(name))
        for name in dict.fromkeys([*bounds, *reaches])
    )


def _by_name(item: pytest.Item, marker: str, example: str) -> dict[str, Any]:
    """Return what all markers of one name declare about scores. Raises SpecError for one without names."""
    declared: dict[str, Any] = {}
    for mark in marks_of(item, marker):
        if mark.args or not mark.kwargs:
            what = marker.removeprefix("score_")
            raise SpecError(f"@pytest.mark.{marker} takes {what} by name: write for example relevance={example}")
        declared |= mark.kwargs
    return declared


def _bounds(name: str, bounds: Any) -> tuple[float, float]:
    is_pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not is_pair or not all(isinstance(end, int | float) and math.isfinite(end) for end in bounds):
        raise SpecError(
            f"@pytest.mark.score_bounds has {name}={bounds!r}: write two numbers, for example {name}=(0, 1)"
        )
    return float(bounds[0]), float(bounds[1])


def _verdict_marks(item: pytest.Item, name: str) -> Iterator[pytest.Mark]:
    """Yield the markers that give verdicts; none for a practice experiment, whose module may have some for others."""
    return iter(()) if is_practice(item) else marks_of(item, name)


def marks_of(item: pytest.Item, name: str) -> Iterator[pytest.Mark]:
    """Yield markers in the order of the source: pytest lists decorators bottom up, a module's `pytestmark` in its own order."""
    for node in item.listchain():
        marks = [mark for mark in node.own_markers if mark.name == name]
        yield from marks if isinstance(node, pytest.Module) else reversed(marks)


def _arguments(mark: pytest.Mark | None, names: Iterable[str], *, positional: tuple[str, ...]) -> dict[str, Any]:
    if mark is None:
        return {}
    if len(mark.args) > len(positional):
        raise SpecError(f"@pytest.mark.{mark.name} takes {', '.join(positional)} by position, the rest by name")
    return {**dict(zip(positional, mark.args, strict=False)), **_keywords(mark, names)}


def _keywords(mark: pytest.Mark, names: Iterable[str]) -> dict[str, Any]:
    unknown = sorted(set(mark.kwargs) - set(names))
    if unknown:
        owner = owner_of(unknown[0], "arguments") if mark.name == "crucible" else None
        if owner is not None:
            raise SpecError(left_out_sentence(f"@pytest.mark.crucible({unknown[0]}=...)", owner))
        hint = suggest(unknown[0], names, always=f"it takes {', '.join(names)}")
        raise SpecError(f"@pytest.mark.{mark.name} has no argument {unknown[0]!r}: {hint}")
    return dict(mark.kwargs)


def check_spelling(item: pytest.Item) -> None:
    """Raise SpecError for a marker such as `quality_targets`. pytest only warns about it, and the target would be ignored."""
    registered = {line.partition(":")[0].partition("(")[0].strip() for line in item.config.getini("markers")}
    names_of_features = [name for feature in all_features() for name in feature.marker_names]
    for mark in item.own_markers:
        near = closest_name(mark.name, (*JUDGING, *names_of_features), cutoff=0.8)
        if near is not None and mark.name not in registered:
            raise SpecError(f"@pytest.mark.{mark.name} is not a marker: did you mean @pytest.mark.{near}?")
