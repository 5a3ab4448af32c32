"""Runs one experiment: units go to the engine, outcomes to the metrics, observations to the store, counts to the progress line."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from pytest_crucible.adapters.replay import check_all_replayed
from pytest_crucible.backends.budget.spending import Spending
from pytest_crucible.backends.cache.policy import CachePolicy
from pytest_crucible.plan.arms import interleave_units
from pytest_crucible.records import Emit, Outcome, Plan, Unit
from pytest_crucible.records.settings import Settings
from pytest_crucible.report.printable import printable
from pytest_crucible.sample.background_loop import BackgroundLoop
from pytest_crucible.sample.deadline import Deadline
from pytest_crucible.sample.engine import Progress, run_units
from pytest_crucible.sample.gc_tuning import collecting_seldom
from pytest_crucible.sample.threads import DaemonThreads
from pytest_crucible.session.call import Call, ScoredUnits
from pytest_crucible.session.events import experiment_span, with_sample_spans
from pytest_crucible.session.experiment import CrucibleWarning, Experiment
from pytest_crucible.store.outcomes import copy_outcomes, find_arm
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer

# The main thread updates the progress line and reacts to Ctrl-C this often: fast for a reader, idle for a processor.
TICK_S = 0.2


@dataclass
class ExperimentRunner:
    """Runs the experiments of one session, one after the other, on one background loop."""

    run: str
    settings: Settings
    store: RunStore
    writer: Writer
    loop: BackgroundLoop
    on_observation: Callable[..., None] | None
    """Called with each observation, if a plugin implements the hook."""
    cache: CachePolicy | None
    deadline: Deadline | None = None
    spending: Spending | None = None
    emit: Emit | None = None
    """Receives the events of experiments and samples, if anything listens."""
    check_interrupt: Callable[[], None] = lambda: None
    """Raises KeyboardInterrupt when sampling has to stop."""

    def __call__(self, item: pytest.Function, experiment: Experiment, show: Callable[[Progress | None], None]) -> None:
        """Request every reply that is not stored yet.

        Raises CrucibleError (an arm without any answer, a backend that refuses, replies that cannot be replayed, a store
        that fails) and KeyboardInterrupt; all replies until then are stored.
        """
        # Here and not when it is planned: where warnings are errors, this one ends the test and not the session.
        for warning in experiment.warnings:
            item.warn(CrucibleWarning(printable(warning)))
        # Stored replies are copied first: only the other units cost requests.
        key, arms, done = self._add_to_store(experiment)
        threads = DaemonThreads(self.settings.concurrency)
        try:
            on_unit_done = self._begin_spending(experiment, done)
            call = Call.prepare(item, experiment, self.loop, threads, self.deadline, on_unit_done)
            with experiment_span(self.emit, experiment.plan), collecting_seldom():
                progress = self._ask(call, arms, done, show)
        finally:
            threads.shutdown()
            self.writer.flush()
        if self.cache is not None:
            check_all_replayed(self.cache, experiment.plan, experiment.dataset.samples)
        if not progress.is_cut_short:
            self.store.finish_experiment(key)

    # -- what is known already ----------------------------------------------------------------------------------

    def _add_to_store(self, experiment: Experiment) -> tuple[int, list[int], list[set[tuple[int, int]]]]:
        """Return the store's keys of the experiment and its arms, and for each arm the units with stored replies."""
        plan = experiment.plan
        key = self.store.add_experiment(self.run, plan, experiment.dataset.samples)
        arms, done = [], []
        for number, arm in enumerate(plan.arms):
            arms.append(self.store.add_arm(key, number, arm.name, arm_fingerprint(plan, number)))
            done.append(self._reuse_stored(plan, number, arms[-1]))
        return key, arms, done

    def _reuse_stored(self, plan: Plan, number: int, target: int) -> set[tuple[int, int]]:
        """Copy stored replies: a baseline's, unless --crucible-fresh; with --crucible-resume those of every arm."""
        arm = plan.arms[number]
        source = None
        if arm.stored_run is not None:
            source = self.store.stored_candidate(arm.stored_run, plan.nodeid)[:2]
        elif self.settings.resume:
            source = find_arm(self.store, arm_fingerprint(plan, number), run=self.run, latest=True)
        # A refreshed cache would be pointless if stored replies were used instead.
        fresh = self.settings.fresh or self.settings.cache == "refresh"
        if source is None and arm.role == "baseline" and not fresh:
            source = find_arm(self.store, arm_fingerprint(plan, number), run=self.run)
        if source is None:
            return set()
        return copy_outcomes(self.store, source[0], target, source_run=source[1], repeats=plan.repeats)

    def _begin_spending(
        self, experiment: Experiment, done: list[set[tuple[int, int]]]
    ) -> Callable[[str, int, str], None] | None:
        """Register which arms will be queried for which samples; returns what to call when a unit is done, if there is a budget."""
        nodeid, plan = experiment.plan.nodeid, experiment.plan
        if self.spending is None or self.spending.account(nodeid) is None:
            return None
        samples = experiment.dataset.samples
        settled = [{(samples[position].id, repeat) for position, repeat in units} for units in done]
        asking = [(number, arm.name) for number, arm in enumerate(plan.arms) if arm.stored_run is None]
        self.spending.begin(
            nodeid,
            lambda sample, repeat: [name for number, name in asking if (sample, repeat) not in settled[number]],
        )
        return partial(self.spending.release, nodeid)

    # -- asking -------------------------------------------------------------------------------------------------

    def _ask(
        self, call: Call, arms: list[int], done: list[set[tuple[int, int]]], show: Callable[[Progress | None], None]
    ) -> Progress:
        experiment, plan = call.experiment, call.experiment.plan
        open_arms = [number for number, arm in enumerate(plan.arms) if arm.stored_run is None]
        planned = [0] * len(plan.arms)
        for number in open_arms:
            planned[number] = plan.selected * plan.repeats - len(done[number])
        progress = Progress(total=sum(planned))
        samples = experiment.dataset.samples
        spanned = with_sample_spans(self.emit, call, plan, lambda position: samples[position].id)
        scored = ScoredUnits(experiment, spanned, self.deadline)
        future = self.loop.submit(
            run_units(
                _open_units(plan, open_arms, done, self.settings.seed),
                scored,
                self._outcome_writer(experiment, scored, arms),
                concurrency=self.settings.concurrency,
                arms=tuple(arm.name for arm in plan.arms),
                planned=planned,
                progress=progress,
                answered=[bool(units) for units in done],
                behind=self.writer.behind,
            )
        )

        def tick() -> None:
            self.check_interrupt()
            show(progress)

        _wait(future, tick)
        show(None)
        return progress

    def _outcome_writer(
        self, experiment: Experiment, scored: ScoredUnits, arms: list[int]
    ) -> Callable[[Outcome], None]:
        """Return a function that hands an outcome and its scores to the writer."""
        samples, names = experiment.dataset.samples, [arm.name for arm in experiment.plan.arms]

        def keep(outcome: Outcome) -> None:
            observations, lost = scored.pop_scores(outcome)
            self.writer.add(outcome, arms[outcome.unit.arm], observations, lost)
            if self.on_observation is not None:
                sample = samples[outcome.unit.position]
                for observation in observations:
                    self.on_observation(
                        nodeid=experiment.plan.nodeid,
                        arm=names[outcome.unit.arm],
                        sample=sample.id,
                        observation=observation,
                    )

        return keep


def arm_fingerprint(plan: Plan, number: int) -> str:
    """Return the key of an arm's stored replies: a hash of everything that they depend on."""
    arm, parts = plan.arms[number], plan.fingerprint
    parts_of_key = [parts.dataset, parts.function, parts.metrics, parts.sampling, arm.identity, dict(arm.parameters)]
    parts_of_key += [parts.reasoning] if parts.reasoning else []
    return hashlib.sha256(json.dumps(parts_of_key, sort_keys=True, default=repr).encode()).hexdigest()


def _open_units(plan: Plan, arms: list[int], done: list[set[tuple[int, int]]], seed: int) -> Iterator[Unit]:
    for unit in interleave_units(plan.selected, arms, plan.repeats, seed=seed):
        if (unit.position, unit.repeat) not in done[unit.arm]:
            yield unit


def _wait(future: concurrent.futures.Future[None], tick: Callable[[], None]) -> None:
    """Wait and show the progress. Any interrupt first cancels the requests in flight."""
    try:
        while True:
            try:
                return future.result(timeout=TICK_S)
            except concurrent.futures.TimeoutError:
                # The run itself may have raised TimeoutError: then there is nothing to wait for.
                if future.done():
                    raise
                tick()
    except BaseException:
        # Cancelled before pytest goes on: otherwise requests would be paid for and their replies dropped.
        future.cancel()
        concurrent.futures.wait([future], timeout=5)
        raise
