"""Runs one experiment: units go to the engine, outcomes to the metrics, observations to the store, counts to the progress line."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pytest_crucible.adapters.opened_arm import collect_backends
from pytest_crucible.adapters.replay import check_all_replayed
from pytest_crucible.backends.cache import CachePolicy
from pytest_crucible.backends.circuit_breaker import note_earlier_answers
from pytest_crucible.backends.spending import Spending
from pytest_crucible.records import Emit, Outcome
from pytest_crucible.records.settings import Settings
from pytest_crucible.report.printable import printable
from pytest_crucible.sample.engine import MOST_OPEN, Deadline, Progress, run_units
from pytest_crucible.sample.loop import BackgroundLoop, DaemonThreads, collecting_seldom
from pytest_crucible.session.call import Call, ScoredUnits
from pytest_crucible.session.enter_experiment import EnteredExperiment, ExperimentEntry
from pytest_crucible.session.events import experiment_span, with_sample_spans
from pytest_crucible.session.experiment import CrucibleWarning, Experiment
from pytest_crucible.session.experiment_run import ExperimentRun
from pytest_crucible.session.open_units import OpenUnits
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer

if TYPE_CHECKING:
    from pytest_crucible.session.looks import LookRule, Looks

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

    def __call__(self, run: ExperimentRun) -> None:
        """Request every reply that is not stored yet, of the arms that go on.

        Raises CrucibleError (an arm without any answer, a backend that refuses, replies that cannot be replayed, a store
        that fails) and KeyboardInterrupt; all replies until then are stored.
        """
        # Here and not when it is planned: where warnings are errors, this one ends the test and not the session.
        experiment = run.experiment
        for warning in experiment.warnings if run.is_first else ():
            run.item.warn(CrucibleWarning(printable(warning)))
        # Stored replies are copied first: only the other units cost requests.
        entered = ExperimentEntry(self.store, self.settings, self.run).enter(
            experiment, is_first=run.is_first, answered=run.answered
        )
        threads = DaemonThreads(MOST_OPEN * self.settings.concurrency)
        try:
            on_unit_done = self._begin_spending(experiment, entered.done)
            call = Call.prepare(run.item, experiment, self.loop, threads, self.deadline, on_unit_done)
            with experiment_span(self.emit, experiment.plan), collecting_seldom():
                progress = self._ask(call, entered, run)
        finally:
            threads.shutdown()
            self.writer.flush()
        if self.cache is not None:
            check_all_replayed(self.cache, experiment.plan, experiment.dataset.samples)
        if not progress.is_cut_short and run.is_last:
            self.store.finish_experiment(entered.key)

    def _begin_spending(
        self, experiment: Experiment, done: list[set[tuple[int, int]]]
    ) -> Callable[[str, int, str], None] | None:
        """Register which arms will be queried for which samples. With a budget, return the function to call when a unit is done."""
        nodeid, plan = experiment.plan.nodeid, experiment.plan
        if self.spending is None or self.spending.account(nodeid) is None:
            return None
        samples = experiment.dataset.samples
        settled = [{(samples[position].id, repeat) for position, repeat in units} for units in done]
        asking = [(number, arm.name) for number, arm in enumerate(plan.arms) if arm.stored_run is None]
        self.spending.begin(
            nodeid,
            lambda sample, repeat: [
                name
                for number, name in asking
                if repeat < experiment.draws[number].size * (1 + len(experiment.variants))
                and (sample, repeat) not in settled[number]
            ],
        )
        return partial(self.spending.release, nodeid)

    def _ask(self, call: Call, entered: EnteredExperiment, run: ExperimentRun) -> Progress:
        experiment, plan = call.experiment, call.experiment.plan
        looks = self._begin_looks(experiment, entered.key, run.rule)
        positions = looks.order if looks is not None and run.positions is None else run.positions
        open_units = OpenUnits(plan, entered.done, self.settings.seed, order=positions, twins=experiment.twins)
        progress = Progress(total=sum(sum(open_units.count_open(number)) for number in range(plan.rounds)))
        for opened_arm, done in zip(experiment.opened_arms, entered.done, strict=False):
            for backend in collect_backends([opened_arm]) if done else ():
                note_earlier_answers(backend)
        future = self.loop.submit(self._run_rounds(call, entered, open_units, progress, looks, run))

        def tick() -> None:
            self.check_interrupt()
            for check in run.on_tick:
                check()
            run.show(progress)

        _wait(future, tick)
        run.show(None)
        return progress

    async def _run_rounds(
        self,
        call: Call,
        entered: EnteredExperiment,
        open_units: OpenUnits,
        progress: Progress,
        looks: Looks | None,
        run: ExperimentRun,
    ) -> None:
        experiment, plan = call.experiment, call.experiment.plan
        samples = experiment.dataset.samples
        spanned = with_sample_spans(self.emit, call, plan, lambda position: samples[position].id)
        scored = ScoredUnits(experiment, spanned, self.deadline)
        keep = self._outcome_writer(experiment, scored, entered.arms, looks)
        # A round begins when the one before has ended, so that a slow hour does not affect all of them.
        for number in range(plan.rounds):
            units = run.until_over(open_units.of_round(number))
            await run_units(
                units if looks is None else looks.of_live_arms(units, call.release),
                scored,
                keep,
                concurrency=self.settings.concurrency,
                arms=tuple(arm.name for arm in plan.arms),
                planned=open_units.count_open(number),
                progress=progress,
                answered=[bool(done) or number > 0 for done in entered.done],
                behind=self.writer.behind,
            )

    def _begin_looks(self, experiment: Experiment, key: int, rule: LookRule | None) -> Looks | None:
        """Return the looks at the experiment, with the replies that are stored already; None for a run without looks."""
        plan = experiment.plan
        if rule is None:
            return None
        # Its analysis is loaded only where a run looks before its end.
        from pytest_crucible.session.looks import Looks

        stored = load_experiment(self.store, key)
        samples, twins = experiment.dataset.samples, experiment.twins
        return Looks(rule, plan, samples, stored.arms, stored.known_kinds, stored.variants, twins)

    def _outcome_writer(
        self, experiment: Experiment, scored: ScoredUnits, arms: list[list[int]], looks: Looks | None
    ) -> Callable[[Outcome], None]:
        """Return a function that hands an outcome and its scores to the writer."""
        samples, names = experiment.dataset.samples, [arm.name for arm in experiment.plan.arms]

        def keep(outcome: Outcome) -> None:
            observations, lost = scored.pop_scores(outcome)
            self.writer.add(outcome, arms[outcome.unit.arm][outcome.unit.variant], observations, lost)
            if looks is not None:
                looks.add(outcome, observations, lost)
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
