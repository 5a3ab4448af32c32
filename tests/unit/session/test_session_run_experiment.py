"""An experiment is run on scripted models and a real run store: what is requested, stored, reused and left open."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import re
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from adapter_contexts import default_settings
from asking import adapter
from experiment_builders import arm_of, plan_item, scripted_arm

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.spending import Spending
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Arm, Event, Reply, Request
from pytest_crucible.records.errors import BackendError, CrucibleError
from pytest_crucible.sample.engine import Deadline
from pytest_crucible.session import experiment_items
from pytest_crucible.session.experiment import Experiment, ExperimentRun
from pytest_crucible.session.experiment_items import ExperimentItems
from pytest_crucible.session.resources import Resources
from pytest_crucible.session.run_entry import arm_fingerprint
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.reused_outcomes import reused_replies

SOURCE = """
    import pytest

    @pytest.mark.crucible(dataset=[{"id": k, "input": k} for k in "abc"], epochs=2)
    @pytest.mark.ab_compare("right")
    async def test_it(sample, sampler, score):
        score(right=(await sampler.generate(sample.input)).text == sample.input)
"""


class Models:
    """Two scripted models that count their requests, and lose the samples that are named."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.lost: set[tuple[str, str]] = set()
        self.baseline = scripted_arm(self._answer, "v1", "baseline")
        self.candidate = scripted_arm(self._answer, "v2")

    def _answer(self, request: Request) -> str:
        self.requests[request.arm, request.sample, request.repeat] += 1
        if (request.arm, request.sample) in self.lost:
            raise BackendError("the server is down")
        return str(request.input)

    def requests_by_arm(self) -> Counter[str]:
        """Requests by arm since the last call."""
        counts = Counter(arm for (arm, _, _), n in self.requests.items() for _ in range(n))
        self.requests.clear()
        return counts


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture
def planned(pytester: pytest.Pytester, models: Models) -> tuple[pytest.Function, Experiment]:
    return plan_item(pytester, SOURCE, models.candidate, models.baseline)


def run_it(
    resources: Resources,
    planned: tuple[pytest.Function, Experiment],
    run: str = "first",
    *,
    show: Any = lambda progress: None,
    deadline: Deadline | None = None,
    spending: Spending | None = None,
    emit: Any = None,
    **settings: Any,
) -> None:
    resources.store.begin_run(run, started="now", seed=0, alpha=0.05, correction="holm", environment={})
    item, experiment = planned
    shared = SimpleNamespace(cache=None, spending=spending or Spending())
    state: Any = SimpleNamespace(
        config=item.config,
        settings=default_settings(**settings),
        run=run,
        is_worker=True,
        resources=SimpleNamespace(store=resources.store, writer=resources.writer, loop=resources.loop, shared=shared),
        publisher=SimpleNamespace(sample_emit=emit),
        interruptions=SimpleNamespace(check=lambda: None),
        deadline=deadline,
    )
    ExperimentItems(state).ask(ExperimentRun(item, experiment, show=show))


def observe(planned: tuple[pytest.Function, Experiment], function: Any) -> None:
    """Call a function with each observation, as a plugin's hook is."""
    planned[0].config.pluginmanager.register(SimpleNamespace(pytest_crucible_observed=function), "observer")


def load_stored(resources: Resources, run: str = "first") -> tuple[int, bool]:
    """The key of the run's experiment, and whether it is finished."""
    ((key, _, finished),) = resources.store.experiments(run)
    return key, finished


def test_each_sample_arm_and_repeat_is_requested_once_and_stored(resources, models, planned):
    run_it(resources, planned)

    key, finished = load_stored(resources)
    assert finished
    assert set(models.requests.values()) == {1}
    assert models.requests_by_arm() == {"v2": 6, "v1": 6}
    for arm in (0, 1):
        outcomes = load_outcomes(resources.store, key, arm)
        assert sorted(zip(outcomes.positions, outcomes.repeats, strict=True)) == [
            (k, e) for k in range(3) for e in (0, 1)
        ]
        assert list(outcomes.scores["right"].values) == [1.0] * 6


def test_each_score_is_reported_with_its_arm_and_sample(resources, planned):
    calls = []

    def record(nodeid, arm, sample, observation):
        calls.append((nodeid, arm, sample, observation.value))

    observe(planned, record)
    run_it(resources, planned)

    nodeid = planned[1].plan.nodeid
    assert Counter(calls) == {(nodeid, arm, sample, True): 2 for arm in ("v2", "v1") for sample in "abc"}


def test_progress_counts_all_units_and_is_cleared_at_the_end(resources, pytester):
    source = SOURCE.replace("epochs=2", "epochs=1")
    planned = plan_item(pytester, source, scripted_arm(lambda request: "a", latency_s=0.5))
    lines = []
    run_it(resources, planned, show=lines.append)

    assert lines[-1] is None
    assert {(progress.total, progress.done, progress.lost) for progress in lines[:-1]} == {(3, 3, 0)}


# -- stored replies -------------------------------------------------------------------------------------------------


def test_a_baseline_that_was_measured_before_is_copied_and_a_candidate_is_measured_again(resources, models, planned):
    run_it(resources, planned)
    models.requests_by_arm()
    run_it(resources, planned, "second")

    key, finished = load_stored(resources, "second")
    assert models.requests_by_arm() == {"v2": 6}
    assert finished
    assert {name: reused.run for name, reused in reused_replies(resources.store, key).items()} == {"v1": "first"}
    assert len(load_outcomes(resources.store, key, 1).positions) == 6


@pytest.mark.parametrize("settings", [{"fresh": True}, {"cache": "refresh"}], ids=["fresh", "refresh"])
def test_a_baseline_is_measured_again_on_request(resources, models, planned, settings):
    run_it(resources, planned)
    models.requests_by_arm()
    run_it(resources, planned, "second", **settings)

    assert models.requests_by_arm() == {"v2": 6, "v1": 6}


def test_a_resumed_run_requests_only_what_is_missing(resources, models, planned):
    models.lost = {("v2", "b")}
    run_it(resources, planned)
    models.requests_by_arm()
    models.lost = set()
    run_it(resources, planned, "second", resume=True)

    assert models.requests == {("v2", "b", 0): 1, ("v2", "b", 1): 1}
    assert len(load_outcomes(resources.store, load_stored(resources, "second")[0], 0).positions) == 6


def test_an_arm_with_stored_answers_is_never_requested(resources, models, pytester):
    first = plan_item(pytester, SOURCE, models.candidate, models.baseline)
    run_it(resources, first)
    models.requests_by_arm()
    item, experiment = first
    old = Arm(name="run:first", role="baseline", adapter="run:first", identity="run:first", stored_run="first")
    plan = dataclasses.replace(experiment.plan, arms=(experiment.plan.arms[0], old))
    arms = (models.candidate, OpenedArm(old, None))
    run_it(resources, (item, dataclasses.replace(experiment, plan=plan, opened_arms=arms)), "second")

    key, _ = load_stored(resources, "second")
    assert models.requests_by_arm() == {"v2": 6}
    assert len(load_outcomes(resources.store, key, 1).positions) == 6


@pytest.mark.parametrize("part", ["dataset", "function", "metrics", "sampling"])
def test_stored_answers_belong_to_dataset_test_metrics_and_sampling(planned, part):
    plan = planned[1].plan
    changed = dataclasses.replace(plan, fingerprint=dataclasses.replace(plan.fingerprint, **{part: "other"}))

    assert arm_fingerprint(changed, 0) != arm_fingerprint(plan, 0)


@pytest.mark.parametrize("facts", [{"identity": "other"}, {"parameters": {"temperature": 1.0}}], ids=str)
def test_stored_answers_belong_to_a_model_and_its_parameters(planned, facts):
    plan = planned[1].plan
    changed = dataclasses.replace(plan, arms=(dataclasses.replace(plan.arms[0], **facts), plan.arms[1]))

    assert arm_fingerprint(changed, 0) != arm_fingerprint(plan, 0)
    assert arm_fingerprint(changed, 1) == arm_fingerprint(plan, 1)


def test_stored_answers_do_not_depend_on_the_name_of_an_arm(planned):
    plan = planned[1].plan
    renamed = dataclasses.replace(plan, arms=(dataclasses.replace(plan.arms[0], name="v3", adapter="v3"), plan.arms[1]))

    assert arm_fingerprint(renamed, 0) == arm_fingerprint(plan, 0)


# -- runs that are cut short ----------------------------------------------------------------------------------------


def test_after_the_deadline_nothing_is_requested_and_the_experiment_stays_open(resources, models, planned):
    run_it(resources, planned, deadline=Deadline(time.monotonic() - 1, "1 s"))

    key, finished = load_stored(resources)
    assert not finished
    assert models.requests_by_arm() == {}
    assert Counter(lost.reason for lost in load_outcomes(resources.store, key, 0).lost) == {"deadline": 6}


def test_a_budget_covers_whole_pairs_and_a_resumed_run_requests_the_rest(resources, models, pytester):
    spending = Spending("8 requests")
    shared = BackendContext(spending=spending)
    arms = [
        dataclasses.replace(arm, backend=wrap_backend(arm.backend, adapter(arm.arm.name), shared))
        for arm in (models.candidate, models.baseline)
    ]
    planned = plan_item(pytester, SOURCE, *arms)
    run_it(resources, planned, spending=spending, concurrency=1)

    key, finished = load_stored(resources)
    assert not finished
    assert models.requests_by_arm() == {"v2": 4, "v1": 4}
    candidate, baseline = (load_outcomes(resources.store, key, arm) for arm in (0, 1))
    assert {*zip(candidate.positions, candidate.repeats, strict=True)} == {
        *zip(baseline.positions, baseline.repeats, strict=True)
    }
    run_it(resources, plan_item(pytester, SOURCE, models.candidate, models.baseline), "second", resume=True)
    assert models.requests_by_arm() == {"v2": 2, "v1": 2}


def test_a_resumed_arm_reserves_nothing_for_stored_answers(resources, models, pytester):
    models.lost = {("v2", "c")}
    run_it(resources, plan_item(pytester, SOURCE, models.candidate, models.baseline))
    models.requests_by_arm()
    models.lost = set()
    # Two requests are missing. Were the baseline's reserved as well, the budget would do for one.
    spending = Spending("2 requests")
    backend = wrap_backend(models.candidate.backend, adapter("v2"), BackendContext(spending=spending))
    arms = dataclasses.replace(models.candidate, backend=backend), models.baseline
    run_it(
        resources,
        plan_item(pytester, SOURCE, *arms),
        "second",
        spending=spending,
        resume=True,
        concurrency=1,
    )

    assert models.requests_by_arm() == {"v2": 2}
    assert load_stored(resources, "second")[1]


def test_an_arm_without_any_answer_ends_the_experiment_and_the_other_arms_replies_are_stored(
    resources, models, planned
):
    models.lost = {("v1", sample) for sample in "abc"}
    with pytest.raises(CrucibleError, match="adapter 'v1' lost each of its first 6 samples"):
        run_it(resources, planned, concurrency=1)

    key, finished = load_stored(resources)
    assert not finished
    assert len(load_outcomes(resources.store, key, 0).positions) >= 4


class Endless:
    """A model that never answers, and notes whose request began and was cancelled."""

    identity = "endless"
    simulated = True

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []

    async def generate(self, request: Request) -> Reply:
        self.begun.append(request.sample)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(request.sample)
            raise
        raise AssertionError


def test_an_interrupt_cancels_the_requests_in_flight(resources, pytester):
    model = Endless()
    planned = plan_item(pytester, SOURCE, arm_of(model))

    def interrupt(progress: object) -> None:
        # Progress is shown by the clock: on a slow machine for the first time before all requests have begun.
        if len(model.begun) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_it(resources, planned, show=interrupt)

    assert sorted(model.cancelled) == ["a", "a", "b", "b", "c", "c"]
    assert not load_stored(resources)[1]


def test_a_timeout_error_of_a_plugin_ends_the_run_instead_of_waiting_for_ever(resources, planned):
    def fail(observation: object) -> None:
        raise TimeoutError("the plugin waited too long")

    observe(planned, fail)
    with pytest.raises(TimeoutError, match="the plugin waited too long"):
        run_it(resources, planned)


def test_a_run_that_ends_while_it_is_looked_at_has_ended():
    class EndsAtALook(concurrent.futures.Future):
        def result(self, timeout: float | None = None) -> None:
            if self.done():
                return super().result(timeout)
            self.set_result(None)
            raise TimeoutError

    experiment_items._wait(EndsAtALook(), lambda: None)


def test_threads_of_a_blocking_test_end_with_it(resources, pytester):
    source = SOURCE.replace("async def", "def").replace("await ", "")
    run_it(
        resources,
        plan_item(pytester, source, arm_of(ScriptedBackend(lambda request: str(request.input), identity="v2"))),
    )

    key, finished = load_stored(resources)
    assert finished
    assert list(load_outcomes(resources.store, key, 0).scores["right"].values) == [1.0] * 6
    workers = [thread for thread in threading.enumerate() if re.fullmatch(r"crucible-\d+", thread.name)]
    for thread in workers:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in workers)


def test_experiment_and_samples_are_emitted(resources, planned):
    events: list[Event] = []
    run_it(resources, planned, emit=events.append)

    assert [event.name for event in (events[0], events[-1])] == ["experiment.start", "experiment.stop"]
    assert Counter(event.name for event in events[1:-1]) == {"sample.start": 12, "sample.stop": 12}
    assert {(event.arm, event.sample, event.repeat) for event in events[1:-1]} == {
        (arm, sample, repeat) for arm in ("v2", "v1") for sample in "abc" for repeat in (0, 1)
    }
