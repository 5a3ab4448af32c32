"""The items that are experiments, while pytest runs them: all samples, or one sample alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from pytest_crucible.backends.limiting.limiter import explain_load
from pytest_crucible.metrics.models.scorers import scorer_reports, set_current_reply
from pytest_crucible.records import Lost, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.records.errors import CrucibleError, StoreError, UnsuitableMetric
from pytest_crucible.report.printable import AN_ID, printable
from pytest_crucible.sample.background_loop import BackgroundLoop
from pytest_crucible.sample.threads import DaemonThreads
from pytest_crucible.score.apply import Scored, score_outcome
from pytest_crucible.session.call import Call
from pytest_crucible.session.experiment import Experiment, ExperimentRun
from pytest_crucible.session.items import collected_nodeid
from pytest_crucible.session.markers import is_experiment
from pytest_crucible.session.progress import progress_display
from pytest_crucible.session.resources import emit_budgets
from pytest_crucible.session.run_experiment import ExperimentRunner
from pytest_crucible.session.state import SessionState


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
        """Request every reply of a run that is not stored yet. Raises CrucibleError and KeyboardInterrupt."""
        state = self._state
        resources = state.resources
        runner = ExperimentRunner(
            state.run,
            state.settings,
            resources.store,
            resources.writer,
            resources.loop,
            observation_hook(state.config),
            cache=resources.shared.cache,
            deadline=state.deadline,
            spending=resources.shared.spending,
            emit=state.publisher.sample_emit,
            check_interrupt=state.interruptions.check,
        )
        runner(run)

    def _run_single_sample(self, item: pytest.Function, experiment: Experiment, sample_id: str) -> None:
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


def observation_hook(config: pytest.Config) -> Callable[..., None] | None:
    """Return the hook to call with each observation; None if no plugin implements it."""
    hook = config.hook.pytest_crucible_observed
    return partial(hook, config=config) if hook.get_hookimpls() else None


def run_single_sample(item: pytest.Function, experiment: Experiment, position: int, loop: BackgroundLoop) -> list[str]:
    """Run one sample of the candidate in the main thread, where a debugger works; return the requests, the reply and the scores.

    Raises the test's own exception.
    """
    call = Call.prepare(item, experiment, loop, DaemonThreads(1))
    outcome = Outcome(Unit(position, 0, 0, 0))
    arguments = call.arguments(outcome)
    sample = experiment.dataset.samples[position]

    def score_returned(returned: Any) -> Coroutine[Any, Any, Scored]:
        if isinstance(returned, Reply):
            outcome.reply = returned
        elif returned is not None:
            outcome.reply = Reply(text=str(returned), value=returned)
        set_current_reply(experiment.plan.nodeid, sample.id, outcome.unit.repeat)
        return score_outcome(
            outcome,
            experiment.metrics,
            sample,
            passed=False,
            reasoning=experiment.reasoning,
            further=experiment.further_scores,
        )

    async def call_and_score() -> Scored:
        return await score_returned(await call.function(**arguments))

    if experiment.is_async:
        scored = asyncio.run(call_and_score())
    else:
        scored = loop.submit(score_returned(call.function(**arguments))).result()
    return list(_lines(sample, outcome.reply, *scored))


def _lines(
    sample: Sample, reply: Reply | None, observations: Sequence[Observation], lost: Sequence[Lost]
) -> Iterator[str]:
    yield f"sample   {printable(sample.id, AN_ID)}"
    yield f"input    {sample.input}"
    yield f"expected {sample.expected}"
    if reply is not None:
        yield f"reply    {reply.text}"
    for observation in observations:
        reason = f" ({observation.reason})" if observation.reason else ""
        yield f"{observation.metric} = {observation.value}{reason}"
    for loss in lost:
        yield f"{loss.metric} lost: {loss.detail}"
