"""crucible_stages: all experiments stage by stage on nested samples, and an end between stages or within one."""

from __future__ import annotations

import json
from collections import Counter

import pytest

TEST = """
    import pathlib
    import pytest

    def samples(n, group=lambda k: None):
        return [{{"id": f"s{{k}}", "input": f"q{{k}}", "expected": "right", "group": group(k)}} for k in range(n)]

    @pytest.fixture
    def fixture():
        with open("setups.txt", "a+") as file:
            file.write("setup" + chr(10))
            file.seek(0)
            if pathlib.Path("fail").exists() and len(file.readlines()) == 2:
                raise RuntimeError("second set-up")

    @pytest.mark.crucible(dataset=samples(120), metrics=["exact_match"])
    @pytest.mark.quality_target({target!r})
    @pytest.mark.ab_compare("exact_match")
    async def test_first(sample, sampler, fixture):
        return await sampler.generate(sample.input)

    @pytest.mark.crucible(dataset=samples(60, lambda k: f"g{{k // 5}}"), metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.5")
    async def test_groups(sample, sampler):
        return await sampler.generate(sample.input)

    @pytest.mark.crucible(dataset=samples(30), metrics=["exact_match"], stage="full")
    @pytest.mark.quality_target("exact_match >= 0.5")
    async def test_late(sample, sampler):
        return await sampler.generate(sample.input)

    def test_plain():
        pass
"""
SCRIPTS = """
    import random

    def right(arm, request, share):
        with open("calls.txt", "a") as file:
            file.write(" ".join([arm, request.experiment.partition("::")[2], request.sample]) + chr(10))
        {before}
        return "right" if random.Random(arm + request.sample).random() < share else "wrong"

    def answer(request):
        return right("answer", request, {ours})

    def base(request):
        return right("base", request, {theirs})
"""
BOTH = ("--crucible-adapter=scripted", "--compare=base", "--crucible-json=r.json", "-p", "no:cacheprovider")
STAGES = "smoke: 10, dev: 40, full"
# The 21st sample of the first experiment, in look order, is one of stage dev.
INTERRUPT = """
        import pathlib, signal
        if (arm, request.sample) == ("base", "s85") and not pathlib.Path("stopped").exists():
            pathlib.Path("stopped").touch()
            signal.raise_signal(signal.SIGINT)
"""


def write_suite(suite, *, ours=0.9, theirs=0.8, target="exact_match >= 0.6", before="", stages=STAGES):
    (suite.path / "pytest.ini").write_text(f"[pytest]\ncrucible_stages = {stages}\n")
    suite.script(SCRIPTS.format(ours=ours, theirs=theirs, before=before))
    suite.test(TEST.format(target=target), name="test_sums")
    return suite


def document(suite):
    return json.loads((suite.path / "r.json").read_text())


def verdicts(suite):
    """State, proof and reason of each verdict, by experiment and subject."""
    return {
        (experiment["nodeid"].partition("::")[2], verdict["subject"]): (verdict["state"], verdict["proven"])
        for experiment in document(suite)["experiments"]
        for verdict in experiment["verdicts"]
    }


def n_of(suite):
    return [experiment["estimates"][0]["n"] for experiment in document(suite)["experiments"]]


def calls(suite):
    """Return the number of samples sent by each experiment; no unit is sent twice."""
    lines = suite.calls()
    assert max(Counter(lines).values(), default=0) <= 1
    return Counter(line.split()[1] for line in lines)


def test_all_experiments_run_stage_by_stage_and_no_sample_twice(suite):
    result = write_suite(suite).run(*BOTH, "-v")

    assert result.ret == 0
    assert calls(suite) == {"test_first": 240, "test_groups": 60, "test_late": 30}
    assert (suite.path / "setups.txt").read_text().count("setup") == 3
    order = [line.split()[1] for line in suite.calls()]
    in_order = [name for name, following in zip(order, [*order[1:], ""], strict=True) if name != following]
    assert in_order == [
        "test_first",
        "test_groups",
        "test_first",
        "test_groups",
        "test_first",
        "test_groups",
        "test_late",
    ]
    # Groups of five are whole, and arms have the same samples.
    assert order.index("test_groups") == 2 * 10
    assert document(suite)["run"]["alpha"] == pytest.approx(0.04)
    assert [(stage["name"], stage["samples"], stage["replies"]) for stage in stages_of(suite, 0)] == [
        ("smoke", 10, 20), ("dev", 40, 60), ("full", 120, 160)
    ]  # fmt: skip
    result.stdout.fnmatch_lines(
        [
            "*stages: smoke (10), dev (40), full; the session ends when a miss is proven",
            "  begins at the last stage, full",
            "*::test_first PASSED*",
            "*::test_groups PASSED*",
            "*::test_plain PASSED*",
            "*::test_first@dev PASSED*",
            "*::test_groups@dev PASSED*",
            "*::test_first@full PASSED*",
            "*::test_groups@full PASSED*",
            "*::test_late PASSED*",
        ]
    )


def stages_of(suite, experiment):
    return document(suite)["experiments"][experiment]["sections"]["stages"]["stages"]


@pytest.mark.slow
def test_a_proven_miss_ends_the_session_between_stages(suite):
    result = write_suite(suite, ours=0.35, theirs=0.95, target="exact_match >= 0.05").run(*BOTH)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert calls(suite) == {"test_first": 80, "test_groups": 40}
    assert n_of(suite) == [40, 40, 0]
    states = verdicts(suite)
    assert states.pop(("test_first", "exact_match: scripted vs base")) == ("missed", True)
    assert set(states.values()) == {("undecided", False)}
    sentence = "the session ended after stage dev: test_first: exact_match: scripted vs base is missed"
    result.stdout.fnmatch_lines([f"*{sentence}"])
    # The family is what was planned, and each look has its own share of alpha.
    run = document(suite)["run"]
    assert (run["alpha"], run["family_size"]) == (pytest.approx(0.005), 4)
    assert sentence in suite.command("show", "latest").stdout.str()

    before = verdicts(suite), n_of(suite)
    suite.run(*BOTH, "--crucible-resume")
    assert (verdicts(suite), n_of(suite)) == before
    assert calls(suite) == {"test_first": 80, "test_groups": 40}


@pytest.mark.slow
def test_until_ends_after_a_stage_and_resume_goes_on_without_a_request_twice(suite):
    result = write_suite(suite).run(*BOTH, "--crucible-until=smoke")

    assert result.ret == 0
    assert calls(suite) == {"test_first": 20, "test_groups": 10}
    assert set(verdicts(suite).values()) == {("undecided", False)}
    result.stdout.fnmatch_lines(
        ["*the session ended after stage smoke (--crucible-until); continue with --crucible-resume"]
    )

    suite.run(*BOTH, "--crucible-resume")
    assert calls(suite) == {"test_first": 240, "test_groups": 60, "test_late": 30}
    assert {state for state, _ in verdicts(suite).values()} == {"met"}


def test_a_target_out_of_reach_ends_the_session_at_once(suite):
    result = write_suite(suite, ours=0.5, theirs=0.5, target="exact_match >= 0.97").run(
        *BOTH, "--crucible-concurrency=1"
    )

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    # The fourth wrong answer of 120 leaves at most 116/120.
    assert n_of(suite)[0] < 20
    assert calls(suite)["test_first"] <= 2 * n_of(suite)[0] * 1.15 + 4
    assert verdicts(suite)["test_first", "exact_match >= 0.97"] == ("missed", False)
    assert {state for (name, _), (state, _) in verdicts(suite).items() if name != "test_first"} == {"undecided"}
    result.stdout.fnmatch_lines(["*it could not be met any more, whatever the samples that are left score*"])


@pytest.mark.slow
def test_slow_replies_change_neither_the_end_nor_a_verdict(suite):
    ends = []
    for slow in ("right", "wrong"):
        write_suite(suite, ours=0.5, theirs=0.5, target="exact_match >= 0.9")
        test = suite.path / "test_sums.py"
        sleep = f"await asyncio.sleep(0.004 * (reply.text == {slow!r}))"
        sleeps = f"reply = await sampler.generate(sample.input)\n    {sleep}\n    return reply"
        source = test.read_text().replace("return await sampler.generate(sample.input)", sleeps, 1)
        test.write_text("import asyncio\n" + source)
        suite.run(*BOTH, "--crucible-cache=off", "--crucible-fresh", "--crucible-concurrency=8")
        ends.append((verdicts(suite), n_of(suite)))

    assert ends[0] == ends[1]
    assert ends[0][0]["test_first", "exact_match >= 0.9"] == ("missed", False)


@pytest.mark.slow
def test_workers_wait_for_each_other(suite):
    write_suite(suite).run(*BOTH, "--crucible-store=a.db", "--crucible-cache=off")
    alone = verdicts(suite), n_of(suite)
    suite.forget_calls()
    result = suite.run_n2(*BOTH, "--crucible-store=b.db", "--crucible-cache=off")

    assert result.ret == 0
    assert (verdicts(suite), n_of(suite)) == alone
    assert calls(suite) == {"test_first": 240, "test_groups": 60, "test_late": 30}
    order = [line.split()[1] for line in suite.calls()]
    # Both have run a stage before either begins the next one.
    first = order[: 20 + 10]
    assert Counter(first) == {"test_first": 20, "test_groups": 10}


@pytest.mark.slow
def test_a_resumed_session_ends_at_the_same_stage(suite):
    write_suite(suite).run(*BOTH, "--crucible-store=a.db", "--crucible-cache=off")
    whole = verdicts(suite), n_of(suite)
    suite.forget_calls()
    write_suite(suite, before=INTERRUPT)
    stopped = suite.run_apart(*BOTH, "--crucible-cache=off", "--crucible-concurrency=1")
    assert stopped.ret == pytest.ExitCode.INTERRUPTED
    assert 30 < len(suite.calls()) < 330
    assert set(verdicts(suite).values()) == {("undecided", False)}
    result = suite.run(*BOTH, "--crucible-cache=off", "--crucible-resume")

    assert result.ret == 0
    assert (verdicts(suite), n_of(suite)) == whole
    # Only the replies that Ctrl-C cut off are requested again.
    assert len(suite.calls()) <= 330 + 2


KILL = """
        import os, pathlib, signal
        if (arm, request.sample) == ("base", "s85") and not pathlib.Path("stopped").exists():
            pathlib.Path("stopped").touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_worker_that_dies_is_not_waited_for(suite):
    """It dies in stage dev, when pytest-xdist has no item of it any more."""
    result = write_suite(suite, before=KILL).run_apart(*BOTH, "-n2", "--max-worker-restart=0", "--crucible-cache=off")

    assert (suite.path / "stopped").exists()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED *::test_first - worker 'gw?' crashed before the last stage; continue with *"])
    assert verdicts(suite)["test_first", "exact_match >= 0.6"] == ("undecided", False)

    suite.run(*BOTH, "--crucible-cache=off", "--crucible-resume")
    assert {state for state, _ in verdicts(suite).values()} == {"met"}


def test_a_later_stage_that_fails_is_an_error_of_its_own(suite):
    (suite.path / "fail").touch()
    result = write_suite(suite).run(*BOTH[:3])

    result.assert_outcomes(errors=1, passed=8, skipped=3)
    result.stdout.fnmatch_lines(["ERROR *::test_first@dev - RuntimeError: second set-up"])
    states = verdicts(suite)
    assert {state for (name, _), (state, _) in states.items() if name == "test_first"} == {"undecided"}
    assert {state for (name, _), (state, _) in states.items() if name != "test_first"} == {"met"}
    failed = json.loads((suite.path / ".pytest_cache/v/cache/lastfailed").read_text())
    assert list(failed) == ["test_sums.py::test_first"]


def test_an_expected_failure_ends_no_session(suite):
    write_suite(suite, ours=0.35, theirs=0.95)
    test = suite.path / "test_sums.py"
    test.write_text(test.read_text().replace("async def test_first", "@pytest.mark.xfail\nasync def test_first"))
    suite.run(*BOTH)

    assert calls(suite)["test_first"] == 240
    assert verdicts(suite)["test_first", "exact_match: scripted vs base"] == ("missed", True)


def test_an_estimate_ends_where_the_run_would(suite):
    write_suite(suite).run(*BOTH[:2], "--crucible-estimate", "--crucible-until=dev").stdout.fnmatch_lines(
        [
            "scripted * 40 *",
            "base * 40 *",
            "scripted * 40 *",
            "  scripted: nothing to send",
            "all * requests 120 [[]*, 120[]], *",
        ]
    )
    assert not (suite.path / "calls.txt").exists()


@pytest.mark.parametrize(
    ("stages", "arguments", "sentence"),
    [
        (STAGES, ("--crucible-stop",), "--crucible-stop cannot be combined with crucible_stages: remove one of them"),
        (STAGES, ("--crucible-until=smok",), "*crucible_stages has no stage 'smok': did you mean 'smoke'?*"),
        ("smoke: 5, all", (), "*stage='full'*: crucible_stages has no stage 'full'*"),
    ],
    ids=["stop", "unknown", "marker"],
)
def test_invalid_stages_are_refused_before_any_request(suite, stages, arguments, sentence):
    result = write_suite(suite, stages=stages).run(*BOTH, *arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{sentence}"])
    assert not (suite.path / "calls.txt").exists()
