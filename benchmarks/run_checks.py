"""What the checks of a run cost: their analysis of 10,000 replies, and what a reply costs more because its server names a model,
and because its calls are compared with those of a stored baseline.

python -m benchmarks.run_checks
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import Suite
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.run_checks import section
from pytest_crucible.records import Dataset, ModelCall, Outcome, Reply, Sample, Unit
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.stored_calls import PaidCalls, StoredCalls
from pytest_crucible.store.experiments import StoredExperiment, load_experiments
from pytest_crucible.store.history import arm_key
from pytest_crucible.store.rows import CallRows
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sent_calls import CallReader, load_paid_calls

SAMPLES, REPEATS = 5_000, 7
"""Of two arms: 10,000 replies."""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        suite = Suite(directory=Path(directory), samples=SAMPLES, marks=("@pytest.mark.ab_compare('exact_match')",))
        suite.write().run("--crucible-adapter=v2", "--compare=v1")
        with existing_store(str(suite.store)) as store:
            (stored,) = load_experiments(store, store.find_run("latest"))
            inputs = SectionInputs(
                plan=stored.plan,
                answers=stored.arms,
                groups=stored.groups,
                finished=True,
                alpha=0.05,
                facts={},
                scores={},
                clusters=None,
                stored=stored,
            )
            seconds = _median_s(lambda: section.compute(inputs))
            compared = _compared_s(store, stored)
    yield Figure(
        name=f"run checks: analysis of {2 * SAMPLES:,} replies", measured=seconds, unit="s", limit=0.1, digits=3
    )
    named, nameless = (_rows_s(reply) for reply in (Reply(text="4", model="base", server="server: x"), Reply(text="4")))
    more = 1e6 * (named - nameless) / SAMPLES
    yield Figure(name="- more for a reply whose server names a model", measured=more, unit="us", limit=3.0, digits=2)
    name = "- its calls compared with those of a stored baseline"
    yield Figure(name=name, measured=1e6 * compared / SAMPLES, unit="us", limit=3.0, digits=2)


def _compared_s(store: RunStore, stored: StoredExperiment) -> float:
    """The seconds in which the candidate's calls are compared with those of a baseline of another run, at other parameters."""
    experiment = _experiment(stored)
    reader, key = CallReader(store.redact_once, experiment.plan.arms), arm_key(store, stored.key, 1)
    paid = load_paid_calls(store, key, reader.own[1])
    baseline = {Unit(place[0], 0, 1, place[1]): PaidCalls(sent, "earlier") for place, (sent, _) in paid.items()}
    outcomes = []
    for position, sample in enumerate(experiment.dataset.samples):
        call = ModelCall(sample.input, False, 1, None, "", reply=Reply(text="4"))
        outcomes.append(Outcome(Unit(position, 0, 0, 0), reply=call.reply, calls=[call], sample=sample))
    stored_calls = StoredCalls(experiment, reader, [{}, baseline])

    def compare() -> None:
        for outcome in outcomes:
            stored_calls.add(outcome)

    seconds = _median_s(compare)
    assert len(baseline) == SAMPLES
    assert not stored_calls.removed
    return seconds


def _experiment(stored: StoredExperiment) -> Experiment:
    """The experiment of a stored run whose candidate is sent at another temperature than its baseline."""
    candidate, baseline = stored.plan.arms
    arms = (replace(candidate, parameters={"temperature": 0.7}), replace(baseline, parameters={"temperature": 0.0}))
    return Experiment(
        function=lambda sample, sampler: None,
        plan=replace(stored.plan, arms=arms),
        dataset=Dataset(name="rows", sha256="", samples=[Sample(id=str(k), input=f"{k} + 1") for k in range(SAMPLES)]),
        metrics=(),
        opened_arms=tuple(OpenedArm(arm, None) for arm in arms),
        timeout_s=None,
        is_async=True,
        warnings=(),
    )


def _rows_s(reply: Reply) -> float:
    rows, sample = CallRows(str, lambda: ""), Sample(id="a", input="2 + 2")
    call = ModelCall("2 + 2", False, 1, None, "", reply=reply)
    outcome = Outcome(Unit(0, 0, 0, 0), reply=reply, calls=[call], sample=sample)
    units = [(1, replace(outcome, unit=Unit(k, 0, 0, 0)), sample) for k in range(SAMPLES)]
    return _median_s(lambda: rows.rows(units))


def _median_s(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return statistics.median(seconds)


if __name__ == "__main__":
    raise SystemExit(show(figures()))
