"""Running one experiment: units to the engine, outcomes to the judge, observations to the store, counts to the screen."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from pytest_crucible.backends.caching import Caching
from pytest_crucible.backends.spending import Spending
from pytest_crucible.calling import Call
from pytest_crucible.experiment import Experiment
from pytest_crucible.options import Settings
from pytest_crucible.plan.arms import interleaved
from pytest_crucible.records import Emit, Outcome, Plan
from pytest_crucible.replaying import check_complete
from pytest_crucible.sample.deadline import Deadline
from pytest_crucible.sample.engine import Progress, Unit, run_units
from pytest_crucible.sample.garbage import collecting_seldom
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.sample.threads import DaemonThreads
from pytest_crucible.scoring import Scoring
from pytest_crucible.store.answers import copy_answers, find_arm
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer
from pytest_crucible.telling import experiment_told, samples_told

TICK_S = 0.2
"""How often the main thread shows the progress, and can be interrupted."""


@dataclass
class Runner:
    """Runs the experiments of one session, one after the other, on one background loop."""

    run: str
    settings: Settings
    store: RunStore
    writer: Writer
    loop: BackgroundLoop
    observed: Callable[..., None] | None
    """Told of each observation, where some plugin wants to know."""
    cache: Caching | None
    deadline: Deadline | None = None
    spending: Spending | None = None
    tell: Emit | None = None
    """Told of experiments and samples, likewise."""

    def __call__(self, item: pytest.Function, experiment: Experiment, show: Callable[[Progress | None], None]) -> None:
        """Ask everything that is not answered yet.

        Raises CrucibleError (an arm that answers nothing, a backend that refuses, replies that cannot be replayed, a store
        that fails) and KeyboardInterrupt; what was answered until then is stored.
        """
        key, arms, done = self._enter(experiment)
        threads = DaemonThreads(self.settings.concurrency)
        try:
            over = self._begin_spending(experiment, done)
            call = Call.of(item, experiment, self.loop, threads, self.deadline, over)
            with experiment_told(self.tell, experiment.plan), collecting_seldom():
                progress = self._ask(call, arms, done, show)
        finally:
            threads.shutdown()
            self.writer.flush()
        if self.cache is not None:
            check_complete(self.cache, experiment.plan, experiment.dataset.samples)
        if not progress.is_cut_short:
            self.store.finish_experiment(key)

    # -- what is known already ----------------------------------------------------------------------------------

    def _enter(self, experiment: Experiment) -> tuple[int, list[int], list[set[tuple[int, int]]]]:
        """Keys of the experiment and its arms, and for each arm the units that stored answers have settled."""
        plan = experiment.plan
        key = self.store.add_experiment(self.run, plan, experiment.dataset.samples)
        arms, done = [], []
        for number, arm in enumerate(plan.arms):
            arms.append(self.store.add_arm(key, number, arm.name, arm_fingerprint(plan, number)))
            done.append(self._reuse(plan, number, arms[-1]))
        return key, arms, done

    def _reuse(self, plan: Plan, number: int, target: int) -> set[tuple[int, int]]:
        """Let stored answers stand in: a baseline's, unless all is asked anew; with --crucible-resume any arm's."""
        arm = plan.arms[number]
        source = None
        if arm.stored_run is not None:
            source = self.store.stored_candidate(arm.stored_run, plan.nodeid)[:2]
        elif self.settings.resume:
            source = find_arm(self.store, arm_fingerprint(plan, number), run=self.run, latest=True)
        fresh = self.settings.fresh or self.settings.cache == "refresh"
        if source is None and arm.role == "baseline" and not fresh:
            source = find_arm(self.store, arm_fingerprint(plan, number), run=self.run)
        if source is None:
            return set()
        return copy_answers(self.store, source[0], target, source_run=source[1], epochs=plan.epochs)

    def _begin_spending(
        self, experiment: Experiment, done: list[set[tuple[int, int]]]
    ) -> Callable[[str, int, str], None] | None:
        """Say who will ask for which sample; whom to tell when one is over, where anything limits what is spent."""
        nodeid, plan = experiment.plan.nodeid, experiment.plan
        if self.spending is None or self.spending.account(nodeid) is None:
            return None
        samples = experiment.dataset.samples
        settled = [{(samples[position].id, epoch) for position, epoch in units} for units in done]
        asking = [(number, arm.name) for number, arm in enumerate(plan.arms) if arm.stored_run is None]
        self.spending.begin(
            nodeid,
            lambda sample, epoch: [name for number, name in asking if (sample, epoch) not in settled[number]],
        )
        return partial(self.spending.leave, nodeid)

    # -- asking -------------------------------------------------------------------------------------------------

    def _ask(
        self, call: Call, arms: list[int], done: list[set[tuple[int, int]]], show: Callable[[Progress | None], None]
    ) -> Progress:
        experiment, plan = call.experiment, call.experiment.plan
        open_arms = [number for number, arm in enumerate(plan.arms) if arm.stored_run is None]
        planned = [0] * len(plan.arms)
        for number in open_arms:
            planned[number] = plan.selected * plan.epochs - len(done[number])
        progress = Progress(total=sum(planned))
        samples = experiment.dataset.samples
        told = samples_told(self.tell, call, plan, lambda position: samples[position].id)
        scored = Scoring(experiment, told, self.deadline)
        future = self.loop.submit(
            run_units(
                _open_units(plan, open_arms, done, self.settings.seed),
                scored,
                self._keeper(experiment, scored, arms),
                concurrency=self.settings.concurrency,
                arms=tuple(arm.name for arm in plan.arms),
                planned=planned,
                progress=progress,
                answered=[bool(units) for units in done],
                behind=self.writer.behind,
            )
        )
        _wait(future, lambda: show(progress))
        show(None)
        return progress

    def _keeper(self, experiment: Experiment, scored: Scoring, arms: list[int]) -> Callable[[Outcome], None]:
        """Hand an outcome and what it is worth to the writer."""
        samples, names = experiment.dataset.samples, [arm.name for arm in experiment.plan.arms]

        def keep(outcome: Outcome) -> None:
            observations, lost = scored.of(outcome)
            self.writer.add(outcome, arms[outcome.arm], observations, lost)
            if self.observed is not None:
                sample = samples[outcome.position]
                for one in observations:
                    self.observed(
                        nodeid=experiment.plan.nodeid, arm=names[outcome.arm], sample=sample.id, observation=one
                    )

        return keep


def arm_fingerprint(plan: Plan, number: int) -> str:
    """What stored answers of an arm are found by: everything that they depend on."""
    arm, parts = plan.arms[number], plan.fingerprint
    said = [parts.dataset, parts.function, parts.metrics, parts.sampling, arm.identity, dict(arm.parameters)]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=repr).encode()).hexdigest()


def _open_units(plan: Plan, arms: list[int], done: list[set[tuple[int, int]]], seed: int) -> Iterator[Unit]:
    for position, arm, epoch in interleaved(plan.selected, arms, plan.epochs, seed=seed):
        if (position, epoch) not in done[arm]:
            yield position, arm, epoch


def _wait(future: concurrent.futures.Future[None], tick: Callable[[], None]) -> None:
    """Wait, showing progress. An interrupt of any kind cancels what is in flight before it goes on."""
    try:
        while True:
            try:
                return future.result(timeout=TICK_S)
            except concurrent.futures.TimeoutError:
                if future.done():
                    raise
                tick()
    except BaseException:
        future.cancel()
        concurrent.futures.wait([future], timeout=5)
        raise
