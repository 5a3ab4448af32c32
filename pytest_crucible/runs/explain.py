"""Explains the difference between two arms of a stored run by slices of its samples."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.analyse.analysis import main_metric, score_table
from pytest_crucible.measures.candidates import MOST_VALUES, features_of_values, has_scikit_learn
from pytest_crucible.measures.fields import has_value
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import import_from_here, load_object
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.records.type_names import describe_type
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.sections.inputs import section_inputs
from pytest_crucible.sections.slice_search import SearchResult, search
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.experiments import load_experiments
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedExperiment:
    """The search in one experiment; None if it has too few samples."""

    nodeid: str
    result: SearchResult | None


def explain_run(
    store: RunStore, run: str, metric: str, features: Sequence[str], *, seed: int = 0
) -> tuple[ExplainedExperiment, ...]:
    """Return the search in each experiment of a run that has two arms and the metric. Raises SpecError if none has."""
    functions = {reference: load_feature(reference) for reference in features}
    explained, scored = [], set[str]()
    problems: dict[str, list[str]] = {name: [] for name in functions}
    for stored in load_experiments(store, run):
        inputs = analysis_inputs(stored, stored.finished)
        table = score_table(inputs)
        scored |= set(table.scores)
        chosen = metric or main_metric(stored.plan, table.scores)
        if chosen not in table.scores or chosen is None or len(stored.plan.arms) < 2:
            continue
        samples = stored.all_samples() if functions else ()
        columns = {name: read_feature(name, function, samples) for name, function in functions.items()}
        for name, values in columns.items():
            problems[name].append(feature_problem(name, values))
        sections = section_inputs(inputs, table, stored, alpha=store.run(run)["alpha"])
        explained.append(
            ExplainedExperiment(
                nodeid=stored.plan.nodeid,
                result=search(sections, chosen, columns, seed=seed, ranks_features=has_scikit_learn()),
            )
        )
    # A feature may be about one of several experiments only.
    for problem in problems.values():
        if problem and all(problem):
            raise SpecError(problem[0])
    if explained:
        return tuple(explained)
    if metric and metric not in scored:
        hint = suggest(metric, scored, otherwise=f"it has {', '.join(sorted(scored)) or 'no scores'}")
        raise SpecError(f"run {run} has no metric {metric!r}: {hint}")
    raise SpecError(f"run {run} has no experiment with two arms: run it with --compare, or import a second arm")


def load_feature(reference: str) -> Any:
    """Return the function that `module:function` names, from the working directory too. Raises SpecError."""
    if not all(reference.partition(":")):
        raise SpecError(f"--feature={reference!r} cannot be read: write MODULE:FUNCTION, such as features:steps")
    import_from_here()
    try:
        function = load_object(reference)
    except (ImportError, AttributeError) as error:
        raise SpecError(f"--feature={reference!r} cannot be loaded: {error}; write MODULE:FUNCTION") from None
    # A module can raise anything while it is imported.
    except (Exception, SystemExit) as error:
        raise SpecError(
            f"--feature={reference!r} cannot be loaded: its module raised {type(error).__name__}: {error}; correct the module"
        ) from error
    if not callable(function):
        raise SpecError(f"--feature={reference!r} is {describe_type(function)}: name a function of a sample")
    if inspect.iscoroutinefunction(function):
        raise SpecError(f"--feature={reference!r} is an async function: write it with def, and without await")
    return function


def read_feature(name: str, function: Any, samples: Sequence[Sample]) -> list[Any]:
    """Return a feature of each sample. Raises SpecError for a value of another type."""
    values = [_apply(name, function, sample) for sample in samples]
    for sample, value in zip(samples, values, strict=True):
        if value is not None and not isinstance(value, str | int | float | np.generic):
            kinds = "a text, a number, a bool, or None where it does not apply"
            raise SpecError(f"--feature={name} returned {describe_type(value)} on sample {sample.id!r}: return {kinds}")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def feature_problem(name: str, values: Sequence[Any]) -> str:
    """Explain a feature whose values make no slices; empty for others."""
    if any(len(feature.levels) > 1 for feature in features_of_values({name: values})):
        return ""
    distinct = quantity(len({value for value in values if has_value(value)}), "different value")
    return (
        f"--feature={name} makes no slices: it returned {distinct} for {quantity(len(values), 'sample')}; "
        f"return numbers, or 2 to {MOST_VALUES} different texts"
    )


def _apply(name: str, function: Any, sample: Sample) -> Any:
    try:
        return function(sample)
    # sys.exit in a feature is an error like others; only an interrupt passes.
    except (Exception, SystemExit) as error:
        raise SpecError(
            f"--feature={name} raised {type(error).__name__} on sample {sample.id!r}: {error}; return None where it does not apply"
        ) from error
