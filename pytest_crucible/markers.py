"""The three markers: what a test function asks for, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_crucible.records import Contrast, Target

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
    """Is the item marked `crucible`? (A node's keywords hold its parents' names too, so the marker is asked for.)"""
    return "crucible" in item.keywords and item.get_closest_marker("crucible") is not None


def is_judged(item: pytest.Item) -> bool:
    """Does the function itself carry a target or a comparison? (Those of a module or class are for its experiments.)"""
    return any(mark.name in JUDGING for mark in item.own_markers)


def experiment_mark(item: pytest.Item) -> ExperimentMark:
    """Read `@pytest.mark.crucible(...)`. Raises SpecError."""
    mark = item.get_closest_marker("crucible")
    given = _arguments(mark, [one.name for one in fields(ExperimentMark)], positional=("dataset",))
    if "dataset" not in given:
        raise _spec_error("@pytest.mark.crucible needs dataset=: a file, a name, a list of samples or a function")
    metrics = given.get("metrics", ())
    given["metrics"] = tuple(metrics) if isinstance(metrics, list | tuple) else (metrics,)
    for name in ("limit", "epochs"):
        value = given.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise _spec_error(f"@pytest.mark.crucible has {name}={value!r}: write a whole number of at least 1")
    if given.get("stratify") and not any(given.get(name) for name in ("limit", "fold", "split")):
        raise _spec_error(
            f"@pytest.mark.crucible has stratify={given['stratify']!r} and nothing to draw: add limit=, fold= or split="
        )
    return ExperimentMark(**given)


def targets(item: pytest.Item) -> tuple[Target, ...]:
    """All quality targets on the module, the class and the function, in the order of the source. Raises SpecError."""
    from pytest_crucible.plan.targets import parse_target

    found: dict[str, Target] = {}
    for mark in _marks(item, "quality_target"):
        decide = _keywords(mark, ("decide",)).get("decide", "point")
        if not mark.args:
            raise _spec_error("@pytest.mark.quality_target names no target: write for example 'accuracy >= 0.80'")
        for text in mark.args:
            target = parse_target(text, decide=decide)
            if found.setdefault(target.text, target) != target:
                raise _spec_error(f"target {target.text!r} is given twice, with different rules: give it once")
    return tuple(found.values())


def comparisons(item: pytest.Item) -> tuple[Contrast, ...]:
    """All comparisons that are asked for, each against a baseline that is not known yet. Raises SpecError."""
    found: dict[str, Contrast] = {}
    for mark in _marks(item, "ab_compare"):
        options = _keywords(mark, ("margin", "alternative"))
        if not mark.args:
            raise _spec_error("@pytest.mark.ab_compare names no metric: write for example ab_compare('accuracy')")
        for metric in mark.args:
            asked = contrast(metric, **options)
            if found.setdefault(metric, asked) != asked:
                raise _spec_error(
                    f"ab_compare({metric!r}) is given twice, with different margins or claims: give it once"
                )
    return tuple(found.values())


def _marks(item: pytest.Item, name: str) -> Iterator[pytest.Mark]:
    """As they stand in the source: pytest lists decorators from the nearest up, and a module's `pytestmark` as it is."""
    for node in item.listchain():
        marks = [mark for mark in node.own_markers if mark.name == name]
        yield from marks if isinstance(node, pytest.Module) else reversed(marks)


def contrast(metric: Any, margin: float | None = None, alternative: str | None = None) -> Contrast:
    """What `ab_compare(metric, margin=..., alternative=...)` asks for, of a baseline not known yet. Raises SpecError."""
    from pytest_crucible.records import Contrast

    what = f"ab_compare({metric!r})"
    if not isinstance(metric, str):
        raise _spec_error(f"{what} compares a {type(metric).__name__}: name the metric by a string")
    if margin is not None and (isinstance(margin, bool) or not isinstance(margin, int | float) or not margin > 0):
        raise _spec_error(f"{what} has margin={margin!r}: write a positive number in the metric's units, such as 0.05")
    chosen = alternative or ("regression" if margin is None else "non-inferior")
    if chosen not in ALTERNATIVES:
        raise _spec_error(f"{what} has alternative={alternative!r}: write one of {', '.join(ALTERNATIVES)}")
    if margin is None and chosen in ("non-inferior", "equivalent"):
        raise _spec_error(f"{what} asks for {chosen!r} without a margin: add margin=0.05, say")
    if margin is not None and chosen == "regression":
        raise _spec_error(f"{what} has a margin but asks for 'regression': leave one of them out")
    return Contrast(metric=metric, baseline="", alternative=chosen, margin=margin)  # type: ignore[arg-type]  # one of ALTERNATIVES


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
    from pytest_crucible.errors import SpecError

    return SpecError(sentence)
