"""Runs one experiment: units go to the engine, outcomes to the metrics, observations to the store, counts to the progress line."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.adapters.replay import check_all_replayed
from pytest_crucible.backends.budget.spending import Spending
from pytest_crucible.backends.cache.policy import CachePolicy
from pytest_crucible.records import ArmOutcomes, Emit, Outcome, Plan, Unit
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
from pytest_crucible.session.open_units import OpenUnits
from pytest_crucible.store.experiments import StoredExperiment, load_experiment
from pytest_crucible.store.past_sweeps import find_member
from pytest_crucible.store.reused_outcomes import copy_outcomes, find_arm
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer

if TYPE_CHECKING:
    from pytest_crucible.session.looks import LookRule, Looks
    from pytest_crucible.session.stage_run import StageRun

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

    def __call__(
        self,
        item: pytest.Function,
        experiment: Experiment,
        show: Callable[[Progress | None], None],
        rule: LookRule | None = None,
        stage: StageRun | None = None,
        answered: int = 0,
    ) -> None:
        """Request every reply that is not stored yet: of the arms that `rule` lets go on at its looks, or of a stage.

        The first `answered` arms have had their requests in this run: trials of a search before the next one.

        Raises CrucibleError (an arm without any answer, a backend that refuses, replies that cannot be replayed, a store
        that fails) and KeyboardInterrupt; all replies until then are stored.
        """
        # Here and not when it is planned: where warnings are errors, this one ends the test and not the session.
        for warning in experiment.warnings if stage is None or stage.is_first else ():
            item.warn(CrucibleWarning(printable(warning)))
        # Stored replies are copied first: only the other units cost requests.
        key, arms, done = self._add_to_store(experiment, stage, answered)
        threads = DaemonThreads(self.settings.concurrency)
        try:
            on_unit_done = self._begin_spending(experiment, done)
            call = Call.prepare(item, experiment, self.loop, threads, self.deadline, on_unit_done)
            with experiment_span(self.emit, experiment.plan), collecting_seldom():
                progress = self._ask(call, key, arms, done, show, rule, stage)
        finally:
            threads.shutdown()
            self.writer.flush()
        if self.cache is not None:
            check_all_replayed(self.cache, experiment.plan, experiment.dataset.samples)
        if not progress.is_cut_short and (stage is None or stage.is_last):
            self.store.finish_experiment(key)

    # -- what is known already ----------------------------------------------------------------------------------

    def _add_to_store(
        self, experiment: Experiment, stage: StageRun | None, answered: int
    ) -> tuple[int, list[list[int]], list[set[tuple[int, int]]]]:
        """Return the store's keys of the experiment and, by arm and prompt, of its arms, and the units with stored replies."""
        if stage is not None and not stage.is_first:
            return self._continue_in_store(experiment)
        plan = experiment.plan
        key = self.store.add_experiment(self.run, plan, experiment.dataset.samples, experiment.variants)
        arms, done = [], []
        for number, draws in enumerate(experiment.draws):
            keys = [self._add_arm(key, plan, number, variant) for variant in plan.variant_numbers]
            done.append(
                {
                    (position, draws.place(variant, repeat))
                    for variant, target in enumerate(keys)
                    for position, repeat in self._reuse_stored(plan, number, variant, target)
                }
            )
            arms.append(keys)
        if answered:
            done[:answered] = stored_units(load_experiment(self.store, key))[:answered]
        return key, arms, done

    def _continue_in_store(self, experiment: Experiment) -> tuple[int, list[list[int]], list[set[tuple[int, int]]]]:
        """Return the same for an experiment that has begun: its earlier stages have answered units, or lost them."""
        plan = experiment.plan
        key = self.store.add_experiment(self.run, plan, experiment.dataset.samples, experiment.variants)
        arms = [
            [self._add_arm(key, plan, number, variant) for variant in plan.variant_numbers]
            for number in range(len(plan.arms))
        ]
        return key, arms, stored_units(load_experiment(self.store, key))

    def _add_arm(self, experiment: int, plan: Plan, number: int, variant: int) -> int:
        fingerprint = arm_fingerprint(plan, number, variant)
        # Variants are numbered after all arms, so that an arm's own number stays its place in the plan.
        place = number + len(plan.arms) * variant
        original = self.store.add_arm(experiment, number, plan.arms[number].name, arm_fingerprint(plan, number))
        if not variant:
            return original
        return self.store.add_arm(
            experiment, place, plan.arms[number].name, fingerprint, variant=variant, original=original
        )

    def _reuse_stored(self, plan: Plan, number: int, variant: int, target: int) -> set[tuple[int, int]]:
        """Copy the stored replies that an arm may use."""
        source = find_stored_replies(self.store, self.settings, plan, number, variant, run=self.run)
        if source is None:
            return set()
        return copy_outcomes(self.store, source[0], target, source_run=source[1], draws=plan.draws(number))

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
            lambda sample, repeat: [
                name
                for number, name in asking
                if repeat < experiment.draws[number].size * (1 + len(experiment.variants))
                and (sample, repeat) not in settled[number]
            ],
        )
        return partial(self.spending.release, nodeid)

    # -- asking -------------------------------------------------------------------------------------------------

    def _ask(
        self,
        call: Call,
        key: int,
        arms: list[list[int]],
        done: list[set[tuple[int, int]]],
        show: Callable[[Progress | None], None],
        rule: LookRule | None,
        stage: StageRun | None,
    ) -> Progress:
        experiment, plan = call.experiment, call.experiment.plan
        positions = None
        if stage is not None:
            from pytest_crucible.session.stage_run import stage_positions

            positions = stage_positions(plan, experiment.dataset.samples, stage.number)
            rule = stage.look_rule(plan, len(positions))
        looks = self._begin_looks(experiment, key, rule)
        if looks is not None and positions is None:
            positions = looks.order
        open_units = OpenUnits(plan, done, self.settings.seed, order=positions, twins=experiment.twins)
        progress = Progress(total=sum(sum(open_units.count_open(number)) for number in range(plan.rounds)))
        samples = experiment.dataset.samples
        spanned = with_sample_spans(self.emit, call, plan, lambda position: samples[position].id)
        scored = ScoredUnits(experiment, spanned, self.deadline)
        keep = self._outcome_writer(experiment, scored, arms, looks)

        def units_of_round(number: int) -> Iterator[Unit]:
            units = open_units.of_round(number)
            units = units if stage is None else stage.until_over(units)
            return units if looks is None else looks.of_live_arms(units, call.release)

        async def run_rounds() -> None:
            # A round begins when the one before has ended, so that a slow hour does not affect all of them.
            for number in range(plan.rounds):
                await run_units(
                    units_of_round(number),
                    scored,
                    keep,
                    concurrency=self.settings.concurrency,
                    arms=tuple(arm.name for arm in plan.arms),
                    planned=open_units.count_open(number),
                    progress=progress,
                    answered=[bool(units) or number > 0 for units in done],
                    behind=self.writer.behind,
                )

        future = self.loop.submit(run_rounds())

        def tick() -> None:
            self.check_interrupt()
            if stage is not None:
                stage.check_session()
            show(progress)

        _wait(future, tick)
        show(None)
        return progress

    def _begin_looks(self, experiment: Experiment, key: int, rule: LookRule | None) -> Looks | None:
        """Return the looks at the experiment, with the replies that are stored already; None for a run without looks."""
        plan = experiment.plan
        if rule is None and plan.look_alpha is None:
            return None
        # Its analysis is loaded only where a run looks before its end.
        from pytest_crucible.session.early_stop import StopWhenSettled
        from pytest_crucible.session.looks import Looks

        stored = load_experiment(self.store, key)
        rule = rule or StopWhenSettled(plan.look_alpha or self.settings.alpha)
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


def stored_units(stored: StoredExperiment) -> list[set[tuple[int, int]]]:
    """Return, by arm, the (position, place) of the units that are answered or lost, those of variants included."""
    plan = stored.plan
    return [
        done_units(answers)
        | {
            (position, plan.draws(number).size * twin + repeat)
            for twin, of_arms in enumerate(stored.variants.values(), start=1)
            for position, repeat in done_units(of_arms[number])
        }
        for number, answers in enumerate(stored.arms)
    ]


def done_units(answers: ArmOutcomes) -> set[tuple[int, int]]:
    """Return (position, repeat) of the units that an arm has answered or lost."""
    lost = {(loss.unit.position, loss.unit.repeat) for loss in answers.lost if loss.metric is None}
    return lost | set(zip(answers.positions, answers.repeats, strict=True))


def find_stored_replies(
    store: RunStore, settings: Settings, plan: Plan, number: int, variant: int, *, run: str
) -> tuple[int, str] | None:
    """Return key and run of the stored replies that an arm may use; None without any.

    A baseline may, unless --crucible-fresh; with --crucible-resume every arm may. The winner of a sweep has answered the samples
    that chose it.
    """
    arm, fingerprint = plan.arms[number], arm_fingerprint(plan, number, variant)
    source = None
    twin = plan.draws(number).twin(variant)
    chose = plan.chosen_among > 1 and plan.sweep is not None and plan.sweep.test == plan.nodeid
    if run and not number and chose and plan.sweep is not None and not twin:
        # The candidate has answered these samples when it was chosen.
        source = find_member(store, run, plan.sweep.nodeid, arm.name, variant)
    if source is not None:
        return source
    if arm.stored_run is not None and twin:
        return store.stored_twins(arm.stored_run, plan.nodeid, variant, plan.variants[twin - 1].sha256)
    if arm.stored_run is not None:
        source = store.stored_candidate(arm.stored_run, plan.nodeid, variant)[:2]
    elif settings.resume:
        source = find_arm(store, fingerprint, run=run, latest=True)
    # A refreshed cache would be pointless if stored replies were used instead.
    fresh = settings.fresh or settings.cache == "refresh"
    if source is None and arm.role == "baseline" and not fresh:
        source = find_arm(store, fingerprint, run=run)
    return source


def arm_fingerprint(plan: Plan, number: int, variant: int = 0) -> str:
    """Return the key of an arm's stored replies to one form of the prompt: a hash of everything that they depend on."""
    arm, parts = plan.arms[number], plan.fingerprint
    parts_of_key = [parts.dataset, parts.function, parts.metrics, parts.sampling, arm.identity, dict(arm.parameters)]
    parts_of_key += [parts.reasoning] if parts.reasoning else []
    twin = plan.draws(number).twin(variant)
    if plan.prompts:
        form = variant % len(plan.prompts)
        parts_of_key += [{"prompts": [prompt.sha256 for prompt in plan.prompts], "variant": form}]
    if twin:
        # Not a part of the samples' own key: a new variant leaves the replies to them in use.
        parts_of_key += [{"twins": plan.variants[twin - 1].sha256}]
    if arm.name in plan.arm_prompts:
        # The arm's identity has the name of a file only, whose text may change.
        parts_of_key += [{"prompt": plan.arm_prompts[arm.name]}]
    return hashlib.sha256(json.dumps(parts_of_key, sort_keys=True, default=repr).encode()).hexdigest()


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
