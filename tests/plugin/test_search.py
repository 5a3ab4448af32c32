"""A search: Optuna proposes the settings of trials, from the choosing half only."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from test_sweep import decisions
from tiny_base import write_tiny_base

pytest.importorskip("optuna")

SCRIPTS = """
    import os
    import random
    import time

    def right(request, share):
        if os.path.exists("die") and sum(1 for _ in open("calls.txt")) > int(open("die").read()):
            # The rows until now are committed meanwhile.
            time.sleep(0.7)
            os.kill(os.getpid(), 9)
        with open("calls.txt", "a") as file:
            file.write(f"{request.arm} {request.sample}" + chr(10))
        return "right" if random.Random(f"{request.sample}").random() < share else "wrong"

    def answer(request):
        return right(request, request.parameters["quality"])

    def base(request):
        return right(request, 0.5)
"""
TESTS = """
    import pytest

    SAMPLES = [{"id": f"s{k}", "input": f"q{k}"} for k in range(80)]
    OTHERS = [{"id": f"t{k}", "input": f"q{k}"} for k in range(20)]

    @pytest.mark.crucible(dataset=OTHERS)
    @pytest.mark.quality_target("well >= 0.1")
    async def test_other(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(well=reply.text == "right")

    @pytest.mark.crucible(dataset=SAMPLES)
    @pytest.mark.ab_compare("ok")
    async def test_sums(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(ok=reply.text == "right")
"""
SEARCH = """
[adapters.tuned]
backend = "scripted"
script = "scripts:answer"

[adapters.tuned.sweep]
"parameters.quality" = { low = 0.1, high = 0.9 }
"parameters.form" = ["long", "short"]
search = { trials = 5 }
by = "ok"
"""
BOTH = ("--crucible-adapter=tuned", "--compare=base")


@pytest.fixture
def searching(suite):
    suite.script(SCRIPTS)
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(SEARCH)
    suite.test(TESTS)
    return suite


def forget_decisions(suite, count):
    """Leave a run as it was when it was killed in the trial after `count`."""
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as store, store:
        store.execute("delete from decisions where subject like 'winner%' or number > ?", (count,))


@pytest.mark.uses("stages")
def test_the_best_trial_is_the_candidate_and_a_resumed_search_repeats_it(searching):
    result = searching.run(*BOTH, "--crucible-json=r.json")

    assert result.ret == 0
    (first,) = decisions(searching)
    document = json.loads((searching.path / "r.json").read_text())["experiments"]
    sections = {experiment["nodeid"].partition("::")[2]: experiment["sections"]["sweep"] for experiment in document}
    members = {member["name"]: member["value"] for member in sections["test_sums"]["members"]}
    winner = first["winner of tuned", 0]["winner"]
    calls = [line.split() for line in searching.calls()]
    chosen = {sample for arm, sample in calls if arm in members and arm != winner and sample.startswith("s")}
    assert len(members) == 5
    assert members[winner] == max(members.values())
    assert {section["winner"] for section in sections.values()} == {winner}
    # Each trial answers the choosing half once, and the baseline the other half.
    assert all(sum(arm == name and sample in chosen for arm, sample in calls) == 40 for name in members)
    assert len(calls) == 5 * 40 + 2 * 40 + 20 == len({tuple(call) for call in calls})
    assert not chosen & {sample for arm, sample in calls if arm == "base"}
    assert sections["test_sums"]["search"] == {"trials": 5, "seed": 0}
    result.stdout.fnmatch_lines(["*tuned: first 5 trials compete by ok on 40 other samples, with at most 200*"])

    forget_decisions(searching, 3)
    searching.forget_calls()
    # The first 4 of 5 trials are stored.
    result = searching.run(*BOTH, "--crucible-resume", "--crucible-estimate", "--crucible-cache=off")
    result.stdout.fnmatch_lines(["tuned: 1 further trial * 40 * 0 * 0 * 40 [[]0, *"])
    assert requests(result) == "100 [60, 100]"
    result = searching.run(*BOTH, "--crucible-resume")

    assert result.ret == 0
    assert searching.calls() == []
    assert decisions(searching)[-1] == first

    searching.refuses(
        searching.run(*BOTH, "--crucible-resume", "--crucible-seed=7"), "run ???? swept with seed = 0; now it is 7*"
    )


def kill_after(suite, calls, *options):
    """Run a session until a test has sent so many requests, and kill it with SIGKILL."""
    suite.forget_calls()
    (suite.path / "die").write_text(str(calls))
    (suite.path / "calls.txt").touch()
    suite.run_apart(*BOTH, "--crucible-concurrency=2", *options)
    (suite.path / "die").unlink()
    return Counter(suite.calls())


@pytest.mark.uses("stages")
@pytest.mark.slow
@pytest.mark.parametrize("calls", [(30,), (100,), (190,), (225,), (30, 100)], ids=str)
def test_a_killed_search_is_resumed_with_the_same_trials_and_winner(searching, calls):
    searching.run(*BOTH)
    (whole,) = decisions(searching)
    shutil.rmtree(searching.path / ".crucible")
    sent = Counter()
    for number, count in enumerate(calls):
        sent += kill_after(searching, count, *(["--crucible-resume"] if number else []))
    killed = decisions(searching)[-1]
    assert killed
    assert sum(sent.values()) <= sum(calls) + 3 * len(calls)
    estimate = requests(searching.run(*BOTH, "--crucible-resume", "--crucible-estimate"))
    searching.forget_calls()
    result = searching.run(*BOTH, "--crucible-resume")

    assert result.ret == 0
    resumed = Counter(searching.calls())
    low, high = ends(estimate)
    assert low <= resumed.total() <= high
    # Nothing that was decided before is decided otherwise, nor what would have been decided without the interruption.
    assert {key: whole[key] for key in killed} == killed
    assert decisions(searching)[-1] == whole
    # Apart from those in flight when it was killed.
    repeated = {call: count - 1 for call, count in (sent + resumed).items() if count > 1}
    assert sum(repeated.values()) <= 2 * len(calls)
    assert len(sent | resumed) == 5 * 40 + 2 * 40 + 20


@pytest.mark.slow
def test_workers_wait_for_the_best_trial(searching):
    result = searching.run_n2(*BOTH, "--crucible-json=r.json")

    assert result.ret == 0
    document = json.loads((searching.path / "r.json").read_text())["experiments"]
    (decision,) = decisions(searching)
    assert {experiment["arms"][0]["name"] for experiment in document} == {decision["winner of tuned", 0]["winner"]}
    assert {len(experiment["sections"]["sweep"]["members"]) for experiment in document} == {5}


TRAINED = """
[adapters.tuned]
backend = "local"
base = {base}
recipe = "recipes:train"
parameters = {{ max_tokens = 4 }}

[adapters.tuned.sweep]
"hyperparameters.rate" = {{ low = 1e-4, high = 1e-2, log = true }}
"hyperparameters.steps" = {{ low = 1, high = 3 }}
search = {{ trials = 4 }}
by = "ok"
"""
RECIPE = """
    def train(trainer, rate, steps):
        for _ in range(steps):
            trainer.step(trainer.datums([{"prompt": "1?", "completion": "right"}]), learning_rate=rate)
"""


@pytest.mark.uses("training")
@pytest.mark.slow
@pytest.mark.parametrize("workers", [False, True])
def test_each_trial_is_trained_when_it_is_proposed(suite, tmp_path, workers):
    suite.script(SCRIPTS)
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(TRAINED.format(base=json.dumps(str(write_tiny_base(tmp_path / "base")))))
    suite.test(RECIPE, name="recipes")
    suite.test(TESTS)
    run = suite.run_n2 if workers else suite.run
    result = run(*BOTH, "--crucible-train", "--crucible-json=r.json")

    (decision,) = decisions(suite)
    settings = [decision["trials of tuned", number]["settings"] for number in range(4)]
    folders = list((suite.path / ".crucible" / "adapters").rglob("lineage.json"))
    # An untaught model misses the target.
    assert result.ret == 1
    assert len({str(point) for point in settings}) == len(folders) == 4

    forget_decisions(suite, 2)
    result = run(*BOTH, "--crucible-resume", "--crucible-train")

    assert result.ret == 1
    assert decisions(suite)[-1] == decision


def ends(amount):
    """Return the ends of an estimate's interval, such as "60 [20, 100]"; of a number without one, the number twice."""
    inside = amount.partition("[")[2].removesuffix("]") or f"{amount}, {amount}"
    return [float(end) for end in inside.split(", ")]


def requests(result):
    (line,) = [line for line in result.outlines if line.startswith("all ")]
    return line.partition("requests ")[2].split(", tokens")[0]


@pytest.mark.uses("stages")
def test_an_estimate_counts_the_trials_that_are_not_proposed_yet(searching):
    result = searching.run(*BOTH, "--crucible-estimate")

    result.stdout.fnmatch_lines(["tuned: 3 further trials * 120 * 0 * 0 * 120 *"])
    assert requests(result) == "300"
    assert searching.calls() == []
    searching.run(*BOTH)
    assert len(searching.calls()) == 300
    file = searching.path / "crucible.toml"
    file.write_text(file.read_text().replace("{ low = 0.1, high = 0.9 }", "[0.2, 0.5]"))
    # Four combinations are all that there are to try.
    searching.run(*BOTH, "--crucible-estimate").stdout.fnmatch_lines(["tuned: 2 further trials *"])
