"""Earlier comparisons, and columns of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from experiment_builders import store_run

from pytest_crucible.records import Contrast, Measure, Sample
from pytest_crucible.records.redaction import hider
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.history import past_comparisons
from pytest_crucible.store.runs import RunStore

SAMPLES = [Sample(id=f"q{k}", input=f"{k} + {k}") for k in range(6)]
EXACT = Contrast(metric="exact", baseline="v1")
ARMS = {"v2": [True] * 5 + [False], "v1": [True] * 6}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgresql")
    opened = RunStore(where)
    yield opened
    opened.close()


def conclude_run(store: RunStore, run: str, arms: Mapping[str, Sequence[bool]] = ARMS, **facts: Any) -> int:
    store_run(store, run, SAMPLES, **{"contrasts": (EXACT,), **facts, **arms})
    conclude(store, run, alpha=0.05, strict=False, interrupted=False, amend=lambda verdict: None)
    return store.experiments(run)[0][0]


def past_runs(store: RunStore, key: int, measure: Measure = EXACT) -> list[str]:
    return [past.run for past in past_comparisons(store, key, 1, measure)]


def test_earlier_comparisons_of_the_same_arms_are_counted_as_of_each_run(store):
    keys = [conclude_run(store, run) for run in ("first", "second", "third")]

    assert [past_runs(store, key) for key in keys] == [[], ["first"], ["first", "second"]]


def test_another_arm_test_or_metric_is_another_comparison(store):
    conclude_run(store, "candidate", {"v3": ARMS["v2"], "v1": ARMS["v1"]})
    conclude_run(store, "test", nodeid="test_sums.py::test_others")
    conclude_run(store, "metric", metric="close", contrasts=(Contrast(metric="close", baseline="v1"),))
    conclude_run(
        store, "margin", contrasts=(Contrast(metric="exact", baseline="v1", margin=0.9, alternative="non-inferior"),)
    )

    assert past_runs(store, conclude_run(store, "last")) == ["margin"]


def test_a_run_without_a_verdict_is_not_a_comparison(store):
    store_run(store, "killed", SAMPLES, contrasts=(EXACT,), **ARMS)

    assert past_runs(store, conclude_run(store, "last")) == []


def test_sessions_with_the_same_replies_of_a_baseline_are_counted_whatever_the_candidate(store):
    keys = [conclude_run(store, "first")]
    keys += [conclude_run(store, run, reused={"v1": "first"}) for run in ("second", "third")]
    keys.append(conclude_run(store, "fourth", {"v3": ARMS["v2"], "v1": ARMS["v1"]}, reused={"v1": "first"}))
    keys.append(conclude_run(store, "fresh"))

    assert [load_experiment(store, key).sessions_with_same_replies(1) for key in keys] == [1, 2, 3, 4, 1]


def test_copied_replies_are_not_new(store):
    first = conclude_run(store, "first")
    key = conclude_run(store, "second", reused={"v1": "first"})
    (past,) = past_comparisons(store, conclude_run(store, "third"), 1, EXACT)[1:]

    assert past.has_new_replies == (True, False)
    assert [load_experiment(store, key).has_new_replies(number) for number in (0, 1)] == [True, False]
    assert load_experiment(store, first).has_new_replies(1)


def test_candidates_on_the_same_samples_are_counted_once_each(store):
    keys = [conclude_run(store, "first"), conclude_run(store, "again")]
    keys.append(conclude_run(store, "other", {"v3": ARMS["v2"], "v1": ARMS["v1"]}))

    assert [load_experiment(store, key).candidates_on_samples() for key in keys] == [1, 1, 2]


def test_no_field_of_a_sample_keeps_a_secret(tmp_path):
    secret = "tml-1"
    sample = Sample(
        id=f"id {secret}",
        input=f"in {secret}",
        expected=[f"out {secret}"],
        metadata={"key": secret},
        group=f"of {secret}",
    )
    store = RunStore(f"sqlite:///{tmp_path}/runs.db", hider({secret}))
    store_run(store, "a1", [sample], v2=[True])

    with store.connect() as connection:
        (row,) = connection.named_rows("SELECT * FROM samples")

    assert secret not in str(row)
    fields = ("sample_id", "sample_group", "input", "expected", "metadata")
    assert all("(key hidden)" in str(row[name]) for name in fields)
    store.close()
