"""`crucible why` on runs of a session: every line, where replies came from, what is refused, and hostile names."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pytest_crucible.cli import HELD, USAGE, main

BOTH = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70")
    @pytest.mark.ab_compare("exact_match")
    async def test_{name}(sample, sampler):
        return await sampler.generate(sample.input)
"""
SCRIPT = """
    def number(request):
        return sum(int(part) for part in request.input.split(" ") if part.isdigit())

    def answer(request):
        return str(number(request) if number(request) % 3 else 0)

    def base(request):
        return str(number(request))
"""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(suite, monkeypatch, capsys) -> Command:
    """Run `crucible` in the suite's directory; return exit status, output and errors."""
    monkeypatch.chdir(suite.path)

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(list(arguments))
        return status, *capsys.readouterr()

    return run


def test_a_missed_verdict_is_explained_on_one_screen(suite, command: Command):
    suite.run("--crucible-adapter=poor", "--compare=v2")

    status, output, _ = command("why", "latest", "exact_match: poor vs v2")

    lines = output.splitlines()
    assert status == HELD
    assert len(lines) <= 12
    assert lines[0].split("  ")[0] == "exact_match: poor vs v2"
    assert lines[0].endswith("missed: poor differs, and its mean is lower (proven)")
    assert lines[1].startswith("  -0.700 [")
    assert "n 20  lost 0  p = " in lines[1]
    assert [line[:11].strip() for line in lines[2:]] == [
        *("rule", "method", "pairs", "fragility", "influence", "replies", "made from"),
        *("", ""),
    ]
    assert lines[4] == "pairs      2 both right, 0 only poor, 14 only v2, 4 both wrong"
    assert (
        lines[7]
        == "replies    poor: 20 read from recorded replies in this run; v2: 20 read from recorded replies in this run"
    )
    assert "answers/poor.jsonl" in lines[9]


def test_without_a_subject_each_verdict_that_is_not_met_is_explained(suite, command: Command):
    suite.run("--crucible-adapter=poor", "--compare=v2")
    _, missed, _ = command("why")
    suite.run("--crucible-adapter=v3", "--compare=v2")
    _, met, _ = command("why")

    assert missed.count("  missed: ") == 2
    assert met.startswith("all 2 verdicts of run ")
    assert met.endswith(" are met: name one to see why, such as 'exact_match >= 0.70'\n")


def test_reused_replies_lead_to_the_run_that_requested_them(suite, command: Command):
    suite.script(SCRIPT)
    suite.run("--crucible-adapter=scripted", "--compare=base")
    first = json.loads(command("runs", "list", "--json")[1])[0]["id"]
    suite.run("--crucible-adapter=scripted", "--compare=base")
    suite.run("--crucible-adapter=scripted", "--compare=base")

    _, output, _ = command("why", "latest", "exact_match: scripted vs base")
    document = json.loads(command("why", "latest", "exact_match: scripted vs base", "--json")[1])

    assert f"replies    scripted: 20 answered by a script in this run; base: 20 reused from run {first}\n" in output
    [copied] = [node for node in document["nodes"].values() if node["type"] == "requests" and "base" in node["key"]]
    assert copied["facts"]["run"] == first


def test_the_sample_of_a_verdict_is_weighed(suite, command: Command):
    suite.run("--crucible-adapter=poor", "--compare=v2")
    ids = json.loads(command("show", "--json")[1])
    assert ids
    sample = json.loads((suite.path / "questions.jsonl").read_text().splitlines()[5])["id"]

    _, output, _ = command("why", "latest", "--sample", sample)

    assert output.splitlines()[3:] == [
        "verdict                  state           weight         scores        without it      decides alone",
        "exact_match >= 0.70      missed, proven  1 of 20 (5 %)  poor 0        missed, proven  no",
        "exact_match: poor vs v2  missed, proven  1 of 20 (5 %)  poor 0, v2 1  missed, proven  no",
    ]


def test_what_does_not_exist_is_refused_with_the_nearest_name(suite, command: Command):
    suite.test(BOTH.format(name="second"), name="test_second")
    suite.run("--crucible-adapter=poor", "--compare=v2")
    run = json.loads(command("runs", "list", "--json")[1])[0]["id"]
    misspelt = "exact_mach: poor vs v2"
    refusals = {
        ("latest", misspelt): f"run {run} has no verdict {misspelt!r}: did you mean 'exact_match: poor vs v2'?",
        ("latest", "exact_match >= 0.70"): f"run {run} has 'exact_match >= 0.70' in 2 experiments: choose one with --suite, ",
        ("exact_match: poor vs v2",): "'exact_match: poor vs v2' is a verdict, and RUN comes first: write crucible why latest ",
        ("x",): "run store '.crucible/crucible.db' has no run that begins with 'x': ",
        ("latest", "--sample", "q-999"): f"run {run} has no sample 'q-999': ",
        ("latest", "-o", "graph.dot"): "nothing writes '.dot': use .mmd, ",
        ("latest", "--file", "questions.jsonl"): "--file looks through all runs of the store: leave out RUN 'latest'",
        ("--file", "question.jsonl"): "--file 'question.jsonl' is neither a file nor the beginning of a SHA-256: ",
        ("latest", "--suite", "test_third"): f"run {run} has no experiment with verdicts whose name contains 'test_third': it has ",
    }  # fmt: skip

    for arguments, sentence in refusals.items():
        status, _, errors = command("why", *arguments)
        assert (status, errors.removeprefix("crucible why: ").startswith(sentence)) == (USAGE, True), errors
    assert command("why", "latest", "exact_match >= 0.70", "--suite", "test_second")[0] == HELD
    assert command("why", "latest", "test_second.py::test_second::exact_match >= 0.70")[0] == HELD


def test_the_dataset_of_a_suite_is_found_under_any_name(suite, command: Command):
    suite.run("--crucible-adapter=v2", "--compare=v1")
    (suite.path / "copy.jsonl").write_bytes((suite.path / "questions.jsonl").read_bytes())
    (suite.path / "unused.jsonl").write_text('{"id": "x", "input": "y"}\n')

    _, copy, _ = command("why", "--file", "copy.jsonl")
    _, answers, _ = command("why", "--file", "answers/v1.jsonl")
    status, unused, _ = command("why", "--file", "unused.jsonl")

    assert copy.startswith("1 run and 2 verdicts depend on copy.jsonl (SHA-256 ")
    # The target is about v2 alone.
    assert answers.startswith("1 adapter, 1 run and 1 verdict depend on v1.jsonl (SHA-256 ")
    assert (status, unused[:52]) == (HELD, "nothing in this store depends on unused.jsonl (SHA-2")


def test_hostile_names_are_inert(suite, command: Command):
    evil = "\x1b[2J\u202egnp.exe\x00" + "x" * 3000
    suite.write_rows(
        "questions.jsonl",
        [
            {"id": f"{evil}{k}", "input": f"{k} + {k}", "expected": str(2 * k), "group": f"{evil}{k % 7}"}
            for k in range(14)
        ],
    )
    suite.script(SCRIPT)
    suite.run("--crucible-adapter=scripted", "--compare=base")

    outputs = [command("why", "latest", "exact_match: scripted vs base")[1]]
    stored = json.loads(command("export", "-o", "o.jsonl", "--json")[1])
    assert stored["rows"]
    sample = json.loads((suite.path / "o.jsonl").read_text().splitlines()[0])["sample"]
    outputs.append(command("why", "latest", "--sample", sample)[1])

    for output in outputs:
        assert output.strip()
        assert not {"\x1b", "\u202e", "\x00"} & set(output)
        assert max(map(len, output.splitlines())) < 3000
