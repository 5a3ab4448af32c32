"""The run of an explained experiment: first requests, what the rest costs, versions, and those that follow from scores."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.features.explanation.choice import KINDS
from pytest_crucible.features.explanation.records import VARIANT, Explanation, subject_of
from pytest_crucible.features.explanation.results import arm_scores, numeric_metrics, plan_further
from pytest_crucible.features.explanation.segments import FindPlaces, Prompt, find_finder, split_prompt
from pytest_crucible.features.explanation.versions import VersionEdit
from pytest_crucible.plan.variants import plan_variant
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Outcome, Twin, Unit, Variant
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.printable import AN_ID, printable_cell
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.sample.loop import DaemonThreads
from pytest_crucible.session.call import Call
from pytest_crucible.session.experiment import Experiment, ExperimentRun, FunctionCall
from pytest_crucible.session.progress import write_in_item
from pytest_crucible.stats.attribution.sets import plan_sets
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.decisions import add_decision, set_decision
from pytest_crucible.store.experiments import find_experiment

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.spending import ANSWER_TOKENS, CHARACTERS_A_TOKEN, Metered, Price
from pytest_crucible.records.errors import BackendError
from pytest_crucible.stats.number_format import dollars
from pytest_crucible.store.past_usage import past_usage

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import Experiment
    from pytest_crucible.session.session import CrucibleSession


@dataclass(frozen=True)
class Versions:
    """Sends each unit of explained samples as one of their versions."""

    prompts: dict[int, tuple[Prompt, ...]]
    """By position: the prompt of each arm."""
    explanations: dict[int, Explanation]
    """By position. Sets that follow from scores are added."""
    requests: int = 1

    async def ask(self, call: FunctionCall, outcome: Outcome) -> Outcome:
        """Complete the outcome of a unit with the requests of its version."""
        unit, explanation = outcome.unit, self.explanations[outcome.unit.position]
        number, draw = explanation.set_at(call.experiment.twin(unit), unit.repeat)
        edit = VersionEdit(
            prompt=self.prompts[unit.position][unit.arm],
            mask=explanation.sets.masks[number],
            draw=_draw_name(explanation, number, draw),
            calls=outcome.calls,
        )
        return await call.run(outcome, edit=edit)


def _draw_name(explanation: Explanation, number: int, draw: int) -> str | None:
    """Return the name of a draw in the reply cache; None for the reply of an ordinary run, where it is the same."""
    if not number and not explanation.sets.is_random:
        return None
    return f"without {', '.join(map(str, explanation.left_out(number))) or 'nothing'}: draw {draw}"


@dataclass
class ExplainedExperiment:
    """Plans the versions of one experiment's samples, and runs them."""

    session: CrucibleSession
    _versions: Versions = field(default_factory=lambda: Versions({}, {}))

    # -- planning -------------------------------------------------------------------------------------------------

    def plan(self, item: pytest.Function, experiment: Experiment) -> list[str]:
        """Plan the versions of all samples; return a line for each with their number and cost. Raises SpecError."""
        config, kind = self.session.config, self.session.settings.option("segments")
        finder = find_finder(kind, (Path(config.invocation_params.dir), config.rootpath))
        for position in range(len(experiment.dataset.samples)):
            self._plan_sample(item, experiment, position, kind, finder)
        return list(self._lines(experiment))

    def _plan_sample(
        self, item: pytest.Function, experiment: Experiment, position: int, kind: str, finder: tuple[FindPlaces, str]
    ) -> None:
        requests, sample = self._first_requests(item, experiment, position), experiment.dataset.samples[position].id
        prompts = tuple(_split(sample, request, finder) for request in requests)
        _check_segments(sample, kind, prompts, [arm.name for arm in experiment.plan.arms])
        calls, seed = self.session.settings.option("explain_calls"), _seed(self.session.settings.seed, sample)
        is_random = any(map(_is_random, requests, experiment.opened_arms))
        try:
            sets = plan_sets(len(prompts[0].segments), calls, is_random=is_random, seed=seed)
        except ValueError as error:
            raise SpecError(
                f"--crucible-explain-calls={calls} is too few: {error}; raise it or use larger segments"
            ) from None
        self._versions.prompts[position] = prompts
        self._versions.explanations[position] = Explanation(
            sample=sample,
            kind=kind,
            segments=tuple(prompt.segments for prompt in prompts),
            lengths=tuple(len(text or "") for _, text in prompts[0].messages),
            sets=sets,
            planned=len(sets.masks),
            calls=calls,
        )

    def _first_requests(self, item: pytest.Function, experiment: Experiment, position: int) -> Sequence[FirstRequest]:
        """Return the first request of each arm for a sample. Raises SpecError."""
        arms = range(len(experiment.plan.arms))
        threads = DaemonThreads(len(arms))
        call = Call(item, experiment, self.session.resources.loop, threads)

        async def find_all() -> list[FirstRequest]:
            return await asyncio.gather(*(find_first_request(call, Unit(position, 0, arm, 0)) for arm in arms))

        try:
            return self.session.wait_for(find_all())
        finally:
            threads.shutdown()

    def _lines(self, experiment: Experiment) -> Iterator[str]:
        """Yield how many requests each sample takes, and what they cost."""
        names = [arm.name for arm in experiment.plan.arms]
        arms = f"each of {' and '.join(names)}" if len(names) > 1 else names[0]
        for position, explanation in self._versions.explanations.items():
            sets, number = explanation.sets, len(explanation.sets.masks) * explanation.sets.repeats
            draws = f" ({len(sets.masks)} sets x {sets.repeats} draws)" if sets.repeats > 1 else ""
            more = "" if sets.is_exact else f" and up to {explanation.calls - number} that follow from scores"
            cost = cost_text(self.session, experiment, self._versions.prompts[position], explanation)
            yield (
                f"explains {printable_cell(explanation.sample, AN_ID)}: {quantity(sets.segments, 'segment')} "
                f"({explanation.kind}), {quantity(number, 'request')}{draws}{more} to {arms}; {cost}"
            )

    # -- running --------------------------------------------------------------------------------------------------

    def begin(self, run: ExperimentRun) -> None:
        """Replace the units of the run by versions, planned now where the function needed fixtures."""
        if not self._versions.explanations:
            self._plan_late(run)
        self._enter(run)
        explanations = self._versions.explanations
        run.units = [unit for position in explanations for unit in self._units(run.experiment, position)]
        run.is_last = all(explanation.sets.is_exact for explanation in explanations.values())

    def _plan_late(self, run: ExperimentRun) -> None:
        try:
            lines = self.plan(run.item, run.experiment)
        except SpecError as error:
            # An error of the suite or its options, as those before the first test.
            self.session.messages.problems.append(f"{run.experiment.plan.nodeid}: {error}")
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        for line in lines:
            write_in_item(self.session.config, line)

    def _enter(self, run: ExperimentRun) -> None:
        """Store the plan with its versions, and give the experiment what sends them."""
        explanations, store, samples = (
            self._versions.explanations,
            self.session.resources.store,
            run.experiment.dataset.samples,
        )
        variant = Variant(name=VARIANT, twins={sample.id: Twin(input=sample.input) for sample in samples})
        plan = replace(
            run.experiment.plan,
            repeats=max(map(_most_repeats, explanations.values())),
            variants=(plan_variant(variant, samples),),
        )
        late = dict.fromkeys((0, 1), self._versions)
        run.experiment = replace(run.experiment, plan=plan, variants=(variant,), late_variants=late)
        store.replace_plan(self.session.run, plan)
        for position, explanation in explanations.items():
            add_decision(store, self.session.run, subject_of(plan.nodeid), position, to_plain(explanation))

    def _units(self, experiment: Experiment, position: int, first: int = 0) -> Iterator[Unit]:
        """Yield the units of a sample from one of its sets on: whole, empty, each left out, then others; arms side by side."""
        explanation, prompts = self._versions.explanations[position], experiment.draws[0].prompts
        for number in range(first, len(explanation.sets.masks)):
            for draw in range(explanation.sets.repeats):
                twin, repeat = explanation.place(number, draw)
                for arm in range(len(experiment.plan.arms)):
                    yield Unit(position, twin * prompts, arm, repeat)

    def continue_run(self, run: ExperimentRun) -> None:
        """Send the versions that interactions and deletion curves need, unless a budget has ended."""
        nodeid, store = run.experiment.plan.nodeid, self.session.resources.store
        stored = find_experiment(store, self.session.run, nodeid)
        if run.is_last or stored is None:
            return
        inputs = analysis_inputs(stored, finished=True)
        if not inputs.finished:
            return
        arms, facts, units = arm_scores(inputs.answers, inputs.variants), score_table(inputs).facts, list[Unit]()
        for position, explanation in self._versions.explanations.items():
            tables = [arm.table(explanation, position, entry) for entry in numeric_metrics(arms, facts) for arm in arms]
            sets, _ = plan_further(explanation, tables)
            extended = replace(explanation, sets=sets)
            self._versions.explanations[position] = extended
            set_decision(store, self.session.run, subject_of(nodeid), position, to_plain(extended))
            units += self._units(run.experiment, position, explanation.planned)
        self.session.items.ask(ExperimentRun(run.item, run.experiment, units=units, is_first=False, show=run.show))


def _split(sample: str, request: FirstRequest, finder: tuple[FindPlaces, str]) -> Prompt:
    try:
        return split_prompt(request.input, *finder)
    except SpecError as error:
        raise SpecError(f"{sample}: {error}") from None


def _check_segments(sample: str, kind: str, prompts: Sequence[Prompt], names: Sequence[str]) -> None:
    """Raise SpecError for a prompt with less than two segments, and for arms with other numbers of segments."""
    counts = [len(prompt.segments) for prompt in prompts]
    if len(set(counts)) > 1:
        pairs = ", ".join(f"{count} of {name}" for count, name in zip(counts, names, strict=True))
        raise SpecError(
            f"{sample} has other segments for each arm ({kind}: {pairs}), which cannot be compared; leave out --compare"
        )
    if counts[0] < 2:
        many = "one segment" if counts[0] else "no segment"
        raise SpecError(
            f"{sample} has {many} ({kind}), so there is nothing to compare; use --crucible-segments={_finer_kind(prompts)}"
        )


def _finer_kind(prompts: Sequence[Prompt]) -> str:
    """Return the built-in segments of which each prompt has several, or else those of a function of the suite."""
    messages = [[{"content": text} for _, text in prompt.messages] for prompt in prompts]
    fits = (kind for kind in KINDS if all(len(find_finder(kind, ())[0](each)) > 1 for each in messages))
    return next(fits, "FILE:function")


def _is_random(request: FirstRequest, opened: OpenedArm) -> bool:
    """Return whether a model draws its replies. One without a temperature has its own, unless it is a script."""
    temperature = request.parameters.get("temperature")
    return not opened.arm.simulated if temperature is None else temperature != 0


def _seed(seed: int, sample: str) -> int:
    """Return the seed of a sample's sets, the same in each process and order."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{sample}".encode()).digest()[:8], "big")


def _most_repeats(explanation: Explanation) -> int:
    sets = explanation.sets
    most_sets = len(sets.masks) if sets.is_exact else explanation.calls // sets.repeats
    return max(most_sets - 1, 1) * sets.repeats


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """The input of a request that was not sent, and its parameters."""

    input: Any
    parameters: Mapping[str, Any]


class _NotSentError(BackendError):
    """Ends the call of a test function whose first request is known."""


@dataclass
class _Recorder:
    """Takes the place of the edit of a version: records the first request, and sends none."""

    request: asyncio.Future[FirstRequest] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    draw: None = None

    def __call__(self, input: Any, parameters: Mapping[str, Any]) -> Any:
        if not self.request.done():
            self.request.set_result(FirstRequest(input, parameters))
        raise _NotSentError("the first request of an explained sample is not sent")


async def find_first_request(call: Call, unit: Unit) -> FirstRequest:
    """Return what the test function would send first. Raises SpecError where it sends nothing."""
    outcome, recorder = Outcome(unit, is_trial=True), _Recorder()
    task = asyncio.ensure_future(call.run(outcome, edit=recorder))
    await asyncio.wait((task, recorder.request), return_when=asyncio.FIRST_COMPLETED)
    if recorder.request.done():
        # A function that tries again would go on for long.
        task.cancel()
        await asyncio.wait((task,), timeout=1.0)
        if task.done() and not task.cancelled():
            task.exception()
        return recorder.request.result()
    await task
    sample = call.experiment.dataset.samples[unit.position].id
    if outcome.skipped:
        raise SpecError(f"{sample} is skipped by the test ({outcome.detail}), so there is nothing to explain")
    why = outcome.detail.splitlines()[0] if outcome.detail else "it returned without one"
    raise SpecError(f"{sample}: the test sent no request through its sampler ({why}), so there is nothing to leave out")


def cost_text(
    session: CrucibleSession, experiment: Experiment, prompts: Sequence[Prompt], explanation: Explanation
) -> str:
    """Return what the planned requests of one sample cost, if nothing is cached."""
    costs = [_arm_cost(session, experiment, number, prompt, explanation) for number, prompt in enumerate(prompts)]
    priced = [cost for cost in costs if cost is not None]
    return f"about {dollars(sum(priced))}" if len(priced) == len(costs) else "cost unknown (no price)"


def _arm_cost(
    session: CrucibleSession, experiment: Experiment, number: int, prompt: Prompt, explanation: Explanation
) -> float | None:
    """Return dollars; None if the price of a model is not known."""
    opened, sets = experiment.opened_arms[number], explanation.sets
    price = _find_price(opened.backend)
    if price is None:
        return None
    lengths = [segment.end - segment.start for segment in prompt.segments]
    fixed = sum(len(text or "") for _, text in prompt.messages) - sum(lengths)
    characters = sum(fixed + sum(length for k, length in enumerate(lengths) if mask >> k & 1) for mask in sets.masks)
    written = _answer_tokens(session, experiment.plan.nodeid, opened.arm.name, opened.arm.parameters.get("max_tokens"))
    usd = price.of(characters / CHARACTERS_A_TOKEN, written * len(sets.masks)) or 0.0
    return usd * sets.repeats


def _find_price(backend: Backend | None) -> Price | None:
    """Return the price of a model behind its wrappers."""
    while backend is not None and not isinstance(backend, Metered):
        backend = getattr(backend, "inner", None)
    return None if backend is None else backend.price


def _answer_tokens(session: CrucibleSession, nodeid: str, arm: str, limit: object) -> float:
    """Return the mean length of earlier replies, else the limit or a guess."""
    past = past_usage(session.resources.store, nodeid, arm)
    lengths = [reply.output_tokens for reply in (past.replies if past else ()) if reply.output_tokens is not None]
    if lengths:
        return fmean(lengths)
    return float(limit) if isinstance(limit, int) else ANSWER_TOKENS
