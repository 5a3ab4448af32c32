"""One unit of an experiment: calls the test function, maps its exceptions to outcomes, and collects the scores."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends.protocol import find_innermost
from pytest_crucible.metrics.models.scorers import set_current_reply
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, Observation, Outcome, Reply, Sample, Unit, Value
from pytest_crucible.records.errors import BackendError, StoreError
from pytest_crucible.sample.engine import Deadline, ask_before, cut_off_by
from pytest_crucible.sample.invoke import Judgement, ask_async, ask_in_thread, needs_reply
from pytest_crucible.sample.loop import BackgroundLoop, DaemonThreads
from pytest_crucible.sample.sampler import BlockingSampler, InputEdit, Sampler
from pytest_crucible.score import Scored, check_score, own_scores, score_outcome
from pytest_crucible.session.experiment import BoundUnit, Experiment
from pytest_crucible.session.redaction import key_redactor

Ask = Callable[[Unit], Awaitable[Outcome]]


def classify_exception(error: BaseException, blames_arm: Callable[[], bool] = lambda: False) -> Judgement:
    """Return the outcome of a sample whose test function raised an exception.

    `blames_arm` returns whether it is what the arm has said that led to it.
    """
    if isinstance(error, pytest.skip.Exception):
        return "skipped"
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return "failed"
    if isinstance(error, StoreError | pytest.exit.Exception) or not isinstance(error, Exception):
        # A failing store and Ctrl-C concern all samples: the session has to end.
        return "stop"
    return "failed" if blames_arm() and not isinstance(error, BackendError) else "lost"


def has_replies(outcome: Outcome) -> bool:
    """Return whether all calls have replies, and there are some: where arms differ in code, an exception is then the arm's."""
    own = [call for call in outcome.calls if not call.judge]
    return bool(own) and all(call.reply is not None for call in own)


class ScoreRecorder:
    """The `score` argument of a test: `score(accuracy=True)`."""

    __slots__ = ("_facts", "_scores")

    def __init__(self, scores: dict[str, Value | None], facts: Mapping[str, MetricFacts]) -> None:
        self._scores = scores
        self._facts = facts

    def __call__(self, **scores: Any) -> None:
        """Record one value for each name: bool, a number, None if the metric does not apply, or a str as a label.

        Raises ValueError for an invalid score; the sample is then lost.
        """
        for name, value in scores.items():
            undeclared = MetricFacts(name=name, kind="text" if isinstance(value, str) else None)
            try:
                self._scores[name], _ = check_score(value, self._facts.get(name, undeclared))
            except ValueError as error:
                raise ValueError(f"score({name}=...) {str(error).replace('returned', 'was given', 1)}") from error


@dataclass(frozen=True)
class BoundFunction:
    """A test function with its arguments for one unit. Call it like the function; then close the unit."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    unit: BoundUnit
    is_async: bool

    def __call__(self, **arguments: Any) -> Any:
        """Return what the function returns; for an async one, something to await."""
        for enter in self.unit.on_enter:
            enter()
        return self.function(**arguments)


class Call:
    """One call of an experiment's function for one unit."""

    def __init__(
        self,
        item: pytest.Function,
        experiment: Experiment,
        loop: BackgroundLoop,
        threads: DaemonThreads,
        deadline: Deadline | None = None,
        on_unit_done: Callable[[str, int, str], None] | None = None,
    ) -> None:
        """`on_unit_done` is called with sample, repeat and arm of each unit that is done; the budget counts those to come."""
        self.experiment = experiment
        self.function = experiment.bind_function(item)
        self._item, self._parameters = item, inspect.signature(experiment.function).parameters
        self._arguments: dict[int, tuple[Collection[str], Mapping[str, Any]]] = {}
        """The results of `_arguments_of`, by the number of the arm."""
        self._facts = {metric.name: metric for metric in experiment.plan.metrics}
        self._loop, self._threads, self._deadline, self._on_unit_done = loop, threads, deadline, on_unit_done
        # Redacts the message of a failed assertion, in which pytest cuts long values, and learns what attacks make of findings.
        self._hide = key_redactor(item.config)

    def bind(
        self, outcome: Outcome, sample: Sample | None = None, draw: str = "", edit: InputEdit | None = None
    ) -> BoundFunction:
        """Return the function with its fixtures, and this call's sample (or another `sample` in its place), sampler and score."""
        sample = outcome.sample = sample or self.experiment.sample(outcome.unit)
        bound = BoundUnit(
            self.experiment,
            outcome,
            sample,
            self._loop,
            lambda opened, role: self._open_sampler(opened, role, sample.id, outcome, draw, edit),
        )
        if self.experiment.functions:
            bound.blames_arm = partial(has_replies, outcome)
        own = self.experiment.functions.get(outcome.unit.arm)
        is_async = own is not None or self.experiment.is_async
        injected, fixtures = self._arguments_of(outcome.unit.arm)
        arguments = dict(fixtures)
        if "sample" in injected:
            arguments["sample"] = sample
        if "sampler" in injected:
            sampler = bound.sampler if is_async else BlockingSampler(bound.sampler, bound.loop.loop)
            # A thread that outlives its time limit, or a stream that was left early, sends no further request.
            bound.on_close.append(sampler.close)
            arguments["sampler"] = sampler
        if "score" in injected:
            arguments["score"] = ScoreRecorder(outcome.scores, self._facts)
        for name, argument in self.experiment.arguments.items():
            if name in injected:
                arguments[name] = argument(bound)
        return BoundFunction(own or self.function, arguments, bound, is_async)

    def _arguments_of(self, arm: int) -> tuple[Collection[str], Mapping[str, Any]]:
        """Return the names of a function's arguments that differ between calls, and the values of the others."""
        if arm not in self._arguments:
            own = self.experiment.functions.get(arm)
            takes = self._parameters if own is None else own.takes
            fixtures = self.experiment.fixture_values(self._item, takes)
            self._arguments[arm] = self.experiment.injected_into(takes), fixtures
        return self._arguments[arm]

    def _open_sampler(
        self,
        opened_arm: OpenedArm | None,
        role: str,
        sample: str,
        outcome: Outcome,
        own_draw: str,
        edit: InputEdit | None,
    ) -> Sampler:
        """Return what sends requests of a unit to its arm, or to that of another model in a role."""
        opened_arm = opened_arm or self.experiment.opened_arms[outcome.unit.arm]
        draws = self.experiment.draws[outcome.unit.arm]
        backend = opened_arm.backend
        if opened_arm.trainings:
            backend = opened_arm.trainings[draws.training(outcome.unit.repeat)].backend
        if backend is None:
            # Planning refuses an experiment without a backend, so no user sees this.
            raise RuntimeError(f"arm {opened_arm.arm.name!r} has no backend")
        nodeid, repeat = self.experiment.plan.nodeid, self.experiment.repeat(outcome.unit)
        name = draws.cache_name(outcome.unit.repeat)
        twin = draws.twin(outcome.unit.variant)
        if twin:
            # The reply to a twin is a draw of its own, even if its prompt is that of the sample.
            name = f"{self.experiment.plan.variant_name(twin)}: {name}{own_draw and f', {own_draw}'}"
        draw = (None if name == repeat else name) if edit is None else edit.draw
        return Sampler(
            backend,
            opened_arm.arm,
            sample,
            repeat,
            nodeid,
            outcome.calls,
            draw,
            is_trial=outcome.is_trial,
            role=role,
            scored_arm=self.experiment.plan.arms[outcome.unit.arm].name if role else "",
            edit=edit,
        )

    async def __call__(self, unit: Unit) -> Outcome:
        try:
            return await ask_before(self._deadline, Outcome(unit), self._ask)
        finally:
            self.release(unit)

    def release(self, unit: Unit) -> None:
        """Free the budget that is reserved for a unit, which is done or is not sent."""
        if self._on_unit_done is not None:
            self._on_unit_done(
                self.experiment.dataset.samples[unit.position].id,
                self.experiment.repeat(unit),
                self.experiment.plan.arms[unit.arm].name,
            )

    async def _ask(self, outcome: Outcome) -> Outcome:
        late = self.experiment.late_variants.get(self.experiment.twin(outcome.unit))
        if late is not None:
            return await late.ask(self, outcome)
        return await self.run(outcome)

    async def run(
        self, outcome: Outcome, sample: Sample | None = None, draw: str = "", edit: InputEdit | None = None
    ) -> Outcome:
        """Call the function for a unit, or for another `sample` in its place, whose requests are a `draw` of their own.

        `edit` changes the inputs of its requests.
        """
        bound = self.bind(outcome, sample, draw, edit)
        own_sample = self.experiment.dataset.samples[outcome.unit.position]
        plan, repeat = self.experiment.plan, self.experiment.repeat(outcome.unit)
        arm = "" if outcome.is_trial else plan.arms[outcome.unit.arm].name
        # A guard may query a judge while the sample is sent: its request belongs to this unit, and is cached there.
        set_current_reply(plan.nodeid, own_sample.id, repeat, outcome.calls, feature_rows=outcome.feature_rows, arm=arm)
        timeout_s, classify = self.experiment.timeout_s, partial(classify_exception, blames_arm=bound.unit.blames_arm)
        try:
            if not await bound.unit.open():
                return outcome
            if bound.is_async:
                await ask_async(bound, bound.arguments, outcome, timeout_s=timeout_s, classify=classify)
            else:
                await ask_in_thread(
                    bound,
                    bound.arguments,
                    outcome,
                    timeout_s=timeout_s,
                    classify=classify,
                    threads=self._threads,
                )
        finally:
            await bound.unit.close()
            if self.experiment.twin(outcome.unit):
                self._hide.learn_sent(own_sample.input, outcome.calls)
        if outcome.failure == "assertion":
            outcome.detail = self._hide.redact_cut(outcome.detail)
        if self.experiment.metrics and outcome.reply is None:
            needs_reply(outcome, own_sample, self.function.__name__)
        return outcome


def _model_of(arm: OpenedArm) -> Any:
    """Return the backend of an arm's model without wrappers; None for an arm without one, and for several models."""
    return None if arm.backend is None or arm.trainings else find_innermost(arm.backend)


class ScoredUnits:
    """Runs a unit and scores its outcome; `pop_scores` returns the scores, once.

    Scoring is a part of the unit, because a metric may query a model: the run's deadline applies to it, too.
    """

    def __init__(self, experiment: Experiment, ask: Ask, deadline: Deadline | None) -> None:
        self._experiment = experiment
        self._ask = ask
        self._deadline = deadline
        self._passed = any(metric.name == "passed" for metric in experiment.plan.metrics)
        # Finding the model behind the wrappers of an arm for each reply would take as long as a simple metric.
        self._models = [_model_of(arm) for arm in experiment.opened_arms]
        self._scores: dict[Unit, Scored] = {}

    async def __call__(self, unit: Unit) -> Outcome:
        """Return the outcome: lost if scoring was cut short. Raises what the request raises, and Refused."""
        outcome = None
        try:
            outcome = await cut_off_by(self._deadline, await self._ask(unit), self._score)
            return outcome
        finally:
            for release in self._experiment.on_scored:
                await release(unit, outcome, self._scores.get(unit))

    def pop_scores(self, outcome: Outcome) -> Scored:
        scores = self._scores.pop(outcome.unit, None)
        return own_scores(outcome, passed=self._passed) if outcome.lost or scores is None else scores

    async def _score(self, outcome: Outcome) -> Outcome:
        sample = outcome.sample or self._experiment.sample(outcome.unit)
        experiment = self._experiment
        repeat, variant = experiment.repeat(outcome.unit), experiment.plan.variant_name(experiment.twin(outcome.unit))
        model = self._models[outcome.unit.arm]
        arm = experiment.plan.arms[outcome.unit.arm].name
        set_current_reply(
            experiment.plan.nodeid, sample.id, repeat, outcome.calls, variant, model, outcome.feature_rows, arm
        )
        scores = await score_outcome(
            outcome,
            experiment.metrics_of(outcome.unit),
            sample,
            passed=self._passed,
            reasoning=experiment.reasoning,
            further=experiment.further_scores,
        )
        if outcome.failure and experiment.twin(outcome.unit):
            scores[0].extend(await self._score_failed(outcome, sample))
        self._scores[outcome.unit] = scores
        return outcome

    async def _score_failed(self, outcome: Outcome, sample: Sample) -> list[Observation]:
        """Return the injection scores of a failed reply to a twin, until it failed: a failure is not an obeyed injection."""
        replies = [call.reply for call in outcome.calls if call.reply is not None and not call.judge]
        reply = outcome.reply or (replies[-1] if replies else Reply(text=""))
        scored = Outcome(outcome.unit, reply=reply, calls=outcome.calls)
        metrics, further = self._experiment.variant_metrics, self._experiment.further_scores
        observations, _ = await score_outcome(scored, metrics, sample, passed=False, further=further)
        return observations
