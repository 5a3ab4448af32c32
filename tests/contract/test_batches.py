"""Batches of an experiment that is larger than memory: those of imported rows are those of the same rows in a run store."""

from __future__ import annotations

import random
from contextlib import closing

import numpy as np
import pytest

from pytest_crucible.importers.results import ImportedFile, Results, Row
from pytest_crucible.runs.imported import ImportedTask, ImportOptions, enter_task
from pytest_crucible.runs.imported_batches import ImportedBatches
from pytest_crucible.runs.imported_samples import NamedSamples
from pytest_crucible.runs.imported_tasks import group_tasks
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sample_batches import StoredBatches

SAMPLES, REPEATS = 40, 2


def results(arm: str, seed: int, *, odd: bool) -> Results:
    """Return rows in any order, some of them without a value, a reply, or a sample that the other arm has."""
    rng, rows = random.Random(seed), []
    for k in range(SAMPLES):
        for repeat in range(REPEATS + (odd and seed)):
            values = {
                "ok": rng.random() < 0.5,
                "as_number": float(rng.random() < 0.5),
                "score": rng.random(),
                "why": rng.choice("abc"),
            }
            chance = rng.random() if odd else 1
            scores = {name: value for name, value in values.items() if chance > 0.5 or name == "ok"}
            rows.append(
                Row(
                    sample=f"{arm} {k}" if chance < 0.05 else f"q{k}",
                    repeat=repeat,
                    scores={} if chance < 0.2 else scores,
                    lost={"score": f"timeout {k}"} if 0.2 < chance < 0.35 else {},
                    error=f"refused {k} with sk-proj-0123456789abcdefghijkl" if chance < 0.2 else "",
                    group=f"g{k // 3}",
                )
            )
    if odd:
        rng.shuffle(rows)
    return Results(task="t", arm=arm, rows=rows, repeats=REPEATS + (odd and seed), identity=arm)


@pytest.mark.parametrize("size", [4, 13, 1000])
@pytest.mark.parametrize("odd", [True, False], ids=["odd rows", "plain rows"])
def test_imported_batches_are_those_of_the_stored_rows(tmp_path, odd, size):
    check_batches(tmp_path, [results(arm, seed, odd=odd) for seed, arm in enumerate(("v2", "v1"))], size)


def test_an_arm_may_have_its_samples_in_another_order(tmp_path):
    rows = [Row(sample=f"q{k}", scores={"ok": k < 10}) for k in range(SAMPLES)]
    arms = [
        Results(task="t", arm="v2", rows=rows, identity="v2"),
        Results(task="t", arm="v1", rows=rows[::-1], identity="v1"),
    ]

    check_batches(tmp_path, arms, 13)


def test_ids_may_have_several_lines(tmp_path):
    rows = [Row(sample=f"q{k}\nof {k}" if k % 3 else f"q{k}", scores={"ok": k < 10}) for k in range(SAMPLES)]
    check_batches(tmp_path, [Results(task="t", arm=arm, rows=rows, identity=arm) for arm in ("v2", "v1")], 13)


@pytest.mark.parametrize("change", ["backwards", "with others between"])
def test_the_rows_of_samples_may_lie_anywhere(tmp_path, change):
    rows = [Row(sample=f"q{k}", scores={"ok": k < 10}) for k in range(SAMPLES)]

    def move(store):
        with store.begin() as connection:
            sign = -1 if change == "backwards" else 1
            connection.execute(f"UPDATE samples SET rowid = 10000 + {sign} * position")
            if change == "with others between":
                connection.execute("UPDATE samples SET rowid = 20000 + position WHERE position % 5 = 2")
                connection.execute(
                    "INSERT INTO samples (rowid, dataset, position, sample_id)"
                    " SELECT 10000 + position, 'another', position, 'x' FROM samples WHERE position % 5 = 2"
                )

    check_batches(tmp_path, [Results(task="t", arm=arm, rows=rows, identity=arm) for arm in ("v2", "v1")], 13, move)


def check_batches(tmp_path, arms, size, change=lambda store: None):
    file = ImportedFile(path="a.jsonl", sha256="", harness="table", version="", results=arms)
    [grouped] = group_tasks([file])
    task = ImportedTask.of(grouped, [file], ImportOptions())
    with closing(RunStore(f"{tmp_path}/runs.db")) as store:
        facts = {"started": "", "seed": 0, "alpha": 0.05, "correction": "holm", "git": None, "environment": {}}
        store.begin_run("run", **facts)
        with closing(store.writer()) as writer:
            enter_task(store, "run", writer, grouped, task.plan, task.samples, without_rows=False)
        change(store)
        [(key, plan, _)] = store.experiments("run")
        stored = StoredBatches(store, key, plan)
        groups = [sample.cluster for sample in task.samples]
        imported = ImportedBatches(grouped, plan, NamedSamples(grouped.samples, groups), store)

        assert imported.outlines == stored.outlines
        assert imported.group_codes() == stored.group_codes()
        for number in range(2):
            assert imported.count_outcomes(number) == stored.count_outcomes(number)
            assert imported.first_loss(number, "score") == stored.first_loss(number, "score")
        assert [*map(plain, imported.read(size, with_expected=True))] == [
            *map(plain, stored.read(size, with_expected=True))
        ]


def plain(batch):
    """Return all of a batch in lists; NaN as text, which equals itself."""
    arms = [
        (
            *map(numbers, (arm.positions, arm.repeats, arm.failures, arm.skipped)),
            {name: [*map(numbers, (each.positions, each.repeats, each.values))] for name, each in arm.scores.items()},
            sorted(arm.lost, key=repr),
            arm.labels,
        )
        for arm in batch.answers
    ]
    return batch.start, arms, batch.variants, [*batch.sample_ids], [*batch.groups], [*batch.expected]


def numbers(column):
    return [*map(str, np.asarray(column).tolist())]
