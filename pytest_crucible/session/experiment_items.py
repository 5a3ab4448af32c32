"""The items that are experiments, while pytest runs them: all samples, or one sample alone.

Units go to the engine, outcomes to the metrics, observations to the store, counts to the progress line.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.adapters.open_backend import check_all_replayed
from pytest_crucible.adapters.opened_arm import collect_backends
from pytest_crucible.backends.circuit_breaker import note_earlier_answers
from pytest_crucible.backends.limiting.history import explain_load
from pytest_crucible.metrics.models.scorers import scorer_reports
from pytest_crucible.plan.arms import ListedUnits, OpenUnits
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Lost, Observation, Outcome, Unit
from pytest_crucible.records.errors import CrucibleError, StoreError, UnsuitableMetric
from pytest_crucible.report.printable import printable
from pytest_crucible.sample.engine import MOST_OPEN, Progress, Watch, run_units
from pytest_crucible.sample.garbage import collecting_seldom
from pytest_crucible.sample.loop import DaemonThreads
from pytest_crucible.session.call import Call, ScoredUnits
from pytest_crucible.session.events import experiment_span, with_sample_spans
from pytest_crucible.session.experiment import CrucibleWarning, Experiment, ExperimentRun, SentRound, StoredResult
from pytest_crucible.session.items import collected_nodeid
from pytest_crucible.session.late_imports import import_analysis
from pytest_crucible.session.progress import progress_display
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.resources import emit_budgets
from pytest_crucible.session.run_entry import EnteredExperiment, ExperimentEntry
from pytest_crucible.session.state import SessionState
from pytest_crucible.session.stored_calls import StoredCalls, open_stored_calls
from pytest_crucible.signs import is_experiment
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.reused_outcomes import add_sent_again

if TYPE_CHECKING:
    from pytest_crucible.runs.looks import LookRule, Looks

# The main thread updates the progress line and reacts to Ctrl-C this often: fast for a reader, idle for a processor.
TICK_S = 0.2


@dataclass
class _Work:
    """The units of an experiment while they are sent."""

    call: Call
    entered: EnteredExperiment
    stored_calls: StoredCalls
    reopen: Callable[[Unit], None]
    """Reserves the budget of a unit that is sent again."""
    open_units: OpenUnits | ListedUnits
    progress: Progress
    looks: Looks | None
    run: ExperimentRun

    def while_open(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Yield units and those that are sent again, until the run is over, of the arms that go on."""
        sent = self.run.until_over(self.stored_calls.with_waiting(units))
        return sent if self.looks is None else self.looks.of_live_arms(sent, self.call.release)

    def is_over(self) -> bool:
        """Return whether no further unit is sent."""
        is_over = self.run.is_over is not None and self.run.is_over()
        return is_over or (self.looks is not None and not self.looks.live)


class _OutcomeKeeper:
    """Hands outcomes and their scores to the writer, to looks, and to the hook for observations."""

    def __init__(self, work: _Work, forget: Callable[[Sequence[Unit]], None], state: SessionState) -> None:
        """`forget` is called with the units whose stored replies are not used any more."""
        plan = work.call.experiment.plan
        self._work, self._forget, self._nodeid = work, forget, plan.nodeid
        self._samples, self._names = work.call.experiment.dataset.samples, [arm.name for arm in plan.arms]
        self._writer, self._on_observation = state.resources.writer, observation_hook(state.config)

    def keep(self, scored: ScoredUnits, outcome: Outcome) -> None:
        """Keep what this process has sent and scored."""
        observations, lost = scored.pop_scores(outcome)
        # First of all: a look must not see stored replies to other calls.
        self._forget(self._work.stored_calls.add(outcome))
        unit = outcome.unit
        self._writer.add(outcome, self._work.entered.arms[unit.arm][unit.variant], observations, lost)
        self._pass_on(outcome, observations, lost)

    def keep_stored(self, result: StoredResult) -> None:
        """Keep what another process has sent and scored, whose rows the writer gets apart."""
        self._forget(self._work.stored_calls.add_rows(result.outcome.unit, result.calls))
        self._work.call.release(result.outcome.unit)
        self._pass_on(result.outcome, result.observations, result.lost)

    def _pass_on(self, outcome: Outcome, observations: Sequence[Observation], lost: Sequence[Lost]) -> None:
        if self._work.looks is not None:
            self._work.looks.add(outcome, observations, lost)
        if self._on_observation is not None:
            sample = self._samples[outcome.unit.position]
            for observation in observations:
                self._on_observation(
                    nodeid=self._nodeid, arm=self._names[outcome.unit.arm], sample=sample.id, observation=observation
                )


class ExperimentItems:
    """Runs an item as an experiment, or one sample of it alone."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def run_item(self, item: pytest.Function) -> bool | None:
        """Run a marked function, and return True; None for any other function, which pytest runs."""
        state = self._state
        if not is_experiment(item):
            return None
        nodeid = collected_nodeid(item)
        experiment = state.collection.experiments.get(nodeid)
        state.collection.failures.raise_for(nodeid)
        # A worker of xdist cannot refuse to begin: it skips its items, and their reports have the reason.
        if experiment is None or state.messages.errors:
            pytest.skip(self.skip_reason())
        if state.settings.sample is not None:
            self._run_single_sample(item, experiment, state.settings.sample)
            return True
        run = ExperimentRun(item, experiment)
        if not state.config.hook.pytest_crucible_run(run=run):
            self._run_and_report(run)
        return True

    def skip_reason(self) -> str:
        """Return why an experiment or the sample of a joined test is not run."""
        return "not run: " + self._state.hide(
            next(iter(self._state.messages.errors), "this test was not planned as an experiment")
        )

    def _run_and_report(self, run: ExperimentRun) -> None:
        """Run an experiment. What is known of an error only now goes to the session's messages."""
        state = self._state
        item = run.item
        try:
            shared = state.resources.shared
            shared.limiters.restart_load()
            run.show = progress_display(state.config, item.nodeid, shared)
            with state.interruptions.defer_signals():
                for begin in run.before:
                    begin(run)
                self.ask(run)
                for end in run.after:
                    end()
        except CrucibleError as error:
            if isinstance(error, StoreError):
                state.messages.add_failures([error])
            # Known only from the first scores, but an error of the suite like those before the first request.
            if isinstance(error, UnsuitableMetric):
                state.messages.problems.append(str(error))
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        finally:
            # Also after an error: the money is spent.
            emit_budgets(state.publisher.emit, state.resources.shared.spending, collected_nodeid(item))
            state.messages.lines += scorer_reports()
            if sentence := explain_load(state.resources.shared.limiters.load()):
                state.messages.lines.append(f"{item.name}: {sentence}")

    def ask(self, run: ExperimentRun) -> None:
        """Request every reply that is not stored yet, of the arms that go on.

        Raises CrucibleError (an arm without any answer, a backend that refuses, replies that cannot be replayed, a store
        that fails) and KeyboardInterrupt; all replies until then are stored.
        """
        state, resources = self._state, self._state.resources
        # Here and not when it is planned: where warnings are errors, this one ends the test and not the session.
        experiment = run.experiment
        for warning in experiment.warnings if run.is_first else ():
            run.item.warn(CrucibleWarning(printable(warning)))
        # Stored replies are copied first: only the other units cost requests.
        entered = ExperimentEntry(resources.store, state.settings, state.run).enter(
            experiment, is_first=run.is_first, answered=run.answered
        )
        if entered.lines:
            state.messages.lines += entered.lines
        stored_calls = open_stored_calls(
            resources.store,
            state.run,
            experiment,
            entered.arms,
            with_messages=not key_redactor(state.config).redacts_findings,
        )
        threads = DaemonThreads(MOST_OPEN * state.settings.concurrency)
        try:
            on_unit_done, reopen = self._begin_spending(experiment, entered.done)
            call = Call(run.item, experiment, resources.loop, threads, state.deadline, on_unit_done)
            with experiment_span(state.publisher.sample_emit, experiment.plan), collecting_seldom():
                progress = self._ask(call, entered, stored_calls, reopen, run)
        finally:
            threads.shutdown()
            resources.writer.flush()
            for arm, sent in stored_calls.sent_again.items():
                add_sent_again(resources.store, state.run, entered.arms[arm][0], sent)
        if resources.shared.cache is not None:
            check_all_replayed(resources.shared.cache, experiment.plan, experiment.dataset.samples)
        if not progress.is_cut_short and run.is_last:
            resources.store.finish_experiment(entered.key)

    def _begin_spending(
        self, experiment: Experiment, done: list[set[tuple[int, int]]]
    ) -> tuple[Callable[[str, int, str], None] | None, Callable[[Unit], None]]:
        """Register which arms will be queried for which samples.

        Return the function to call when a unit is done, None without a budget; and that for a unit that is sent again.
        """
        nodeid, plan = experiment.plan.nodeid, experiment.plan
        spending = self._state.resources.shared.spending
        if spending.account(nodeid) is None:
            return None, lambda unit: None
        samples = experiment.dataset.samples
        settled = [{(samples[position].id, repeat) for position, repeat in units} for units in done]
        asking = [(number, arm.name) for number, arm in enumerate(plan.arms) if arm.stored_run is None]
        spending.begin(
            nodeid,
            lambda sample, repeat: [
                name
                for number, name in asking
                if repeat < experiment.draws[number].size * (1 + len(experiment.variants))
                and (sample, repeat) not in settled[number]
            ],
        )

        numbers = {name: number for number, name in asking}

        def release(sample: str, repeat: int, arm: str) -> None:
            # Nothing is reserved for it when a stored reply of another arm is sent again.
            settled[numbers[arm]].add((sample, repeat))
            spending.release(nodeid, sample, repeat, arm)

        def reopen(unit: Unit) -> None:
            settled[unit.arm].discard((samples[unit.position].id, experiment.repeat(unit)))

        return release, reopen

    def _ask(
        self,
        call: Call,
        entered: EnteredExperiment,
        stored_calls: StoredCalls,
        reopen: Callable[[Unit], None],
        run: ExperimentRun,
    ) -> Progress:
        """Run all units; `reopen` reserves the budget of one that is sent again."""
        state = self._state
        experiment, plan = call.experiment, call.experiment.plan
        looks = self._begin_looks(experiment, entered.key, run.rule)
        positions = looks.order if looks is not None and run.positions is None else run.positions
        open_units: OpenUnits | ListedUnits = (
            OpenUnits(plan, entered.done, state.settings.seed, order=positions, twins=experiment.twins)
            if run.units is None
            else ListedUnits(plan, entered.done, run.units)
        )
        progress = Progress(total=sum(sum(open_units.count_open(number)) for number in range(plan.rounds)))
        for opened_arm, done in zip(experiment.opened_arms, entered.done, strict=False):
            for backend in collect_backends([opened_arm]) if done else ():
                note_earlier_answers(backend)
        work = _Work(call, entered, stored_calls, reopen, open_units, progress, looks, run)
        self._forget(work, stored_calls.pop_removed())
        future = state.resources.loop.submit(self._run_rounds(work))

        def tick() -> None:
            state.interruptions.check()
            # In a worker of pytest-xdist nothing is analysed.
            if not state.is_worker:
                import_analysis(state.config, state.collection.plans())
            for check in run.on_tick:
                check()
            run.show(progress)

        _wait(future, tick)
        run.show(None)
        return progress

    async def _run_rounds(self, work: _Work) -> None:
        experiment, plan, state = work.call.experiment, work.call.experiment.plan, self._state
        samples = experiment.dataset.samples
        spanned = with_sample_spans(state.publisher.sample_emit, work.call, plan, lambda position: samples[position].id)
        scored = ScoredUnits(experiment, spanned, state.deadline)
        keep = _OutcomeKeeper(work, partial(self._forget, work), self._state)

        async def send(units: Iterable[Unit], planned: list[int], number: int) -> None:
            answered = [bool(done) or number > 0 for done in work.entered.done]
            names = tuple(arm.name for arm in plan.arms)
            if work.run.sender is not None:
                sent = SentRound(
                    units=work.while_open(units),
                    number=number,
                    experiment=experiment,
                    key=work.entered.key,
                    arms=work.entered.arms,
                    watch=Watch(names, planned, answered),
                    progress=work.progress,
                    writer=state.resources.writer,
                    keep=keep.keep_stored,
                )
                await work.run.sender.send(sent)
                return
            await run_units(
                work.while_open(units),
                scored,
                partial(keep.keep, scored),
                concurrency=state.settings.concurrency,
                arms=names,
                planned=planned,
                progress=work.progress,
                answered=answered,
                behind=state.resources.writer.behind,
            )

        # A round begins when the one before has ended, so that a slow hour does not affect all of them.
        for number in range(plan.rounds):
            await send(work.open_units.of_round(number), work.open_units.count_open(number), number)
            # The last replies may have shown that further units have to be sent again.
            while work.stored_calls.waiting and not work.is_over():
                await send((), work.stored_calls.count_waiting(), number)

    def _forget(self, work: _Work, units: Sequence[Unit]) -> None:
        """Forget the stored replies of units that are sent again."""
        if not units:
            return
        work.progress.total += len(units)
        for unit in units:
            work.reopen(unit)
            arm = work.entered.arms[unit.arm][unit.variant]
            self._state.resources.writer.remove_copied(arm, unit.position, unit.repeat)
        if work.looks is not None:
            work.looks.remove(units)

    def _begin_looks(self, experiment: Experiment, key: int, rule: LookRule | None) -> Looks | None:
        """Return the looks at the experiment, with the replies that are stored already; None for a run without looks."""
        plan = experiment.plan
        if rule is None:
            return None
        # Its analysis is loaded only where a run looks before its end.
        from pytest_crucible.runs.looks import Looks

        stored = load_experiment(self._state.resources.store, key)
        samples, twins = experiment.dataset.samples, experiment.twins
        return Looks(rule, plan, samples, stored.arms, stored.known_kinds, stored.variants, twins)

    def _run_single_sample(self, item: pytest.Function, experiment: Experiment, sample_id: str) -> None:
        # Imported here: sessions of experiments have no single sample.
        from pytest_crucible.session.single_sample import run_single_sample

        state = self._state
        position = experiment.position(sample_id)
        if position is None:
            pytest.skip(f"no sample {sample_id!r} here")
        try:
            lines = run_single_sample(item, experiment, position, state.resources.loop)
        # The reply cache is in the store.
        except StoreError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        state.messages.lines += map(state.hide.redact_cut, lines)


def _wait(future: concurrent.futures.Future[None], tick: Callable[[], None]) -> None:
    """Wait and show the progress. Any interrupt first cancels the requests in flight."""
    try:
        while True:
            try:
                return future.result(timeout=TICK_S)
            except concurrent.futures.TimeoutError:
                # The run itself may have raised TimeoutError, or have ended since: then there is nothing to wait for.
                if future.done():
                    return future.result()
                tick()
    except BaseException:
        # Cancelled before pytest goes on: otherwise requests would be paid for and their replies dropped.
        future.cancel()
        concurrent.futures.wait([future], timeout=5)
        raise


def observation_hook(config: pytest.Config) -> Callable[..., None] | None:
    """Return the hook to call with each observation; None if no plugin implements it."""
    hook = config.hook.pytest_crucible_observed
    return partial(hook, config=config) if hook.get_hookimpls() else None
