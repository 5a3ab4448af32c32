"""Real models on the same questions, along the program's own path: judged, stored, loaded, analysed, compared.

The data are not kept here: CRUCIBLE_DATA names a directory with `paired/*.csv` and `paired/paired_reference.json`, whose
statistics are those of scipy and statsmodels.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from judging import judged_at_once

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.datasets.load import identify
from pytest_crucible.metrics.definition import Metric, metric
from pytest_crucible.records import Analysis, Arm, Contrast, Fingerprint, Outcome, Plan, Reply, Sample, Unit
from pytest_crucible.stats.proportions.exact import paired_exact_test
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import group_names

DATA = os.environ.get("CRUCIBLE_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="CRUCIBLE_DATA does not name a directory with the outcomes")

Row = Mapping[str, str]
SETS: dict[str, tuple[str, Callable[[Row, str], str], Callable[[Row], str]]] = {
    # name: file, what a model answered, what is right
    "gsm8k_6models_binary": ("gsm8k_6models_binary.csv", lambda row, model: row[model], lambda row: "1"),
    "scifact_dev_multivers_binary": (
        "scifact_dev_multivers_binary.csv", lambda row, model: row[f"{model}|pred"], lambda row: row["gold"],
    ),
    "mmlu_llama2_fed_checkpoints": (
        "mmlu_llama2_fed_checkpoints.csv.gz", lambda row, model: row[f"{model}|pred"], lambda row: row["gold"],
    ),
    "humaneval_gpt_reflexion": ("humaneval_gpt_reflexion.csv", lambda row, model: row[model], lambda row: "1"),
}  # fmt: skip


@metric
def correct(reply: Reply, sample: Sample) -> bool:
    return reply.text == sample.expected


def reference() -> dict[str, Any]:
    return json.loads((Path(str(DATA)) / "paired" / "paired_reference.json").read_text(encoding="utf-8"))


def rows(name: str) -> list[Row]:
    path = Path(str(DATA)) / "paired" / name
    opened = gzip.open if name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def plan(name: str, models: list[str], samples: tuple[Sample, ...], sha256: str) -> Plan:
    return Plan(
        nodeid=name, path=name, line=1, dataset=name, dataset_sha256=sha256, planned=len(samples), selected=len(samples),
        groups=None, repeats=1, metrics=(correct.facts,), targets=(), open_metrics=False,
        arms=tuple(
            Arm(name=model, role="baseline" if k else "candidate", adapter=model, identity=model)
            for k, model in enumerate(models)
        ),
        contrasts=tuple(Contrast(metric="correct", baseline=model) for model in models[1:]),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip


def answer(store: RunStore, name: str, models: list[str], table: list[Row]) -> list[Analysis]:
    """One run in which each model in turn is the candidate, against those after it."""
    _, replied, gold = SETS[name]
    dataset = identify(name, (Sample(id=row["item_id"], input="", expected=gold(row)) for row in table))
    whole = plan(name, models, dataset.samples, dataset.sha256)
    store.begin_run("run", started="now", seed=0, alpha=0.05, correction="holm", environment={})
    experiment = store.add_experiment("run", whole, dataset.samples)
    keys = [store.add_arm(experiment, k, model, "") for k, model in enumerate(models)]
    writer = store.writer()
    metrics: list[Metric] = [correct]
    for (k, model), (position, row) in itertools.product(enumerate(models), enumerate(table)):
        outcome = Outcome(Unit(position, 0, k, 0), reply=Reply(text=replied(row, model)))
        calls, lost = judged_at_once(outcome, metrics, dataset.samples[position], passed=False)
        writer.add(outcome, keys[k], calls, lost)
    writer.close()
    store.finish_experiment(experiment)
    [(_, stored, finished)] = store.experiments("run")
    assert stored == whole

    answers = [load_outcomes(store, experiment, k) for k in range(len(models))]
    groups = group_names(store, dataset.sha256)
    return [
        analyse_inputs(
            AnalysisInputs(
                plan=plan(name, models[k:], dataset.samples, dataset.sha256),
                answers=tuple(answers[k:]),
                groups=groups,
                finished=finished,
                known_kinds={},
            ),
            family_size=len(models) - 1,
        )
        for k in range(len(models))
    ]


def analyse_inputs(inputs: AnalysisInputs, *, family_size: int) -> Analysis:
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=family_size)


@pytest.fixture(scope="module", params=sorted(SETS))
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the program's and the reference's results of one data set."""
    name = request.param
    expected = reference()[name]
    models = list(expected["models"])
    store = RunStore(str(tmp_path_factory.mktemp(name) / "runs.db"))
    yield expected, dict(zip(models, answer(store, name, models, rows(SETS[name][0])), strict=True))
    store.close()


def close(expected: Any) -> Any:
    # The reference has ten digits; a p-value far below 1e-6 is compared by its digits and not by its size.
    return pytest.approx(expected, rel=1e-6, abs=1e-300)


@pytest.mark.slow
def test_every_model_is_estimated_as_in_the_reference(judged):
    expected, analyses = judged
    for model, facts in expected["models"].items():
        [rows] = [estimate for estimate in analyses[model].estimates if estimate.arm == model]

        assert (rows.n, rows.lost, rows.inapplicable, rows.method) == (facts["n"], 0, 0, "wilson")
        assert rows.value == close(facts["mean"])
        assert [rows.interval.low, rows.interval.high] == close(facts["ci95_wilson"])


def test_every_pair_is_compared_as_in_the_reference(judged):
    """The reference is of b - a; here a is the candidate. `test_paired_exact` holds the test itself against R."""
    expected, analyses = judged
    compared = 0
    for pair in expected["pairs"]:
        [rows] = [
            comparison for comparison in analyses[pair["a"]].comparisons if comparison.contrast.baseline == pair["b"]
        ]
        exact = paired_exact_test(pair["a_only"], pair["b_only"], pair["n"])

        assert (rows.pairs, rows.lost, rows.method) == (pair["n"], 0, "exact unconditional")
        assert rows.difference == pytest.approx(-pair["diff_b_minus_a"], abs=1e-9)
        assert (rows.interval.low, rows.interval.high) == (exact.interval.low, exact.interval.high)
        assert rows.p_exact == close(pair["mcnemar_exact_p"])
        assert rows.p_value == exact.p_value
        compared += 1
    assert compared == len(expected["models"]) * (len(expected["models"]) - 1) // 2
