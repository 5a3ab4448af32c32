"""Checks of an experiment before it is run. Each raises SpecError, with what to do."""

from __future__ import annotations

import inspect
import unittest
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import PROMPT, OpenedArm, answering_arms
from pytest_crucible.backends import KnowsItsSamples
from pytest_crucible.features import left_out_sentence, load_rows, owner_of
from pytest_crucible.records import MetricFacts, Plan, Target
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.items import uses_crucible
from pytest_crucible.session.marks import check_spelling
from pytest_crucible.signs import is_experiment, is_judged, takes_fixture


def check_return(function: Callable[..., Any]) -> None:
    """Raise SpecError for a generator function: its call runs nothing, and the generator would be scored as a reply."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SpecError(f"{function.__name__} has a yield: an experiment's function returns its reply; write return")


def check_fixture(item: pytest.Function, name: str) -> None:
    """Raise SpecError for a fixture named like an injected argument, which would hide it silently."""
    definitions = item._fixtureinfo.name2fixturedefs.get(name, ())
    if definitions and not takes_fixture(item, name):
        raise SpecError(
            f"{name!r} is a fixture of {definitions[-1].func.__module__}, but inside an experiment it is what "
            "pytest-crucible injects: rename the fixture"
        )


def check_variables(arms: Sequence[OpenedArm], bound: Collection[str]) -> None:
    """Raise SpecError for a variable `prompt` of an adapter that no feature binds to the argument of this name."""
    for opened in () if PROMPT in bound else answering_arms(arms):
        owner = owner_of("prompts", "arguments")
        if PROMPT in opened.arm.variables and owner is not None:
            raise SpecError(left_out_sentence(f"adapter {opened.arm.name!r} with variables.prompt", owner))


def check_joined_prompts(arms: Sequence[OpenedArm]) -> None:
    """Raise SpecError for a variable `prompt` and a test that joins with its items: pytest binds its arguments."""
    for opened in answering_arms(arms):
        if PROMPT in opened.arm.variables:
            raise SpecError(
                f"adapter {opened.arm.name!r} has variables.prompt, which needs a test that is marked crucible, and this is "
                "a joined test: give the variable another name and read crucible.sampler.variables"
            )


def check_adapter(arms: Sequence[OpenedArm]) -> None:
    """Raise SpecError if the argument `sampler` has no adapter."""
    if arms[0].backend is None:
        raise SpecError(
            "no adapter to evaluate: give --crucible-adapter=NAME, or set crucible_adapter in pytest's configuration"
        )


def check_models(arms: Sequence[OpenedArm], what: str) -> None:
    """Raise SpecError for recorded replies, which exist for the unchanged samples only."""
    if any(isinstance(arm.backend, KnowsItsSamples) for arm in arms):
        raise SpecError(f"recorded answers have no {what}: use a model")


def check_pooling(plan: Plan) -> None:
    """Raise SpecError for pooled sessions with factors: their replies are repeats of one model and one prompt."""
    if plan.prompts:
        raise SpecError(
            'crucible_memory = "pool" combines replies to one prompt, so prompts= cannot be used: leave one of them out'
        )
    if plan.variant_terms:
        raise SpecError(
            'crucible_memory = "pool" combines replies to the original samples, and '
            f"{plan.variant_terms[0].facts.name!r} is about a variant of them: leave one of them out"
        )
    if any(arm.trainings for arm in plan.arms):
        raise SpecError('crucible_memory = "pool" takes the replies of one model together: leave it out, or seeds')
    if plan.random_factors:
        factors = " and ".join(plan.random_factors)
        raise SpecError(
            'crucible_memory = "pool" treats the replies of all sessions as repeats, '
            f"so intervals would not count the noise of {factors}: "
            f"leave out the setting, or declare fixed={list(plan.random_factors)}"
        )


def check_known_numbers(item: pytest.Item, targets: Iterable[Target], metrics: Iterable[MetricFacts]) -> None:
    """Raise SpecError for a target on a number that a feature knows which is left out."""
    own = {metric.name for metric in metrics}
    for feature, number in load_rows("known_numbers"):
        if item.config.pluginmanager.is_blocked(feature.plugin_name):
            for target in targets:
                if target.metric == number.facts.name and target.metric not in own:
                    raise SpecError(left_out_sentence(f"target {target.text!r}", feature))


def check_sample(sample_id: str, experiments: Collection[Experiment]) -> None:
    """Raise SpecError if no experiment has the sample of --crucible-sample."""
    if any(experiment.position(sample_id) is not None for experiment in experiments):
        return
    # The hint compares names, which takes long for many.
    ids = [sample.id for experiment in experiments for sample in experiment.dataset.samples[:1000]]
    hint = suggest(sample_id, ids, otherwise=f"the first is {ids[0]!r:.200}" if ids else "there is no experiment")
    raise SpecError(f"--crucible-sample={sample_id}: no selected experiment has a sample with that id: {hint}")


def check_markers(item: pytest.Item) -> None:
    """Raise SpecError for a marker without effect: the suite would pass for the wrong reason."""
    for mark in item.iter_markers():
        owner = owner_of(mark.name, "marker_names")
        if owner is not None and item.config.pluginmanager.is_blocked(owner.plugin_name):
            raise SpecError(left_out_sentence(f"@pytest.mark.{mark.name}", owner))
    hook = item.config.hook.pytest_crucible_check_item
    if problem := next(filter(None, hook(item=item, is_experiment=is_experiment(item))), ""):
        raise SpecError(problem)
    if is_experiment(item):
        check_spelling(item)
        # pytest passes no arguments to such a method.
        if issubclass(getattr(item, "cls", None) or object, unittest.TestCase):
            raise SpecError(
                "a method of a unittest.TestCase cannot be an experiment: write a function or a plain class"
            )
    elif is_judged(item) and not uses_crucible(item):
        raise SpecError(
            "has a quality target or a comparison but is not an experiment: mark it with "
            "@pytest.mark.crucible(dataset=...), or request the `crucible` fixture and score"
        )
