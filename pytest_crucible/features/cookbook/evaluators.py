"""Evaluators of tinker-cookbook as metrics: each measures an arm through the SDK's client of its model."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_crucible.metrics.definition import Metric, declared_facts
from pytest_crucible.metrics.models.scorers import current_reply
from pytest_crucible.records import Direction, Kind, Reply, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.object_reference import import_function

OF_TRAINING = "TrainingClientEvaluator"


def evaluator(
    builder: str | Callable[..., Any],
    *,
    figure: str = "",
    name: str = "",
    kind: Kind | None = None,
    direction: Direction = "higher",
    bounds: tuple[float, float] | None = None,
    reach: float | None = None,
) -> Metric:
    """Return a metric whose value is the result of an evaluator of tinker-cookbook.

    `builder` is a function, or "module:function", that returns a `SamplingClientEvaluator`. A builder that takes the sample
    evaluates that sample alone: its values have an interval, and arms are paired. One without arguments evaluates data of its
    own, and its single figure has no interval: the dataset then has one sample. `figure` is the key of the value in what the
    evaluator returns; it may be left out if there is one. The other arguments are those of `metric`.

    The evaluator's requests go past the reply cache and the budget. Raises SpecError for a builder that cannot be imported.
    """
    function = import_function("cookbook.evaluator names", builder) if isinstance(builder, str) else builder
    takes_sample = bool(inspect.signature(function).parameters)
    label = name or function.__name__

    async def evaluate(reply: Reply, sample: Sample) -> float:
        built = function(sample) if takes_sample else function()
        return _pick(await built(_client_for(built, label)), figure, label)

    facts = declared_facts(
        label, kind=kind, direction=direction, bounds=bounds, version=_version(function, figure), reach=reach
    )
    metric = Metric(function=evaluate, facts=facts)
    return metric if takes_sample else metric.with_check(lambda samples: _why_not_whole(label, samples))


def _client_for(built: Any, label: str) -> Any:
    """Return the client of the arm that is measured. Raises SpecError for an arm without one, and an evaluator of trainings."""
    client = getattr(current_reply().backend, "sampling_client", None)
    if client is None:
        raise SpecError('the arm is not one Tinker model: an evaluator needs an adapter with backend = "tinker"')
    if any(parent.__name__ == OF_TRAINING for parent in type(built).__mro__):
        raise SpecError(
            f"{label} builds a {OF_TRAINING}, and a checkpoint to sample from has no TrainingClient: build a "
            "SamplingClientEvaluator, such as SamplerNLLEvaluator in the place of NLLEvaluator"
        )
    return client


def _pick(figures: Mapping[str, float], figure: str, label: str) -> float:
    """Return the figure. Raises SpecError if it is missing, or not named among several."""
    if figure in figures:
        return figures[figure]
    if not figure and len(figures) == 1:
        return next(iter(figures.values()))
    problem = f"has no figure {figure!r}" if figure else f"returns {len(figures)} figures"
    example = next(iter(figures), "KEY")
    raise SpecError(
        f"the evaluator of {label} {problem}: write figure={example!r}; it returns {', '.join(sorted(figures))}"
    )


def _why_not_whole(label: str, samples: Sequence[Sample]) -> str:
    if len(samples) == 1:
        return ""
    return (
        f"{label}() evaluates data of its own as a whole, and would do so for each of {len(samples)} samples: give the dataset "
        f"one sample, or let {label} take the sample and evaluate it alone"
    )


def _version(function: Callable[..., Any], figure: str) -> str:
    # Stored scores are used again while the builder, and the functions of the suite that it calls, are the same.
    return hashlib.sha256("\n".join((figure, *sources(function))).encode()).hexdigest()[:16]
