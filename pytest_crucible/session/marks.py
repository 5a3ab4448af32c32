"""Reads the markers of a test function: the experiment, its targets and its comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from pytest_crucible.markers import JUDGING
from pytest_crucible.plan.contrasts import parse_contrast
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Contrast, Target
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import closest_name, suggest


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


def experiment_mark(item: pytest.Item) -> ExperimentMark:
    """Read `@pytest.mark.crucible(...)`. Raises SpecError."""
    mark = item.get_closest_marker("crucible")
    arguments = _arguments(mark, [argument.name for argument in fields(ExperimentMark)], positional=("dataset",))
    if "dataset" not in arguments:
        raise SpecError("@pytest.mark.crucible needs dataset=: a file, a name, a list of samples or a function")
    metrics = arguments.get("metrics", ())
    arguments["metrics"] = tuple(metrics) if isinstance(metrics, list | tuple) else (metrics,)
    for name in ("limit", "epochs"):
        value = arguments.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise SpecError(f"@pytest.mark.crucible has {name}={value!r}: write a whole number of at least 1")
    if arguments.get("stratify") and not any(arguments.get(name) for name in ("limit", "fold", "split")):
        raise SpecError(
            f"@pytest.mark.crucible has stratify={arguments['stratify']!r} but nothing to draw: add limit=, fold= or split="
        )
    return ExperimentMark(**arguments)


def targets(item: pytest.Item) -> tuple[Target, ...]:
    """Return all quality targets on the module, the class and the function, in the order of the source. Raises SpecError."""
    by_text: dict[str, Target] = {}
    for mark in _marks(item, "quality_target"):
        decide = _keywords(mark, ("decide",)).get("decide", "point")
        if not mark.args:
            raise SpecError("@pytest.mark.quality_target names no target: write for example 'accuracy >= 0.80'")
        for text in mark.args:
            target = parse_target(text, decide=decide)
            if by_text.setdefault(target.text, target) != target:
                raise SpecError(f"target {target.text!r} is declared twice with different decide=: declare it once")
    return tuple(by_text.values())


def comparisons(item: pytest.Item) -> tuple[Contrast, ...]:
    """Return all comparisons, without their baselines. Raises SpecError."""
    by_expression: dict[str, Contrast] = {}
    for mark in _marks(item, "ab_compare"):
        options = _keywords(mark, ("margin", "alternative"))
        if not mark.args:
            raise SpecError("@pytest.mark.ab_compare names no metric: write for example ab_compare('accuracy')")
        for metric in mark.args:
            comparison = parse_contrast(metric, **options)
            if by_expression.setdefault(comparison.expression, comparison) != comparison:
                raise SpecError(
                    f"ab_compare({metric!r}) is declared twice with different margins or alternatives: declare it once"
                )
    return tuple(by_expression.values())


def _marks(item: pytest.Item, name: str) -> Iterator[pytest.Mark]:
    """Yield markers in the order of the source: pytest lists decorators from the nearest up, a module's `pytestmark` as it is."""
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
        hint = suggest(unknown[0], names, always=f"it takes {', '.join(names)}")
        raise SpecError(f"@pytest.mark.{mark.name} has no argument {unknown[0]!r}: {hint}")
    return dict(mark.kwargs)


def check_spelling(item: pytest.Item) -> None:
    """Raise SpecError for a marker such as `quality_targets`. pytest only warns of it, and the target would be gone."""
    registered = {line.partition(":")[0].partition("(")[0].strip() for line in item.config.getini("markers")}
    for mark in item.own_markers:
        near = closest_name(mark.name, JUDGING, cutoff=0.8)
        if near is not None and mark.name not in registered:
            raise SpecError(f"@pytest.mark.{mark.name} is not a marker: did you mean @pytest.mark.{near}?")
