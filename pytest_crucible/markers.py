"""The three markers of a test function, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_crucible.records import Contrast, Measure, Target

MARKERS = (
    "crucible(dataset, metrics=(), split=None, fold=None, limit=None, stratify=None, epochs=1, timeout=None, fields=None, "
    "budget=None): "
    "make a test function an experiment that runs on every sample of a dataset",
    "quality_target(*targets, decide='point'): targets such as 'accuracy >= 0.80' that the candidate must meet",
    "ab_compare(*metrics, margin=None, alternative=None): compare the candidate with every --compare adapter",
)
JUDGING = ("quality_target", "ab_compare")
ALTERNATIVES = ("regression", "non-inferior", "superior", "equivalent")


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


def is_experiment(item: pytest.Item) -> bool:
    """Return whether the item is marked `crucible`.

    A node's keywords hold its parents' names too, so the keyword alone is not enough.
    """
    return "crucible" in item.keywords and item.get_closest_marker("crucible") is not None


def is_judged(item: pytest.Item) -> bool:
    """Return whether the function itself has a target or a comparison. Those of a module or class are for its experiments."""
    return any(mark.name in JUDGING for mark in item.own_markers)


def experiment_mark(item: pytest.Item) -> ExperimentMark:
    """Read `@pytest.mark.crucible(...)`. Raises SpecError."""
    mark = item.get_closest_marker("crucible")
    arguments = _arguments(mark, [argument.name for argument in fields(ExperimentMark)], positional=("dataset",))
    if "dataset" not in arguments:
        raise _spec_error("@pytest.mark.crucible needs dataset=: a file, a name, a list of samples or a function")
    metrics = arguments.get("metrics", ())
    arguments["metrics"] = tuple(metrics) if isinstance(metrics, list | tuple) else (metrics,)
    for name in ("limit", "epochs"):
        value = arguments.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise _spec_error(f"@pytest.mark.crucible has {name}={value!r}: write a whole number of at least 1")
    if arguments.get("stratify") and not any(arguments.get(name) for name in ("limit", "fold", "split")):
        raise _spec_error(
            f"@pytest.mark.crucible has stratify={arguments['stratify']!r} but nothing to draw: add limit=, fold= or split="
        )
    return ExperimentMark(**arguments)


def targets(item: pytest.Item) -> tuple[Target, ...]:
    """Return all quality targets on the module, the class and the function, in the order of the source. Raises SpecError."""
    from pytest_crucible.plan.targets import parse_target

    by_text: dict[str, Target] = {}
    for mark in _marks(item, "quality_target"):
        decide = _keywords(mark, ("decide",)).get("decide", "point")
        if not mark.args:
            raise _spec_error("@pytest.mark.quality_target names no target: write for example 'accuracy >= 0.80'")
        for text in mark.args:
            target = parse_target(text, decide=decide)
            if by_text.setdefault(target.text, target) != target:
                raise _spec_error(f"target {target.text!r} stands twice, with different decide=: write it once")
    return tuple(by_text.values())


def comparisons(item: pytest.Item) -> tuple[Contrast, ...]:
    """Return all comparisons, without their baselines. Raises SpecError."""
    by_expression: dict[str, Contrast] = {}
    for mark in _marks(item, "ab_compare"):
        options = _keywords(mark, ("margin", "alternative"))
        if not mark.args:
            raise _spec_error("@pytest.mark.ab_compare names no metric: write for example ab_compare('accuracy')")
        for metric in mark.args:
            comparison = contrast(metric, **options)
            if by_expression.setdefault(comparison.expression, comparison) != comparison:
                raise _spec_error(
                    f"ab_compare({metric!r}) stands twice, with different margins or alternatives: write it once"
                )
    return tuple(by_expression.values())


def _marks(item: pytest.Item, name: str) -> Iterator[pytest.Mark]:
    """Yield markers in the order of the source: pytest lists decorators from the nearest up, a module's `pytestmark` as it is."""
    for node in item.listchain():
        marks = [mark for mark in node.own_markers if mark.name == name]
        yield from marks if isinstance(node, pytest.Module) else reversed(marks)


def contrast(metric: Any, margin: float | None = None, alternative: str | None = None) -> Contrast:
    """Return the comparison of `ab_compare(metric, margin=..., alternative=...)`, without its baseline. Raises SpecError."""
    from pytest_crucible.plan.targets import parse_measure
    from pytest_crucible.records import Contrast

    what = f"ab_compare({metric!r})"
    if not isinstance(metric, str):
        raise _spec_error(f"{what} compares a {type(metric).__name__}: name the metric by a string")
    measure = parse_measure(metric, what)
    if margin is not None and (isinstance(margin, bool) or not isinstance(margin, int | float) or not margin > 0):
        raise _spec_error(f"{what} has margin={margin!r}: write a positive number in the metric's units, such as 0.05")
    chosen = alternative or ("regression" if margin is None else "non-inferior")
    if chosen not in ALTERNATIVES:
        raise _spec_error(f"{what} has alternative={alternative!r}: write one of {', '.join(ALTERNATIVES)}")
    if margin is None and chosen in ("non-inferior", "equivalent"):
        raise _spec_error(f"{what} has alternative={chosen!r} without a margin: add one, for example margin=0.05")
    if margin is not None and chosen == "regression":
        raise _spec_error(f"{what} has a margin and alternative='regression': leave one of them out")
    return Contrast(**_fields(measure), baseline="", alternative=chosen, margin=margin)  # type: ignore[arg-type]  # one of ALTERNATIVES


def _fields(measure: Measure) -> dict[str, Any]:
    return {item.name: getattr(measure, item.name) for item in fields(measure)}


def _arguments(mark: pytest.Mark | None, names: Iterable[str], *, positional: tuple[str, ...]) -> dict[str, Any]:
    if mark is None:
        return {}
    if len(mark.args) > len(positional):
        raise _spec_error(f"@pytest.mark.{mark.name} takes {', '.join(positional)} by position, the rest by name")
    return {**dict(zip(positional, mark.args, strict=False)), **_keywords(mark, names)}


def _keywords(mark: pytest.Mark, names: Iterable[str]) -> dict[str, Any]:
    unknown = sorted(set(mark.kwargs) - set(names))
    if unknown:
        raise _spec_error(f"@pytest.mark.{mark.name} has no argument {unknown[0]!r}: it takes {', '.join(names)}")
    return dict(mark.kwargs)


def _spec_error(sentence: str) -> Exception:
    from pytest_crucible.records.errors import SpecError

    return SpecError(sentence)
