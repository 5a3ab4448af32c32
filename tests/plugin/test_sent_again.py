"""Stored replies answer the calls that the test sends now, or their samples are sent again."""

from __future__ import annotations

import re

import pytest

SCRIPTS = """
    import os
    import time
    from pathlib import Path

    def note(arm, request):
        with open("calls.txt", "a") as file:
            file.write(f"{arm} {request.sample} {request.parameters.get('reasoning_effort')}" + chr(10))

    def reply(arm, request):
        number = int(request.sample[1:])
        if number > 9 and Path("down").exists():
            raise OSError("down")
        if (arm, number) == ("base", 12) and Path("kill").exists():
            Path("kill").unlink()
            time.sleep(1)  # what was sent before is stored
            os._exit(9)
        note(arm, request)
        right = 18 if request.parameters.get("reasoning_effort") == "high" else 4
        return str(2 * number) if number < right else "?"

    def answer(request):
        return reply("answer", request)

    def base(request):
        return reply("base", request)
"""

TEST = """
    import os

    import pytest

    @pytest.fixture
    def effort():
        return os.environ["EFFORT"]

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler, effort):
        return await sampler.generate(sample.input, reasoning_effort=effort)
"""
BOTH = ("--crucible-adapter=scripted", "--compare=base")


def count_calls(suite):
    return {arm: sum(line.startswith(arm) for line in suite.calls()) for arm in ("answer", "base")}


def measure(suite):
    suite.script(SCRIPTS)
    suite.test(TEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EFFORT", "high")
        assert suite.run(*BOTH).ret == 0
    assert count_calls(suite) == {"answer": 20, "base": 20}
    suite.forget_calls()


@pytest.fixture
def measured(suite, monkeypatch):
    """The suite after a session at high effort."""
    suite.prepare_once(measure)
    return suite


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_a_baseline_of_another_effort_is_sent_again(measured, monkeypatch, workers):
    """Two equal models at low effort: the stored replies at high effort would prove a regression."""
    monkeypatch.setenv("EFFORT", "low")

    result = measured.run(*workers, *BOTH)

    assert result.ret == 0
    assert sorted(measured.calls()) == sorted(f"{arm} q{k:02} low" for arm in ("answer", "base") for k in range(20))
    assert (
        "test_sums: base: 20 stored replies answer other calls than this session sends (reasoning_effort high then, low now), "
        "and their samples were sent again; if the arms are to differ in it, declare arms_differ_in=['reasoning_effort']"
    ) in result.stdout.lines
    result.stdout.no_fnmatch_line("* reused from run *")
    result.stdout.no_fnmatch_line("*drifted*")


def test_replies_that_were_sent_again_are_stored_replies_of_the_next_session(measured, monkeypatch):
    monkeypatch.setenv("EFFORT", "low")
    measured.run(*BOTH)
    measured.forget_calls()

    result = measured.run(*BOTH)

    assert count_calls(measured) == {"answer": 20, "base": 0}
    result.stdout.fnmatch_lines(["test_sums: base: 20 of 20 replies reused from run *"])


BY_ARM = (
    TEST.replace("def effort():", "def efforts():")
    .replace("sampler, effort):", "sampler, efforts):")
    .replace('return os.environ["EFFORT"]', 'return {"scripted": os.environ["EFFORT"], "base": "low"}')
    .replace("reasoning_effort=effort", "reasoning_effort=efforts[sampler.arm.name]")
)


@pytest.mark.parametrize(
    ("declared", "calls"),
    [
        ("", {"answer": 20, "base": 20}),
        ('arms_differ_in=["temperature"]', {"answer": 20, "base": 20}),
        ('arms_differ_in=["reasoning_effort"]', {"answer": 20, "base": 0}),
        ('arms_differ_in="*"', {"answer": 20, "base": 0}),
    ],
)
def test_a_declared_difference_is_let_through(suite, monkeypatch, declared, calls):
    """The test itself passes one effort to one arm, and another to the other."""
    suite.script(SCRIPTS)
    suite.test(BY_ARM.replace('metrics=["exact_match"]', f'metrics=["exact_match"], {declared}'))
    monkeypatch.setenv("EFFORT", "high")
    suite.run(*BOTH)
    assert count_calls(suite) == {"answer": 20, "base": 20}
    suite.forget_calls()

    suite.run(*BOTH)

    assert count_calls(suite) == calls


def test_other_messages_are_sent_again_and_only_those(suite, monkeypatch):
    """A few-shot prefix that a fixture reads from a file, for the samples from q10 on."""
    suite.script(SCRIPTS)
    suite.test(
        TEST.replace(
            "sample.input, reasoning_effort=effort", "f'{effort if sample.id > \"q09\" else str()}{sample.input}'"
        )
    )
    monkeypatch.setenv("EFFORT", "2 + 2 = 4. ")
    suite.run(*BOTH)
    suite.forget_calls()
    monkeypatch.setenv("EFFORT", "3 + 3 = 6. ")

    result = suite.run(*BOTH)

    assert count_calls(suite) == {"answer": 20, "base": 10}
    result.stdout.fnmatch_lines(
        [
            "test_sums: base: 10 of 20 replies reused from run *",
            "test_sums: base: 10 stored replies answer other calls than this session sends (other messages), and their samples "
            "were sent again",
        ]
    )


def begin(suite, effort, test=TEST):
    """A session in which the server is down from the tenth sample on."""
    suite.script(SCRIPTS)
    suite.test(test)
    (suite.path / "down").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EFFORT", effort)
        suite.run(*BOTH)
    assert count_calls(suite) == {"answer": 10, "base": 10}
    suite.forget_calls()
    (suite.path / "down").unlink()


def test_a_resumed_run_never_mixes_two_efforts(suite, monkeypatch, run):
    begin(suite, "high")
    monkeypatch.setenv("EFFORT", "low")

    result = run("--crucible-resume", *BOTH)

    assert sorted(suite.calls()) == sorted(f"{arm} q{k:02} low" for arm in ("answer", "base") for k in range(20))
    result.stdout.fnmatch_lines(
        [
            "test_sums: scripted: 10 stored replies answer other calls than this session sends (reasoning_effort high then, low "
            "now), and their samples were sent again",
            "test_sums: base: 10 stored replies answer other calls *",
        ]
    )


PER_SAMPLE = TEST.replace("reasoning_effort=effort", "max_tokens=10 + int(sample.id[1:]), stop=[effort]")


@pytest.mark.parametrize("test", [TEST, PER_SAMPLE, BY_ARM], ids=["one", "per sample", "by arm"])
def test_a_run_that_is_resumed_with_equal_calls_sends_what_is_missing(suite, monkeypatch, test):
    begin(suite, "high", test)
    monkeypatch.setenv("EFFORT", "high")

    suite.run("--crucible-resume", *BOTH)

    assert count_calls(suite) == {"answer": 10, "base": 10}


def test_a_resumed_run_of_other_calls_of_each_sample_sends_all_of_them(suite, monkeypatch):
    begin(suite, "x", PER_SAMPLE)
    monkeypatch.setenv("EFFORT", "y")

    suite.run("--crucible-resume", *BOTH)

    assert count_calls(suite) == {"answer": 20, "base": 20}


@pytest.mark.uses("run_checks")
@pytest.mark.parametrize("resumed", [(), ("--crucible-resume",)], ids=["again", "resumed"])
def test_a_session_that_was_killed_while_it_sent_samples_again_leaves_no_other_effort(measured, monkeypatch, resumed):
    monkeypatch.setenv("EFFORT", "low")
    (measured.path / "kill").touch()
    measured.run_apart(*BOTH, "--crucible-concurrency=1")
    sent_before = count_calls(measured)["base"]
    assert not (measured.path / "kill").exists()

    document = measured.json(*resumed, *BOTH)

    assert 0 < sent_before < 20
    [sent] = [line for line in document["experiments"][0]["sections"]["run_checks"] if line["check"] == "sent"]
    assert [arm["reasoning_effort"] for arm in sent["numbers"]] == [{'"low"': 20}] * 2


def test_a_stored_run_of_another_effort_is_refused(measured, monkeypatch):
    monkeypatch.setenv("EFFORT", "high")
    run = measured.json("--crucible-adapter=base")["run"]["id"]
    monkeypatch.setenv("EFFORT", "low")

    result = measured.run("--crucible-adapter=scripted", f"--compare=run:{run}")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"*--compare=run:{run} cannot be compared with: its calls have reasoning_effort high, and the test sends low now; "
            "measure the baseline again with --compare=ADAPTER, or declare @pytest.mark.crucible(..., "
            "arms_differ_in=?'reasoning_effort'?)"
        ]
    )


@pytest.mark.parametrize("names", ["7", '[""]', "[7]", "{}"])
def test_names_that_are_none_are_refused(suite, names):
    suite.test(TEST.replace('metrics=["exact_match"]', f"arms_differ_in={names}"))

    result = suite.run("--crucible-adapter=v2", "--compare=v1")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        f"ERROR: test_sums.py::test_sums: @pytest.mark.crucible has arms_differ_in={names.replace(chr(34), chr(39))}: write "
        "names of parameters that the test passes, such as ['reasoning_effort'], or '*' for whatever it sends"
    ) in result.stderr.lines


@pytest.mark.parametrize(
    ("options", "replies"), [(["--crucible-rounds=2"], 80), (["-ocrucible_stages=smoke: 5, full"], 40)]
)
def test_repeats_rounds_and_stages_are_compared_each_with_its_own(suite, monkeypatch, options, replies):
    suite.script(SCRIPTS)
    suite.test(TEST.replace('metrics=["exact_match"]', 'metrics=["exact_match"], epochs=2, fixed=["rounds"]'))
    options = (*BOTH, *options)
    monkeypatch.setenv("EFFORT", "high")
    suite.run(*options)
    assert count_calls(suite) == {"answer": replies, "base": replies}
    suite.forget_calls()
    suite.run(*options)
    assert count_calls(suite) == {"answer": replies, "base": 0}
    suite.forget_calls()
    monkeypatch.setenv("EFFORT", "low")

    document = suite.json(*options)

    assert count_calls(suite) == {"answer": replies, "base": replies}
    cache = document["experiments"][0]["sections"]["cache"]
    effort = {"sent": "low", "stored": "high"}
    assert cache["sent_again"] == {"base": {"replies": replies, "differences": {"reasoning_effort": effort}}}
    assert cache["reused"] == {}


def test_a_budget_pays_for_the_samples_that_are_sent_again(measured, monkeypatch):
    monkeypatch.setenv("EFFORT", "low")
    result = measured.run(*BOTH, "--crucible-budget=40 requests")
    assert result.ret == 0
    assert count_calls(measured) == {"answer": 20, "base": 20}


def test_a_run_that_may_stop_early_does_not_look_at_replies_to_other_calls(measured, monkeypatch):
    monkeypatch.setenv("EFFORT", "low")
    result = measured.run(*BOTH, "--crucible-stop")
    assert result.ret == 0
    assert count_calls(measured) == {"answer": 20, "base": 20}


def test_the_plan_says_what_may_be_requested_again(measured, monkeypatch):
    monkeypatch.setenv("EFFORT", "high")
    line = "  0 to {} are requested again, if calls have changed"
    measured.run(*BOTH).stdout.fnmatch_lines([line.format("20 stored replies of base")])
    measured.run(*BOTH, "--crucible-fresh").stdout.no_fnmatch_line(line.format("*"))
    measured.run(*BOTH, "--crucible-estimate").stdout.fnmatch_lines([line.format("20 stored replies of base")])
    resumed = measured.run(*BOTH, "--crucible-resume").stdout.str()
    assert line.format("40 stored replies of scripted and base") in " ".join(resumed.split("\n    "))


def test_a_pool_leaves_out_replies_to_other_calls(measured, monkeypatch):
    """At high effort the candidate was better than it is at low effort; the sessions count as looks."""
    pool = "-ocrucible_memory=pool"
    monkeypatch.setenv("EFFORT", "low")

    first = measured.run(*BOTH, pool)
    measured.forget_calls()
    second = measured.run(*BOTH, pool)

    first.stdout.fnmatch_lines(
        [
            "test_sums: exact_match: decided on the replies of the sessions that sent the same calls, without those of 1 other "
            "session (20 of scripted, 20 of base); look 2, *"
        ]
    )
    second.stdout.fnmatch_lines(["* of 1 other session (40 of scripted, 20 of base); look 3, *"])


def test_doctor_names_what_the_test_sent_to_each_arm(suite, monkeypatch, command):
    suite.script(SCRIPTS)
    suite.test(BY_ARM)
    monkeypatch.setenv("EFFORT", "high")
    suite.run(*BOTH)

    _, output = command("doctor", "latest")

    assert "metrics and adapters; sent by the test: scripted: reasoning_effort high, base: low" in output


def test_compare_names_what_two_runs_have_sent(measured, monkeypatch, command):
    monkeypatch.setenv("EFFORT", "low")
    measured.run("--crucible-adapter=scripted")

    _, output = command("runs", "list")
    runs = [line.split()[0] for line in output.splitlines() if re.match("[0-9a-f]{12} ", line)]
    _, output = command("compare", runs[0], runs[1])

    assert re.search(r"sent +reasoning_effort low +reasoning_effort high +differs: reasoning_effort", output)
