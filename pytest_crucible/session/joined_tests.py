"""Joined tests: ordinary parametrised tests that request `crucible` and score; each of their items is a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.records import MetricFacts, Outcome, Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.sample.background_loop import BackgroundLoop
from pytest_crucible.sample.invoke import lost_reason
from pytest_crucible.sample.sampler import BlockingSampler, Sampler
from pytest_crucible.score.apply import own_scores
from pytest_crucible.session.call import ScoreRecorder, classify_exception
from pytest_crucible.store.writer import Writer


class Crucible:
    """The `crucible` fixture: the arm of this item, a sampler for it, and `score`."""

    def __init__(
        self, opened_arm: OpenedArm, sample: str, outcome: Outcome, loop: Callable[[], BackgroundLoop], experiment: str
    ) -> None:
        self.arm = opened_arm.arm
        self.outcome = outcome
        self.sample_id = sample
        self._opened_arm = opened_arm
        self._loop = loop
        self._experiment = experiment
        self._facts: dict[str, MetricFacts] = {}

    # Cached: an item has a single sampler, because the sampler numbers its requests.
    @cached_property
    def sampler(self) -> BlockingSampler:
        """Sends requests to this item's arm: `crucible.sampler.generate(...)`."""
        if self._opened_arm.backend is None:
            raise SpecError(
                "no adapter to query: give --crucible-adapter=NAME, or set crucible_adapter in pytest's configuration"
            )
        sampler = Sampler(self._opened_arm.backend, self.arm, self.sample_id, 0, self._experiment, self.outcome.calls)
        return BlockingSampler(sampler, self._loop().loop)

    def score(self, **scores: Any) -> None:
        """Record one value for each name: bool, a number, None where it does not apply, or a str as a label."""
        ScoreRecorder(self.outcome.scores, self._facts)(**scores)


@dataclass
class JoinedTest:
    """One joined test function: its samples are its items, in the order in which they were collected."""

    plan: Plan
    positions: dict[str, int]
    arms: list[int] = field(default_factory=list)
    """Keys of the arms in the run store."""

    @property
    def has_verdicts(self) -> bool:
        """True if a verdict over all samples follows: then a single wrong answer does not fail its item."""
        return bool(self.plan.targets or self.plan.contrasts)


def uses_crucible(item: pytest.Item) -> bool:
    return "crucible" in getattr(item, "fixturenames", ())


def arm_name(item: pytest.Item) -> str | None:
    """Return the arm that an item was parametrised with; None if there is only one."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("crucible")


def sample_id(item: pytest.Item) -> str:
    """Return the item's own parameters as an id, without the arm that the plugin added last."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return item.name
    arm, parameters = arm_name(item), str(callspec.id)
    if arm is not None:
        parameters = parameters.removesuffix(_escape(arm, item.config)).removesuffix("-")
    return parameters or item.name


def _escape(name: str, config: pytest.Config) -> str:
    """Return a name as pytest writes it in an id: escaped, unless its configuration turns that off."""
    unescaped = config.getini("disable_test_id_escaping_and_forfeit_all_rights_to_community_support")
    return name if unescaped else name.encode("unicode_escape").decode("ascii")


def function_nodeid(item: pytest.Item) -> str:
    """Return the nodeid of an item's test function, without its parameters."""
    # Cutting the nodeid at its first `[` would be wrong: a folder's name may contain one.
    name = getattr(item, "originalname", None)
    return item.nodeid if name is None or item.parent is None else f"{item.parent.nodeid}::{name}"


def group_by_function(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Function]]:
    """Return the joined items by the nodeid of their function."""
    groups: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and uses_crucible(item):
            groups.setdefault(function_nodeid(item), []).append(item)
    return groups


def unique_ids(items: Sequence[pytest.Item]) -> list[str]:
    """Return the sample ids in the order of collection, one for all arms of a sample."""
    return list(dict.fromkeys(sample_id(item) for item in items))


def settle_outcome(outcome: Outcome, error: BaseException | None) -> Outcome:
    """Record in the outcome how a test item ended; exceptions mean the same as inside an experiment."""
    if error is None or outcome.lost:
        return outcome
    judgement = classify_exception(error)
    if judgement == "skipped":
        outcome.skipped, outcome.detail = True, str(error)
    elif judgement == "failed":
        outcome.failure, outcome.detail = "assertion", (str(error) or type(error).__name__).splitlines()[0]
    else:
        outcome.lost, outcome.detail = lost_reason(error), f"{type(error).__name__}: {error}"
    return outcome


def store_item(
    outcome: Outcome, joined: JoinedTest, sample: str, writer: Writer, on_observation: Callable[..., None] | None
) -> None:
    """Store the observations of one item, and call `on_observation` with each."""
    passed = any(metric.name == "passed" for metric in joined.plan.metrics)
    observations, lost = own_scores(outcome, passed=passed)
    writer.add(outcome, joined.arms[outcome.unit.arm], observations, lost)
    if on_observation is None:
        return
    for observation in observations:
        on_observation(
            nodeid=joined.plan.nodeid,
            arm=joined.plan.arms[outcome.unit.arm].name,
            sample=sample,
            observation=observation,
        )
