"""Evaluators of tinker-cookbook as metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_crucible import Metric, Reply, Sample, SpecError, cookbook
from pytest_crucible.metrics.models.scorers import set_current_reply

SAMPLE = Sample(id="q1", input="five")


class Evaluator:
    """A `SamplingClientEvaluator`: it is awaited with a client."""

    def __init__(self, **figures: float) -> None:
        self.figures = figures

    async def __call__(self, client: Callable[[], float]) -> dict[str, float]:
        return {name: value * client() for name, value in self.figures.items()}


class TrainingClientEvaluator:
    """Stands for the cookbook's class of this name."""


class OfTraining(TrainingClientEvaluator):
    async def __call__(self, client: object) -> dict[str, float]:
        return {"nll": 1.0}


def length(sample):
    return Evaluator(length=len(sample.input))


def whole():
    return Evaluator(nll=2.0, n=100)


def training():
    return OfTraining()


def value(metric: Metric, client: Any = lambda: 3) -> float:
    async def score() -> float:
        set_current_reply("test", "q1", 0, backend=SimpleNamespace(sampling_client=client))
        result: float = await metric(Reply(text=""), SAMPLE)
        return result

    return asyncio.run(score())


def test_a_builder_that_takes_the_sample_gives_it_a_value():
    metric = cookbook.evaluator(length, bounds=(0, 100), reach=20)

    assert metric.name == "length"
    assert (metric.facts.low, metric.facts.high, metric.facts.reach) == (0, 100, 20)
    assert value(metric) == 12
    assert metric.check is None


def test_a_builder_without_arguments_evaluates_as_a_whole_and_needs_one_sample():
    metric = cookbook.evaluator(whole, figure="nll", name="held_out", direction="lower")

    assert (metric.name, metric.facts.direction, value(metric)) == ("held_out", "lower", 6)
    assert metric.check([SAMPLE]) == ""
    assert "would do so for each of 2 samples: give the dataset one sample" in metric.check([SAMPLE, SAMPLE])


def test_the_builder_is_named_as_a_recipe_is():
    assert value(cookbook.evaluator(f"{__name__}:length")) == 12
    with pytest.raises(SpecError, match=r"cookbook.evaluator names 'nowhere:build', which cannot be imported"):
        cookbook.evaluator("nowhere:build")


@pytest.mark.parametrize(
    ("metric", "client", "message"),
    [
        (cookbook.evaluator(whole), lambda: 1, r"returns 2 figures: write figure='nll'; it returns n, nll"),
        (cookbook.evaluator(whole, figure="acc"), lambda: 1, r"has no figure 'acc': write figure='nll'"),
        (cookbook.evaluator(length), None, r"needs an adapter with backend = \"tinker\""),
        (cookbook.evaluator(training), lambda: 1, r"training builds a TrainingClientEvaluator"),
    ],
)
def test_invalid_evaluators_are_refused(metric, client, message):
    with pytest.raises(SpecError, match=message):
        value(metric, client)


def test_the_version_follows_builder_and_figure():
    versions = [
        cookbook.evaluator(builder, figure=figure).facts.version
        for builder, figure in ((whole, "nll"), (whole, "n"), (length, ""), (training, ""))
    ]

    assert len(set(versions)) == 4
    assert versions[0] == cookbook.evaluator(whole, figure="nll").facts.version
