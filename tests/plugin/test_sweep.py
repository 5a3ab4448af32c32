"""A sweep: members compete on one half of the samples, and the winner is the candidate on the other."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

SCRIPTS = """
    import os
    import random
    import time

    def right(request, share):
        with open("calls.txt", "a") as file:
            file.write(f"{request.arm} {request.sample}" + chr(10))
        {before}
        lucky = random.Random(f"{request.arm} {request.sample}").random() < share
        return "right" if lucky else "wrong"

    def answer(request):
        return right(request, request.parameters.get("quality", 5) / 10)

    def base(request):
        return right(request, 0.6)
"""
TESTS = """
    import pytest

    SAMPLES = [{{"id": f"s{{k}}", "input": f"q{{k}}"}} for k in range({n})]
    OTHERS = [{{"id": f"t{{k}}", "input": f"q{{k}}"}} for k in range(30)]

    @pytest.mark.crucible(dataset=OTHERS)
    @pytest.mark.quality_target("well >= 0.5")
    async def test_other(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(well=reply.text == "right")

    @pytest.mark.crucible(dataset=SAMPLES)
    @pytest.mark.quality_target("ok >= 0.75")
    @pytest.mark.ab_compare("ok")
    async def test_sums(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(ok=reply.text == "right")

    @pytest.mark.crucible(dataset=SAMPLES[:{n} // 2])
    @pytest.mark.quality_target("fine >= 0.5")
    async def test_same(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(fine=reply.text == "right")
"""
SWEEP = """
[adapters.tuned]
backend = "scripted"
script = "scripts:answer"

[adapters.tuned.sweep]
"parameters.quality" = [2, 9, 4]
by = "ok"
"""
BOTH = ("--crucible-adapter=tuned", "--compare=base")
GOOD, *POOR = "tuned[quality=9]", "tuned[quality=2]", "tuned[quality=4]"


def write_suite(suite, *, n=160, sweep=SWEEP, before="", tests=TESTS):
    suite.script(SCRIPTS.replace("{before}", before))
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(sweep)
    suite.test(tests.format(n=n))
    return suite


def experiments(suite):
    document = json.loads((suite.path / "r.json").read_text())
    return {experiment["nodeid"].partition("::")[2]: experiment for experiment in document["experiments"]}


def decisions(suite):
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as store:
        rows = store.execute(
            "select run, subject, number, body from decisions join runs on runs.id = run order by started"
        ).fetchall()
    runs = {}
    for run, subject, number, body in rows:
        if not subject.startswith("choice"):
            runs.setdefault(run, {})[subject, number] = json.loads(body)
    return list(runs.values())


def test_the_winner_is_the_candidate_on_the_confirming_half(suite):
    result = write_suite(suite).run(*BOTH, "--crucible-json=r.json")

    assert result.ret == 0
    calls, found_experiments = [line.split() for line in suite.calls()], experiments(suite)
    samples_by_arm = {name: {sample for arm, sample in calls if arm == name} for name in (GOOD, *POOR, "base")}
    # Members that are proven worse get no more requests, apart from those in flight, and never a confirming sample.
    document = found_experiments["test_sums"]["sections"]["sweep"]
    assert len(samples_by_arm["base"]) == document["confirming"] == 80
    for poor in POOR:
        assert not samples_by_arm[poor] & samples_by_arm["base"]
        assert len(samples_by_arm[poor]) < 80
    # Another experiment on the same samples leaves out those that have chosen; other samples are used whole.
    assert found_experiments["test_same"]["dataset"]["n"] == len(samples_by_arm["base"] & {f"s{k}" for k in range(80)})
    assert found_experiments["test_other"]["dataset"]["n"] == 30
    assert {found_experiments[name]["arms"][0]["name"] for name in found_experiments} == {GOOD}
    assert found_experiments["test_sums"]["verdicts"][0]["state"] == "met"
    assert {found_experiments[name]["sections"]["sweep"]["winner"] for name in found_experiments} == {GOOD}
    members = {member["name"]: member for member in document["members"]}
    # When one is left it has won, and gets no more requests of the choosing half either.
    last = max(members[name]["dropped_after"] for name in POOR)
    assert [members[name]["n"] for name in (GOOD, *POOR)] == [last, *(members[name]["dropped_after"] for name in POOR)]
    assert document["grid"] == {"parameters.quality": [2, 9, 4]}
    assert [(members[name]["best_rank"], members[name]["worst_rank"]) for name in (GOOD, *POOR)] == [
        (1, 1),
        (2, 3),
        (2, 3),
    ]
    assert all(members[name]["difference_high"] < 0 for name in POOR)
    assert document["not_proven_worse"] == [GOOD]
    assert "one training of each setting" in document["settings"]["reason"]
    result.stdout.fnmatch_lines(
        [
            "crucible: test_sums: tuned vs base, 80 samples x 2 arms = 160 replies",
            "  tuned: first 3 members compete by ok on 80 other samples, with at most 240*",
            "tuned[[]quality=9[]] * winner * 1 [[]1, 1[]] * the best",
            "test_sums: tuned[[]quality=9[]] has won the sweep of tuned by ok on 80 samples; verdicts rest on 80 others",
            "test_sums: ok: not proven worse than the best of 3 members: tuned[[]quality=9[]]",
        ]
    )


@pytest.mark.slow
def test_a_killed_run_is_resumed_with_the_same_drops_and_winner(suite):
    # Past the look that drops the poor members, and before the winner is known; the last rows are committed meanwhile.
    dies = (
        'if os.path.exists("die") and sum(1 for _ in open("calls.txt")) > 45: time.sleep(0.7), os.kill(os.getpid(), 9)'
    )
    # Two of the members are so alike that the choice goes on to the end.
    write_suite(suite, n=80, before=dies, sweep=SWEEP.replace("[2, 9, 4]", "[2, 9, 8]"))
    (suite.path / "die").touch()
    suite.run_apart(*BOTH, "--crucible-concurrency=2")
    (suite.path / "die").unlink()
    (before,) = decisions(suite)
    sent = Counter(suite.calls())
    result = suite.run(*BOTH, "--crucible-resume", "--crucible-json=r.json")

    assert result.ret == 0
    first, second = decisions(suite)
    assert first == before
    assert {key: second[key] for key in first} == first
    assert "winner of tuned" not in {subject for subject, _ in first}
    assert second["winner of tuned", 0]["winner"] != POOR[0]
    # Apart from those in flight.
    repeated = [call for call, count in Counter(suite.calls()).items() if count > 1 and " s" in call]
    assert len([call for call in repeated if sent[call]]) <= 3


CHANGED = (
    "run ???? swept quality = [[]2, 9, 4]; now it is [[]2, 9, 5]: restore the grid, or run without --crucible-resume"
)


@pytest.mark.uses("stages")
@pytest.mark.slow
def test_a_resumed_sweep_repeats_its_decisions_and_no_request(suite):
    write_suite(suite).run(*BOTH, "--crucible-concurrency=2")
    assert sum(call.split()[0] in POOR for call in suite.calls()) < 2 * 80
    suite.forget_calls()
    # Replies of dropped members are missing after the look that dropped them, and are not sent any more.
    estimate = suite.run(*BOTH, "--crucible-resume", "--crucible-estimate", "--crucible-cache=off")
    result = suite.run(*BOTH, "--crucible-resume")

    assert result.ret == 0
    estimate.stdout.fnmatch_lines(["all * requests 0, *"])
    estimate.stdout.no_fnmatch_line("*at most so much*")
    assert suite.calls() == []
    first, second = decisions(suite)
    assert first == second

    file = suite.path / "crucible.toml"
    file.write_text(file.read_text().replace("[2, 9, 4]", "[2, 9, 5]"))
    suite.refuses(suite.run(*BOTH, "--crucible-resume"), CHANGED)
    suite.refuses(suite.run(*BOTH, "--crucible-resume", "--crucible-estimate"), CHANGED)


@pytest.mark.slow
def test_workers_wait_for_the_winner(suite):
    result = write_suite(suite).run_n2(*BOTH, "--crucible-json=r.json")

    assert result.ret == 0
    assert {experiment["arms"][0]["name"] for experiment in experiments(suite).values()} == {GOOD}
    assert decisions(suite)[0]["winner of tuned", 0]["winner"] == GOOD


@pytest.mark.slow
def test_the_death_of_the_choosing_worker_leaves_all_undecided(suite):
    dies = 'if "tuned" in request.arm and sum(1 for _ in open("calls.txt")) > 20: os.kill(os.getpid(), 9)'
    result = write_suite(suite, before=dies).run_n2(*BOTH, "--crucible-json=r.json", "-rs")

    assert result.ret == 1
    verdicts = [verdict for experiment in experiments(suite).values() for verdict in experiment["verdicts"]]
    assert [verdict["state"] for verdict in verdicts] == ["undecided"] * 4
    result.stdout.fnmatch_lines(["*not run: the sweep of 'tuned' has no winner: worker gw?, which chose it, has ended"])


@pytest.mark.uses("stages")
@pytest.mark.slow
def test_an_estimate_reaches_from_the_first_drop_to_all_members(suite):
    result = write_suite(suite, n=80).run("--crucible-adapter=tuned", "--crucible-estimate")

    (line,) = [line for line in result.outlines if line.startswith("all ")]
    value, low, high = (int(text.strip(" ,[]")) for text in line.partition("requests ")[2].split(", tokens")[0].split())
    suite.run("--crucible-adapter=tuned")
    assert low <= len(suite.calls()) <= value == high
    result.stdout.fnmatch_lines(["  tuned: at most so much, since members that are dropped answer less"])


@pytest.mark.slow
@pytest.mark.parametrize("drop", ["half", "none"])
def test_other_rules_for_drops(suite, drop):
    write_suite(suite, n=80, sweep=SWEEP + f'drop = "{drop}"\n').run(*BOTH, "--crucible-json=r.json")

    found_experiments = experiments(suite)["test_sums"]["sections"]["sweep"]
    assert found_experiments["winner"] == GOOD
    assert [len(look["kept"]) for look in found_experiments["looks"]] == ([2, 1] if drop == "half" else [])


@pytest.mark.slow
def test_the_choosing_half_spends_from_the_budget_of_its_test(suite):
    tests = TESTS.replace("dataset=SAMPLES)", 'dataset=SAMPLES, budget="60 requests")')
    result = write_suite(suite, n=80, tests=tests).run(*BOTH, "--crucible-concurrency=2", "test_sums.py::test_sums")

    assert 50 <= len(suite.calls()) <= 60
    # Members that were dropped hold nothing back, so that the money is enough for the choice, and not for all verdicts.
    assert decisions(suite)[0]["winner of tuned", 0]["winner"] == GOOD
    result.stdout.fnmatch_lines(["budget * 60 requests*"])


@pytest.mark.slow
def test_a_stored_run_on_other_samples_is_no_baseline(suite):
    write_suite(suite, n=80).run("--crucible-adapter=base")
    result = suite.run("--crucible-adapter=tuned", "--compare=run:latest")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--compare=run:latest cannot be compared with: dataset rows changed since run *"])


def test_without_a_confirming_half_claims_hold_for_all_members(suite):
    sweep = SWEEP.replace("[2, 9, 4]", "[8, 9, 2]") + "confirm = 0\n"
    result = write_suite(suite, n=80, sweep=sweep).run(*BOTH, "--crucible-json=r.json")

    assert result.ret == 0
    found_experiments = experiments(suite)
    experiment = found_experiments["test_sums"]
    calls = Counter(suite.calls())
    # The winner's replies on the choosing samples are used again.
    winner = experiment["arms"][0]["name"]
    assert {calls[f"{winner} s{n}"] for n in range(40, 80)} == {1}
    assert experiment["dataset"]["n"] == 80
    # Three members share alpha, on samples that chose; other samples are as good as any.
    levels = {name: found_experiments[name]["estimates"][0]["level"] for name in found_experiments}
    assert levels == {
        "test_sums": pytest.approx(1 - 0.05 / 3),
        "test_same": pytest.approx(1 - 0.05 / 3),
        "test_other": 0.95,
    }
    corrected = experiment["sections"]["sweep"]["corrected"]
    assert corrected["naive"] == pytest.approx(experiment["estimates"][0]["value"])
    assert corrected["low"] < corrected["value"] <= corrected["naive"]
    (verdict,) = [verdict for verdict in experiment["verdicts"] if verdict["subject"] == "ok >= 0.75"]
    assert verdict["state"] in ("met", "undecided")
    assert verdict["proven"] == (verdict["state"] == "met")
    result.stdout.fnmatch_lines(["*on 80 samples, which give the verdicts, too; claims hold for all 3 members*"])


def test_fast_replies_do_not_change_the_winner(suite):
    # The poor member answers at once, and a wrong answer sooner than a right one.
    slow = 'time.sleep(0.0 if "quality=2" in request.arm else 0.004 * random.Random(request.sample).random())'
    decided = []
    for before in ("pass", slow):
        write_suite(suite, n=80, before=before).run(*BOTH, "--crucible-concurrency=8")
        decided.append(decisions(suite)[-1])

    assert decided[0] == decided[1]


@pytest.mark.parametrize(
    ("sweep", "n", "options", "sentence"),
    [
        (SWEEP.replace('"ok"', '"citation"'), 80, (), None),
        (
            SWEEP,
            12,
            (),
            "12 samples are too few for confirm = 0.5, which needs 20 (and 5 groups) in each half: add samples",
        ),
        (SWEEP, 80, ("--crucible-sample=s1",), "--crucible-sample sends single samples, and 'tuned' is a family"),
        (SWEEP.replace('"ok"', '"passed"'), 80, (), None),
    ],
    ids=["unknown", "few", "sample", "several"],
)
def test_invalid_sweeps_are_refused_before_any_request(suite, sweep, n, options, sentence):
    if sentence is None:
        sentence = (
            "the sweep of 'tuned' chooses by 'citation', which test_other and test_sums and test_same score: "
            'set by = "test_other::citation"'
        ).replace("citation", "citation" if "citation" in sweep else "passed")
    result = write_suite(suite, n=n, sweep=sweep).run(*BOTH, *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{sentence}*"])
    assert suite.calls() == []


def test_a_metric_that_no_score_has_is_refused_after_the_first_sample(suite):
    sweep = SWEEP.replace('"ok"', '"test_sums::citation"')
    result = write_suite(suite, sweep=sweep).run(*BOTH, "--crucible-concurrency=1")

    suite.refuses(result, "the sweep of 'tuned' chooses by 'citation', which no selected test scores: set by = \"ok\"*")
    assert len(suite.calls()) <= 4


@pytest.mark.uses("factors")
def test_a_sweep_of_prompts_is_chosen_by_what_the_test_sends(suite):
    suite.script("""
        def answer(request):
            return "right" if request.input.startswith("Be terse. friendly") else "wrong"
    """)
    (suite.path / "terse.txt").write_text("Be terse.")
    (suite.path / "crucible.toml").write_text("""
        [adapters.tuned]
        backend = "scripted"
        script = "scripts:answer"
        variables = { tone = "friendly" }

        [adapters.tuned.sweep]
        "variables.prompt" = ["Be polite.", "terse.txt"]
        by = "ok"
    """)
    suite.test("""
        import pytest

        @pytest.mark.crucible(dataset=[{"id": f"s{k}", "input": f"q{k}"} for k in range(80)])
        @pytest.mark.quality_target("ok >= 0.5")
        async def test_sums(sample, sampler, prompt, score):
            reply = await sampler.generate(f"{prompt} {sampler.variables['tone']} {sample.input}")
            score(ok=reply.text == "right")
    """)

    suite.run("--crucible-adapter=tuned", "--crucible-json=r.json").assert_outcomes(passed=2)

    (experiment,) = experiments(suite).values()
    assert experiment["arms"][0]["name"] == "tuned[prompt=terse.txt]"
