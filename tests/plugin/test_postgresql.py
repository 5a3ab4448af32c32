"""A run store on a PostgreSQL server: what sessions on SQLite do, and many that write at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from run_documents import of_arms

from pytest_crucible.cli import main
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.runs import RunStore

ARMS = ("--crucible-adapter=v2", "--compare=v1")


def without_run(document):
    return [
        {**experiment, "arms": [{**arm, "usage": None} for arm in experiment["arms"]]}
        for experiment in document["experiments"]
    ]


@pytest.mark.slow
def test_a_run_equals_one_on_sqlite(suite, postgresql, capsys):
    on_server = suite.json(*ARMS, f"--crucible-store={postgresql}", "--crucible-tag=main")
    on_file = suite.json(*ARMS)

    assert without_run(on_server) == without_run(on_file)
    again = suite.json("--crucible-adapter=v3", "--compare=tag:main", f"--crucible-store={postgresql}")
    assert of_arms(again["experiments"][0], "reused")[1] == {"run": on_server["run"]["id"], "replies": 20}
    capsys.readouterr()
    for command in ("runs", "show", "gc", "calibrate"):
        assert main([command, "--store", postgresql]) == 0


@pytest.mark.slow
def test_eight_workers_and_two_processes_write_at_once_and_nothing_is_lost_or_doubled(suite, postgresql):
    suite.test(
        """
        import pytest

        @pytest.mark.parametrize("part", range(8))
        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.ab_compare("exact_match")
        async def test_sums(sample, sampler, part):
            return await sampler.generate(sample.input)
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:asyncio", *ARMS, f"--crucible-store={postgresql}"]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    processes = [subprocess.Popen([*command, *workers], text=True, **pipes) for workers in (["-n8"], [])]
    texts = ["".join(process.communicate(timeout=300)) for process in processes]

    assert [process.returncode for process in processes] == [0, 0], texts
    store = RunStore(postgresql)
    runs = [run.id for run in list_runs(store)]
    answers = [
        load_outcomes(store, key, number) for run in runs for key, _, _ in store.experiments(run) for number in (0, 1)
    ]
    store.close()
    assert (len(runs), len(answers)) == (2, 32)
    units = {(k, 0) for k in range(20)}
    assert [len(answer.positions) for answer in answers] == [20] * 32
    assert all(set(zip(answer.positions, answer.repeats, strict=True)) == units for answer in answers)
    assert [len(answer.scores["exact_match"].values) for answer in answers] == [20] * 32


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "postgresql://me:planted-word@127.0.0.1:1/runs",
            "run store 'postgresql://(key hidden)@127.0.0.1:1/runs' cannot be reached: *",
        ),
        (
            "postgresql://me:planted-word@[broken/runs",
            "run store 'postgresql://(key hidden)@*broken/runs' is not a database that can be reached: write a path, or a URL *",
        ),
    ],
    ids=["no server", "no URL"],
)
def test_an_unusable_server_is_reported_without_the_password(suite, url, sentence):
    pytest.importorskip("psycopg")

    result = suite.run(*ARMS, f"--crucible-store={url}")

    suite.cannot_store(result, sentence)
    assert "planted" not in result.stdout.str() + result.stderr.str()
