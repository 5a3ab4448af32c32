"""The adoption path: an ordinary parametrised test joins by asking for `crucible` and scoring; each of its items is a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

from pytest_crucible.calling import Scorer, classify
from pytest_crucible.contenders import Contender
from pytest_crucible.errors import SpecError
from pytest_crucible.records import MetricFacts, Outcome, Plan
from pytest_crucible.sample.asking import lost_reason
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.sample.sampler import BlockingSampler, Sampler
from pytest_crucible.score.judge import own_scores
from pytest_crucible.store.writer import Writer


class Crucible:
    """What the `crucible` fixture gives: the arm of this item, a sampler for it, and `score`."""

    def __init__(
        self, contender: Contender, sample: str, outcome: Outcome, loop: Callable[[], BackgroundLoop], experiment: str
    ) -> None:
        self.arm = contender.arm
        self.outcome = outcome
        self.sample_id = sample
        self._contender = contender
        self._loop = loop
        self._experiment = experiment
        self._facts: dict[str, MetricFacts] = {}

    @cached_property  # one for the item: it counts what it is asked
    def sampler(self) -> BlockingSampler:
        """Asks this item's arm: `crucible.sampler.generate(...)`."""
        if self._contender.backend is None:
            raise SpecError(
                "no adapter to ask: give --crucible-adapter=NAME, or set crucible_adapter in pytest's configuration"
            )
        sampler = Sampler(self._contender.backend, self.arm, self.sample_id, 0, self._experiment)
        return BlockingSampler(sampler, self._loop().loop)

    def score(self, **scores: Any) -> None:
        """Record one value a name for this item: bool, a number, None where it does not apply, or a str as a label."""
        Scorer(self.outcome.scores, self._facts)(**scores)


@dataclass
class Joined:
    """One joined test function: its samples are its items, in the order in which they were collected."""

    plan: Plan
    positions: dict[str, int]
    arms: list[int] = field(default_factory=list)
    """Keys of the arms in the run store."""

    @property
    def judged(self) -> bool:
        """With a verdict over all samples, one wrong answer is no failure of its own."""
        return bool(self.plan.targets or self.plan.contrasts)


def joins(item: pytest.Item) -> bool:
    return "crucible" in getattr(item, "fixturenames", ())


def arm_name(item: pytest.Item) -> str | None:
    """The arm that an item was parametrised with, when there are several."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("crucible")


def sample_id(item: pytest.Item) -> str:
    """The item's own parameters, without the arm that we added last."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return item.name
    arm, given = arm_name(item), str(callspec.id)
    if arm is not None:
        given = given.removesuffix(_shown(arm, item.config)).removesuffix("-")
    return given or item.name


def _shown(name: str, config: pytest.Config) -> str:
    """As pytest writes it in an id: escaped, where it is not told to leave ids as they are."""
    kept = config.getini("disable_test_id_escaping_and_forfeit_all_rights_to_community_support")
    return name if kept else name.encode("unicode_escape").decode("ascii")


def function_nodeid(item: pytest.Item) -> str:
    """The test function that an item is a case of. (A `[` may stand anywhere in a nodeid, in a folder's name too.)"""
    name = getattr(item, "originalname", None)
    return item.nodeid if name is None or item.parent is None else f"{item.parent.nodeid}::{name}"


def gather(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Function]]:
    """Joined items by the function that they are items of."""
    found: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and joins(item):
            found.setdefault(function_nodeid(item), []).append(item)
    return found


def unique_ids(items: Sequence[pytest.Item]) -> list[str]:
    """Sample ids in the order of collection, one for all the arms of a sample."""
    return list(dict.fromkeys(sample_id(item) for item in items))


def settle(outcome: Outcome, error: BaseException | None) -> Outcome:
    """What the end of a test item means for its sample: the same as inside an experiment."""
    if error is None or outcome.lost:
        return outcome
    judgement = classify(error)
    if judgement == "skipped":
        outcome.skipped, outcome.detail = True, str(error)
    elif judgement == "failed":
        outcome.failure, outcome.detail = "assertion", (str(error) or type(error).__name__).splitlines()[0]
    else:
        outcome.lost, outcome.detail = lost_reason(error), f"{type(error).__name__}: {error}"
    return outcome


def record(outcome: Outcome, joined: Joined, sample: str, writer: Writer, observed: Callable[..., None] | None) -> None:
    """Store what one item has shown, and tell who wants to know."""
    passed = any(one.name == "passed" for one in joined.plan.metrics)
    observations, lost = own_scores(outcome, passed=passed)
    writer.add(outcome, joined.arms[outcome.arm], observations, lost)
    if observed is None:
        return
    for one in observations:
        observed(nodeid=joined.plan.nodeid, arm=joined.plan.arms[outcome.arm].name, sample=sample, observation=one)
