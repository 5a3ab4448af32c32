"""A stored run as the results that writers of other formats get, with every score as the analysis counts it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

from pytest_crucible.analyse.analysis import AnalysisInputs, metric_facts
from pytest_crucible.analyse.scores import Floats, scores_by_repeat
from pytest_crucible.exports.results import ArmResults, RunResults, SampleResult
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Analysis, ArmReply, MetricFacts, Run, Sample, StoredCall, Value, experiment_names
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.reporters import html_report
from pytest_crucible.store.conversations import agent_positions, arm_replies, load_sample_calls
from pytest_crucible.store.experiments import StoredExperiment, load_experiment
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import load_sample

# Samples whose replies are in memory at a time.
_PART = 500


def load_results(store: RunStore, run_id: str) -> RunResults:
    """Return a stored run with its results, which are read while the store is open."""
    run = load_run(store, run_id)
    return RunResults(
        run=run,
        arms=partial(_arms, store, run),
        html=partial(html_report, run),
    )


def _arms(store: RunStore, run: Run) -> Iterator[ArmResults]:
    keys = {plan.nodeid: key for key, plan, _ in store.experiments(run.id)}
    names = experiment_names(keys)
    for analysis in run.experiments:
        stored = load_experiment(store, keys[analysis.plan.nodeid])
        inputs = analysis_inputs(stored, analysis.finished)
        facts = {name: each for name, each in metric_facts(inputs).items() if not each.is_part}
        samples = stored.all_samples()
        for number in range(len(analysis.plan.arms)):
            yield _arm(run, names[analysis.plan.nodeid], analysis, _ArmReader(stored, inputs, number, facts, samples))


def _arm(run: Run, task: str, analysis: Analysis, reader: _ArmReader) -> ArmResults:
    plan, arm = analysis.plan, analysis.plan.arms[reader.number]
    estimates = [each for each in analysis.estimates if each.arm == arm.name and each.metric in reader.facts]
    return ArmResults(
        run=run.id,
        task=task,
        started=run.started,
        finished=analysis.finished,
        plan=plan,
        arm=arm,
        facts=reader.facts,
        estimates=estimates,
        repeats=plan.draws(reader.number).size,
        sample_ids=[sample.id for sample in reader.samples],
        read=reader.results,
    )


@dataclass(frozen=True)
class _ArmReader:
    """Reads the results of one arm."""

    stored: StoredExperiment
    inputs: AnalysisInputs
    number: int
    facts: Mapping[str, MetricFacts]
    samples: Sequence[Sample]

    def results(self) -> Iterator[SampleResult]:
        """Yield all repeats of the first sample, then those of the next. Skipped ones are left out."""
        store, draws = self.stored.store, self.stored.plan.draws(self.number)
        for start in range(0, len(self.samples), _PART):
            positions = range(start, min(start + _PART, len(self.samples)))
            replies = arm_replies(store, self.stored.key, self.number, positions, draws)
            for position in positions:
                by_repeat = {reply.repeat: reply for reply in replies.get(position, ())}
                calls = self._calls(position)
                for repeat in range(draws.size):
                    reply = by_repeat.get(repeat)
                    if reply is None or reply.state != "skipped":
                        yield self._result((position, repeat), reply, calls.get(repeat, ()))

    def _calls(self, position: int) -> Mapping[int, Sequence[StoredCall]]:
        """Return the calls of an agent by repeat; none where a sample had one call without tools."""
        if position not in self._agent_positions:
            return {}
        stored, plan = self.stored, self.stored.plan
        sample = load_sample(stored.store, plan.dataset_sha256, position)
        return load_sample_calls(stored.store, stored.key, self.number, sample, plan.draws(self.number))

    @cached_property
    def _agent_positions(self) -> set[int]:
        return agent_positions(self.stored.store, self.stored.key, self.number)

    def _result(self, place: tuple[int, int], reply: ArmReply | None, calls: Sequence[StoredCall] = ()) -> SampleResult:
        scores = self._scores(place)
        sample, repeat = self.samples[place[0]], place[1]
        if reply is None or (reply.state == "lost" and not scores):
            return SampleResult(sample=sample, repeat=repeat, error=reply.detail if reply else "not run")
        return SampleResult(
            sample=sample,
            repeat=repeat,
            scores=scores,
            lost=self._lost(place, reply, scores),
            text=reply.text,
            calls=calls,
            finish=reply.finish,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            latency_s=reply.latency_s,
        )

    def _scores(self, place: tuple[int, int]) -> dict[str, Value]:
        numbers = ((name, array[place]) for name, array in self._numbers.items())
        scores: dict[str, Value] = {
            name: bool(value) if self.facts[name].kind == "binary" else float(value)
            for name, value in numbers
            if not math.isnan(value)
        }
        return scores | {name: texts[place] for name, texts in self._texts.items() if place in texts}

    def _lost(self, place: tuple[int, int], reply: ArmReply, scores: Mapping[str, Value]) -> dict[str, str]:
        """Return why values are lost: a scorer raised, or a failure has no worst value that could stand for it."""
        failed = reply.detail if reply.state == "failed" else ""
        whys = {name: self._losses.get((*place, name), failed) for name in self._numbers if name not in scores}
        return {name: why for name, why in whys.items() if why and (*place, name) not in self._inapplicable}

    @cached_property
    def _numbers(self) -> dict[str, Floats]:
        outcomes, size = self.inputs.answers[self.number], self.stored.plan.draws(self.number).size
        return {
            name: scores_by_repeat(each, outcomes, samples=len(self.samples), repeats=size)
            for name, each in self.facts.items()
            if each.kind != "text"
        }

    @cached_property
    def _texts(self) -> dict[str, Mapping[tuple[int, int], str]]:
        names = [name for name, each in self.facts.items() if each.kind == "text"]
        return {name: self.stored.texts(self.number, name) for name in names}

    @cached_property
    def _losses(self) -> dict[tuple[int, int, str | None], str]:
        lost = self.inputs.answers[self.number].lost
        return {(loss.unit.position, loss.unit.repeat, loss.metric): loss.detail or loss.reason for loss in lost}

    @cached_property
    def _inapplicable(self) -> set[tuple[int, int, str]]:
        return {
            (position, repeat, name)
            for name, columns in self.inputs.answers[self.number].scores.items()
            for position, repeat, value in zip(columns.positions, columns.repeats, columns.values, strict=True)
            if value is None
        }
