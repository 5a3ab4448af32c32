"""Sessions whose replies are not what they seem: the section "what was measured" shows it before any verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai_server import OpenAIServer

SAMPLES = 24
TEST = """
    import os
    import pytest

    EFFORT = {"v2": "high", "v1": "low"} if os.environ.get("EFFORT") else {}

    @pytest.mark.crucible(dataset="many.jsonl", metrics=["exact_match"], epochs=EPOCHS)
    @pytest.mark.quality_target("exact_match >= 0.50")
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        effort = EFFORT.get(sampler.arm.name)
        more = {"reasoning_effort": effort} if effort else {}
        return await sampler.generate(sample.input, **more)
"""
BOTH = ("--crucible-adapter=v2", "--compare=v1")
ONE = f"{SAMPLES} of {SAMPLES} replies of v2 and v1 are equal, and the server names one model for both, base: they are one"


@pytest.fixture
def served(suite, server):
    """A suite of short prompts, which the server answers with themselves."""
    ask(suite, right=SAMPLES)
    suite.test(TEST.replace("EPOCHS", "1"))
    adapt(suite, server)
    return suite


JOINED = """
    import json
    from pathlib import Path

    import pytest

    ROWS = [json.loads(line) for line in Path("many.jsonl").read_text(encoding="utf-8").splitlines()]

    @pytest.mark.quality_target("right >= 0.25")
    @pytest.mark.ab_compare("right")
    @pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
    def test_sums(row, crucible):
        reply = crucible.sampler.generate(row["input"])
        crucible.score(right=reply.text == row["expected"])
"""


def adapt(suite, server: OpenAIServer, parameters: str = "temperature = 0") -> None:
    table = '[adapters.v{0}]\nbackend = "openai"\nbase_url = "{1}"\nmodel = "m{0}"\nparameters = {{ {2} }}\n'
    text = "".join(table.format(number, server.url, parameters) for number in (2, 1))
    (suite.path / "crucible.toml").write_text(text, encoding="utf-8")


def ask(suite, *, right: int) -> None:
    """Ask questions, so many of which are answered right by repeating them."""
    rows = [{"id": f"q{k:02}", "input": f"{k}?", "expected": f"{k}?" if k < right else "no"} for k in range(SAMPLES)]
    suite.write_rows("many.jsonl", rows)


def answer_as_one(suite, server: OpenAIServer) -> None:
    """Let one model answer for both adapters, on questions of which it gets half wrong."""
    ask(suite, right=SAMPLES // 2)
    server.behave(names="base")


def states(document: dict[str, Any]) -> dict[str, str]:
    return {verdict["subject"]: verdict["state"] for verdict in document["experiments"][0]["verdicts"]}


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_an_adapter_that_the_server_does_not_apply_fails_and_leaves_all_verdicts_open(served, server, workers):
    answer_as_one(served, server)

    document = served.json(*BOTH, *workers)

    assert document["exit_status"] == 1
    assert states(document) == {
        "exact_match >= 0.50": "undecided",
        "exact_match: v2 vs v1": "undecided",
        "what was measured (equal replies)": "missed",
    }
    assert document["experiments"][0]["verdicts"][0]["reason"] == ONE
    # The same lines come from the store.
    report = served.command("show", "latest")
    report.stdout.fnmatch_lines(["equal replies*24 of 24 samples*one model", "*", f"test_sums: {ONE}"])


def test_the_table_stands_before_the_verdicts_only_where_something_is_wrong(served, server):
    quiet = served.run(*BOTH)
    quiet.stdout.fnmatch_lines(
        [
            "target * verdict",
            "test_sums: sent temperature 0; answered by m2 (v2), m1 (v1); equal replies 24 of 24 samples*",
        ]
    )
    quiet.stdout.no_fnmatch_line("*what was measured*")
    assert quiet.ret == 0

    served.run(*BOTH, "-v").stdout.fnmatch_lines(
        [
            "target * verdict",
            "what was measured  v2             v1",
            "sent               temperature 0  temperature 0",
            "answered by        m2             m1",
            "equal replies      -              24 of 24 samples",
        ]
    )

    answer_as_one(served, server)
    loud = served.run(*BOTH, "--crucible-cache=off", "--crucible-fresh")
    loud.stdout.fnmatch_lines(["what was measured*", "*", f"test_sums: {ONE}", "target*"])


def test_a_quiet_session_shows_each_problem_in_one_line(served, server, monkeypatch):
    monkeypatch.setenv("EFFORT", "1")
    warned = served.run(*BOTH, "-q")
    warned.stdout.fnmatch_lines(["test_sums.py::test_sums: the test sent different reasoning_effort (*"])

    answer_as_one(served, server)
    failed = served.run(*BOTH, "-q", "--crucible-cache=off", "--crucible-fresh")
    # The verdicts have it as their reason.
    failed.stdout.fnmatch_lines([f"test_sums.py::test_sums::what was measured (equal replies): missed: {ONE}"])
    failed.stdout.no_fnmatch_line(f"test_sums.py::test_sums: *{ONE}*")


def test_a_project_sets_how_severe_a_check_is(served, server):
    answer_as_one(served, server)
    served.pytester.makefile(".ini", pytest="[pytest]\ncrucible_checks_of_runs = equal replies: warn")

    document = served.json(*BOTH)

    assert document["exit_status"] == 0
    assert "what was measured (equal replies)" not in states(document)

    served.pytester.makefile(".ini", pytest="[pytest]\ncrucible_checks_of_runs = equal replies: loud")
    served.run(*BOTH).stderr.fnmatch_lines(
        [
            "*crucible_checks_of_runs has 'equal replies: loud'; expected 'equal replies: fail', 'equal replies: warn' or*"
        ]
    )


def test_a_regression_that_comes_from_cut_replies_says_so(served, server):
    server.behave("m2", text="a b c d e f g h i j k l")
    adapt(served, server, "temperature = 0, max_tokens = 8")

    result = served.run(*BOTH)

    result.stdout.fnmatch_lines(
        ["*100.0 of the 100.0 lost points are on 24 samples where only the reply of v2 was cut at max_tokens = 8*"]
    )


def test_a_server_that_samples_at_temperature_0_is_not_deterministic(served, server):
    served.test(TEST.replace("EPOCHS", "3"))
    server.behave("m1", varies="batch", latency_s=0.01)

    result = served.run(*BOTH)

    result.stdout.fnmatch_lines(
        ["*repeats that differ*0 of 24 * of 24*not deterministic*", "*v1 gave different replies to equal requests*"]
    )


def test_parameters_that_only_the_test_passes_are_named_where_arms_differ(served, server, monkeypatch):
    monkeypatch.setenv("EFFORT", "1")

    result = served.run(*BOTH)

    result.stdout.fnmatch_lines(
        [
            "*reasoning_effort high*reasoning_effort low*differs: reasoning_effort",
            "*the test sent different reasoning_effort (reasoning_effort: v2 high, v1 low), and no adapter declares it*",
        ]
    )


def test_compare_of_two_runs_takes_the_difference_that_it_is_about(served, server, monkeypatch):
    monkeypatch.setenv("EFFORT", "1")
    for name in ("v2", "v1"):
        served.run(f"--crucible-adapter={name}")
    newest, oldest = (row["id"] for row in json.loads(served.command("runs", "list", "--json").stdout.str()))

    served.command("compare", oldest, newest).stdout.fnmatch_lines(
        ["*the test sent different reasoning_effort (*", "comparison*"]
    )

    declared = served.command("compare", oldest, newest, "--arms-differ-in=reasoning_effort", "-v")
    declared.stdout.fnmatch_lines(["sent *differs: reasoning_effort (declared)"])
    declared.stdout.no_fnmatch_line("*the test sent different*")


def test_prompts_that_only_the_test_makes_different_are_named(served, server):
    served.test(TEST.replace("EPOCHS", "1").replace("sample.input, **more", "sampler.arm.name + sample.input"))

    result = served.run(*BOTH)

    sentence = "test_sums: the test sent v2 and v1 different prompts for 24 of 24 samples, and no adapter declares it*"
    result.stdout.fnmatch_lines(["prompts*differ on 24 of 24 samples", "*", sentence])
    served.command("show", "latest").stdout.fnmatch_lines([sentence])


def test_an_improvement_that_comes_from_cut_replies_of_the_baseline_says_so(served, server):
    server.behave("m1", text="a b c d e f g h i j k l")
    adapt(served, server, "temperature = 0, max_tokens = 8")

    result = served.run(*BOTH)

    result.stdout.fnmatch_lines(
        ["*100.0 of the 100.0 gained points are on 24 samples where only the reply of v1 was cut at max_tokens = 8*"]
    )


def test_compare_of_two_runs_names_a_model_that_changed_behind_its_name(served, server):
    server.behave(names="m-2024")
    served.run("--crucible-adapter=v1", "--crucible-tag=old")
    server.behave(names="m-2025")
    served.run("--crucible-adapter=v1", "--crucible-fresh", "--crucible-cache=off")

    report = served.command("compare", "latest", "tag:old")

    report.stdout.fnmatch_lines(["*name one model and server, but m-2025 answered v1@*, and m-2024 answered v1@*"])


def test_doctor_names_what_is_wrong_with_a_run(served, server):
    served.run(*BOTH)
    quiet = served.command("doctor", "latest")
    quiet.stdout.fnmatch_lines(["ok * test_sums.py::test_sums: what was measured: sent temperature 0; answered by *"])

    answer_as_one(served, server)
    served.run(*BOTH, "--crucible-cache=off", "--crucible-fresh")
    loud = served.command("doctor", "latest")
    loud.stdout.fnmatch_lines([f"differs * test_sums.py::test_sums: what was measured: {ONE}"])
    assert loud.ret == 1


def test_compare_of_two_stored_runs_has_the_same_lines(served, server):
    answer_as_one(served, server)
    for name in ("v2", "v1"):
        served.run(f"--crucible-adapter={name}")
    newest, oldest = (row["id"] for row in json.loads(served.command("runs", "list", "--json").stdout.str()))

    result = served.command("compare", oldest, newest)

    result.stdout.fnmatch_lines(["equal replies*24 of 24 samples*one model", "*", f"test_sums: {ONE}"])
    assert result.ret == 1


def test_joined_tests_of_one_model_fail_in_their_session_and_when_two_runs_are_compared(served, server):
    served.test(JOINED)
    honest = served.json(*BOTH)
    assert (honest["exit_status"], {*states(honest).values()}) == (0, {"met"})

    answer_as_one(served, server)
    together = served.json(*BOTH, "--crucible-cache=off", "--crucible-fresh")
    assert states(together)["what was measured (equal replies)"] == "missed"

    for name in ("v2", "v1"):
        served.run(f"--crucible-adapter={name}", f"--crucible-tag={name}", "--crucible-cache=off")
    report = served.command("compare", "tag:v2", "tag:v1")
    # Not "sampling was interrupted": all items ran.
    report.stdout.fnmatch_lines([f"test_sums: {ONE}", "right: v2 vs v1 *undecided", f"*{ONE}"])
    assert report.ret == 1


def test_a_value_that_the_test_returns_is_not_the_reply(served, server):
    """Two models behind one name that the server gives to all: they differ, though the test returns True for both."""
    served.test(TEST.replace("EPOCHS", "1").replace("return await", "await") + "        return True\n")
    server.behave(names="any")
    server.behave("m1", text="x", names="any")

    document = served.json(*BOTH)

    measured = document["experiments"][0]["sections"]["run_checks"]
    assert [line["cells"] for line in measured if line["check"] == "equal replies"] == [["", "0 of 24 samples"]]


@pytest.mark.parametrize(
    "test",
    [JOINED, TEST.replace("EPOCHS", "1").replace("return await", "reply = await") + "        return len(reply.text)\n"],
    ids=["joined", "returns a number"],
)
def test_replies_that_the_test_does_not_return_have_ends_too(served, server, test):
    server.behave("m2", text="a b c d e f g h i j k l")
    adapt(served, server, "temperature = 0, max_tokens = 8")
    served.test(test)

    document = served.json(*BOTH)

    measured = document["experiments"][0]["sections"]["run_checks"]
    assert [line["cells"] for line in measured if line["check"] == "ends"] == [["24 cut", "0"]]


def test_members_of_a_sweep_that_are_one_model_fail_it(served, server):
    table = '[adapters.tuned]\nbackend = "openai"\nbase_url = "{}"\n[adapters.tuned.sweep]\n{}\nconfirm = 0\n'
    text = table.format(server.url, 'model = ["m2", "m3", "m4"]\nby = "exact_match"\ndrop = "none"')
    served.path.joinpath("crucible.toml").write_text(text, encoding="utf-8")
    honest = served.json("--crucible-adapter=tuned")
    assert (honest["exit_status"], {*states(honest).values()}) == (0, {"met"})

    answer_as_one(served, server)
    document = served.json("--crucible-adapter=tuned", "--crucible-cache=off")

    names = ("tuned[model=m2]", "tuned[model=m3]")
    reason = ONE.replace("v2 and v1", " and ".join(names))
    assert document["exit_status"] == 1
    assert document["experiments"][0]["verdicts"][0]["reason"] == f"of the members that competed: {reason} (and 1 more)"
    report = served.command("show", "latest")
    report.stdout.fnmatch_lines(["equal replies *where it was chosen*tuned?model=m2? and tuned?model=m3?: one model"])
