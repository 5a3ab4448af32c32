"""Stored runs: tags, promotion, comparisons with the past, and the commands that show them."""

from __future__ import annotations

import fnmatch
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_documents import of_arms

from pytest_crucible.runs.evaluate import stored_inputs
from pytest_crucible.store.schema import FORMAT


def read(crucible, *arguments: str) -> Any:
    _, out, err = crucible(*arguments, "--json")
    assert err == ""
    return json.loads(out)


def compare_two(suite) -> None:
    suite.run("--crucible-adapter=v2", "--compare=v1")


def test_runs_are_listed_newest_first_and_filtered(suite, crucible):
    suite.run("--crucible-adapter=v2", "--compare=v1", "--crucible-tag=nightly")
    suite.run("--crucible-adapter=poor")

    newest, oldest = read(crucible, "runs")
    assert (newest["arms"], newest["verdicts"], newest["tags"]) == (["poor"], {"missed": 1}, [])
    assert (oldest["arms"], oldest["verdicts"], oldest["tags"]) == (["v2", "v1"], {"met": 2}, ["nightly"])
    assert oldest["experiments"] == ["test_sums.py::test_sums"]
    for filtered in (("--tag", "nightly"), ("--adapter", "v1"), ("--suite", "test_sums", "--adapter", "v2")):
        assert [entry["id"] for entry in read(crucible, "runs", *filtered)] == [oldest["id"]]
    assert read(crucible, "runs", "--suite", "elsewhere") == []
    assert len(read(crucible, "runs", "--limit=1")) == 1
    _, out, _ = crucible("runs")
    assert "v2 vs v1  test_sums    2 met     nightly" in out


def test_show_prints_what_the_session_printed(suite, crucible):
    lines = suite.run("--crucible-adapter=v2", "--compare=v1").stdout.lines
    _, output, _ = crucible("show")

    begin = next(k for k, line in enumerate(lines) if " crucible " in line) + 1
    end = next(k for k, line in enumerate(lines[begin:]) if line.startswith("=")) + begin
    assert [line for line in lines[begin:end] if line] == [line for line in output.splitlines()[1:] if line]


@pytest.mark.uses("run_checks")
def test_the_json_of_a_stored_run_is_that_of_its_session(suite, crucible):
    document = suite.json("--crucible-adapter=v2", "--compare=v1")

    assert read(crucible, "show") == document


@pytest.mark.slow
def test_two_runs_are_compared_as_two_arms_of_one_would_be(suite, crucible):
    together = suite.json("--crucible-adapter=v2", "--compare=v1")
    suite.run("--crucible-adapter=v1")
    suite.run("--crucible-adapter=v2")

    apart = read(crucible, "compare", "latest", f"{together['run']['id']}:v1", "--metric=exact_match")
    (ours,), (theirs,) = apart["experiments"][0]["comparisons"], together["experiments"][0]["comparisons"]
    assert ours == theirs
    [verdict] = [verdict for verdict in together["experiments"][0]["verdicts"] if verdict["kind"] == "comparison"]
    # Only what is stored is decided again with other answers.
    del verdict["fragility"]
    assert apart["experiments"][0]["verdicts"] == [verdict]


def test_a_comparison_that_is_missed_exits_1(suite, crucible):
    suite.run("--crucible-adapter=v3")
    suite.run("--crucible-adapter=poor", "--crucible-tag=poor")

    status, out, _ = crucible("compare", "tag:poor", read(crucible, "runs")[1]["id"][:8])

    assert status == 1
    assert "exact_match: poor vs v3" in out
    assert "missed, proven" in out


def test_a_promoted_run_is_the_baseline_of_later_runs(suite, crucible):
    suite.run("--crucible-adapter=v1", "--crucible-tag=main")  # 12 of 20: its target is missed
    status, _, err = crucible("runs", "tag", "latest", "main")
    assert (status, "cannot be a baseline, its verdicts are 1 missed: --force tags it anyway" in err) == (4, True)

    suite.run("--crucible-adapter=v2")
    assert crucible("runs", "tag", "latest", "main")[0] == 0
    good = read(crucible, "runs")[0]["id"]
    document = suite.json("--crucible-adapter=v3", "--compare=tag:main")

    (comparison,) = document["experiments"][0]["comparisons"]
    assert (comparison["baseline"], comparison["pairs"]) == ("tag:main", 20)
    assert of_arms(document["experiments"][0], "reused")[1] == {"run": good, "replies": 20}


def test_to_promote_by_force_is_written_down(suite, crucible):
    suite.run("--crucible-adapter=poor")

    assert read(crucible, "runs", "tag", "latest", "main", "--force")["forced"] is True
    assert "by force (its verdicts are 1 missed)" in crucible("runs", "tag", "latest", "main", "--force")[1]
    _, out, _ = crucible("runs", "tag", "latest", "main", "--force", "--why", "a demo")
    assert "is now main, by force (its verdicts are 1 missed) because 'a demo': compare with" in out
    assert read(crucible, "runs")[0]["reasons"] == {"main": "a demo"}
    assert crucible("runs")[1].rstrip().endswith("main (a demo)")


@pytest.mark.slow
def test_gc_lists_runs_and_deletes_them_with_yes(suite, crucible):
    for adapter in ("v1", "v2", "v3"):
        suite.run(f"--crucible-adapter={adapter}")
    crucible("runs", "tag", "latest", "main")
    output = read(crucible, "gc", "--keep-runs=0", "--keep-days=0")
    assert (len(output["runs"]), output["deleted"], len(read(crucible, "runs"))) == (2, False, 3)

    _, out, _ = crucible("gc", "--keep-runs=0", "--keep-days=0", "--delete")

    assert out.startswith("removed 2 runs and 0 cached replies")
    assert [entry["tags"] for entry in read(crucible, "runs")] == [["main"]]


def test_adapters_are_listed_without_their_keys(suite, crucible):
    suite.adapters({"v9": {"backend": "mine", "api_key": "planted-key", "where": "https://me:planted-word@host/"}})

    status, out, _ = crucible("adapters")

    assert status == 0
    assert "v9" in out
    assert "planted" not in out + json.dumps(read(crucible, "adapters"))


DRIFTING = """
    from pathlib import Path

    def answer(request):
        return str(2 * int(request.sample[1:]))

    def base(request):
        wrong = int(request.sample[1:]) < 10 and Path("changed").exists()
        return "?" if wrong else answer(request)
"""


@pytest.mark.slow
@pytest.mark.parametrize("changed", [False, True])
def test_a_changed_server_is_detected_by_fresh_replies_of_the_baseline(suite, changed):
    """The same adapter by name, identity and parameters: what differs is what stands behind it."""
    suite.script(DRIFTING)
    arms = ("--crucible-adapter=scripted", "--compare=base")
    suite.run(*arms)
    if changed:
        (suite.path / "changed").touch()
    assert suite.json(*arms)["experiments"][0]["sections"].get("drift") is None  # stored replies stood in

    document = suite.json(*arms, "--crucible-fresh")
    output = suite.command("show", document["run"]["id"]).stdout.str()

    [drift] = document["experiments"][0]["sections"]["drift"]
    assert (drift["arm"], drift["metric"], drift["pairs"], drift["proven"]) == ("base", "exact_match", 20, changed)
    assert drift["difference"] == (-0.5 if changed else 0.0)
    assert drift["run"] != document["run"]["id"]
    if changed:
        assert document["experiments"][0]["comparisons"][0]["difference"] == 0.5
        assert "test_sums: base has drifted since run" in output
        assert "the server changed, not the adapter" in output
    else:
        assert "test_sums: no drift of base since run" in output


def test_a_plan_prints_the_sample_size_of_a_difference_before_any_request(suite, crucible):
    yes_or_no, score = read(crucible, "plan", "--difference=0.05")  # there is no run store yet
    assert (yes_or_no["samples"], score["samples"], yes_or_no["cost_usd"]) == (622, 199, None)
    suite.script(
        """
        from pytest_crucible import Reply

        def answer(request):
            return Reply(text=str(2 * int(request.sample[1:])), input_tokens=900, output_tokens=100)

        def base(request):
            return Reply(text="0" if request.sample < "q05" else answer(request).text, input_tokens=900, output_tokens=100)
        """
    )
    suite.run("--crucible-adapter=scripted", "--compare=base")

    (need,) = read(crucible, "plan", "latest", "--difference=0.1")

    assert need["spread"]["discordance"] == 0.2  # q01 to q04, of 20
    assert need["replies"] == 2 * need["samples"]
    assert need["tokens"] == 2000 * need["samples"]
    (margin,) = read(crucible, "plan", "latest", "--margin=0.05", "--family-size=2")
    assert margin["samples"] > need["samples"]


@pytest.mark.parametrize("name", ["  ", "t" * 101, "the best", "\x1b[31mred"], ids=["blank", "long", "two", "colour"])
def test_an_invalid_tag_is_refused(suite, crucible, name):
    message = (
        f"tag {name!r} is not valid: write 1 to 100 letters, digits and . _ - + /, for example main or release/2.1"
    )

    suite.refuses(suite.run("--crucible-adapter=v2", f"--crucible-tag={name}"), message)
    assert read(crucible, "runs") == []
    suite.run("--crucible-adapter=v2")
    status, _, err = crucible("runs", "tag", "latest", name)
    assert (status, err) == (4, f"crucible runs tag: {message}\n")


@pytest.mark.slow
def test_a_trend_reads_no_more_runs_than_it_shows(suite, crucible, monkeypatch):
    for _ in range(4):
        suite.run("--crucible-adapter=v2")
    read = []

    def verdicts_of(store, run):
        read.append(run)
        yield from stored_inputs(store, run)

    monkeypatch.setattr("pytest_crucible.runs.trends.stored_inputs", verdicts_of)
    assert crucible("trend", "exact_match", "--last=2")[0] == 0
    assert len(read) == 2


@pytest.mark.slow
def test_a_trend_marks_where_a_metric_changed(suite, crucible):
    rows = [{"id": f"s{k}", "input": str(k), "expected": "1"} for k in range(40)]
    suite.write_rows("questions.jsonl", rows)
    for name, right in (("old", 10), ("new", 30)):
        suite.write_rows(
            f"answers/{name}.jsonl",
            [{"sample_id": row["id"], "text": "1" if k < right else "2"} for k, row in enumerate(rows)],
        )
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("old", "new")})
    for name in ("old", "old", "new", "new"):
        suite.run(f"--crucible-adapter={name}")

    points = read(crucible, "trend", "exact_match")

    assert [(point["estimate"]["value"], point["change"]) for point in points] == [
        (0.25, ""),
        (0.25, ""),
        (0.75, "proven"),
        (0.75, ""),
    ]
    assert "<- changed, proven" in crucible("trend", "exact_match")[1]
    assert [entry["change"] for entry in read(crucible, "trend", "exact_match", "--adapter=old")] == ["", ""]


@pytest.mark.slow
def test_doctor_reports_whether_a_run_can_be_repeated(suite, crucible):
    suite.run("--crucible-adapter=v2", "--compare=v1")
    values = {entry["subject"]: entry for entry in read(crucible, "doctor", "latest")}
    assert all(value["matches"] for value in values.values())
    assert {"python", "platform", "packages", "commit", "test_sums.py::test_sums"} <= set(values)

    suite.write_rows("answers/v2.jsonl", [{**row, "text": "7"} for row in suite.answers["v2"]])
    status, out, _ = crucible("doctor", "latest")

    assert status == 1
    assert "differs  test_sums.py::test_sums: v2 is another model, or has other parameters" in out


def test_doctor_reports_tests_that_cannot_be_collected(suite, crucible):
    suite.run("--crucible-adapter=v2")
    (suite.path / "questions.jsonl").unlink()

    status, out, _ = crucible("doctor", "latest")

    assert status == 1
    assert "differs  experiments: cannot be collected any more: " in out
    assert "questions.jsonl" in out


def test_doctor_ignores_files_that_the_run_has_written(suite, crucible):
    files = ("run.xml", "run.log", "run.md", ".pytest_cache/v/cache/nodeids")
    suite.run("--crucible-adapter=v2", "--junitxml=run.xml", "--log-file=run.log", "--crucible-report=run.md", "--lf")
    before = {name: (suite.path / name).read_bytes() for name in files}
    (suite.path / "run.log").write_text("told")

    assert "ok       test_sums.py::test_sums: the same 20 samples" in crucible("doctor", "latest")[1]
    assert {name: (suite.path / name).read_bytes() for name in files} == before | {"run.log": b"told"}


def test_a_store_above_is_named(suite, crucible, monkeypatch):
    suite.run("--crucible-adapter=v2")
    below = suite.path / "answers"
    monkeypatch.chdir(below)

    status, _, output = crucible("runs", "--store=.crucible/crucible.db")

    store = suite.path / ".crucible" / "crucible.db"
    assert status == 4
    assert output == (
        f"crucible runs: no run store at '.crucible/crucible.db' in '{below}', but one at '{store}': "
        "go there, or name that one\n"
    )
    assert crucible("runs", f"--store={store}")[0] == 0


@pytest.mark.uses("view")
@pytest.mark.parametrize("levels", [1, 2])
def test_a_store_below_is_named_as_after_a_session_of_a_suite_with_a_configuration_of_its_own(
    suite, crucible, monkeypatch, tmp_path_factory, levels
):
    suite.run("--crucible-adapter=v2")
    folder = tmp_path_factory.mktemp("project") / "suites" / "answers"
    shutil.copytree(suite.path / ".crucible", folder / ".crucible")
    monkeypatch.chdir(folder.parents[levels - 1])
    store = folder / ".crucible" / "crucible.db"

    status, _, output = crucible("runs", "--store=.crucible/crucible.db")
    status_of_view, _, output_of_view = crucible("view", "--no-browser", "--store=.crucible/crucible.db")

    assert status == status_of_view == 4
    assert output.endswith(f"but one at '{store}': go there, or name that one\n")
    assert output_of_view == (
        f"crucible view: .crucible/crucible.db does not exist, but '{store}' does: go there, or name that one with --store\n"
    )


@pytest.mark.parametrize("name", ["pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"])
def test_the_store_of_the_configuration_is_the_store_of_the_commands(suite, crucible, name, monkeypatch):
    heads = {"pyproject.toml": "[tool.pytest.ini_options]", "setup.cfg": "[tool:pytest]"}
    value = '"evals/replies.db"' if name == "pyproject.toml" else "evals/replies.db"
    (suite.path / "pytest.ini").unlink()
    (suite.path / name).write_text(f"{heads.get(name, '[pytest]')}\ncrucible_store = {value}\n")
    (suite.path / "evals").mkdir()
    suite.run("--crucible-adapter=v2")

    assert (suite.path / "evals" / "replies.db").is_file()
    assert len(read(crucible, "runs")) == 1
    assert crucible("gc")[0] == 0
    monkeypatch.setenv("CRUCIBLE_STORE", "elsewhere.db")  # the environment counts before the configuration
    assert "no run store at 'elsewhere.db'" in crucible("runs")[2]


def test_a_doctor_looks_at_the_place(suite, crucible):
    assert crucible("doctor")[0] == 1  # there is no run store yet
    suite.run("--crucible-adapter=v2")

    status, out, _ = crucible("doctor")

    assert status == 0
    assert out.splitlines() == [
        f"ok       run store: format {FORMAT}, 1 run, 0 of them cut short",
        "ok       adapters: poor, v1, v2, v3",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("plan", "--difference=5"), "--difference=5 is more than two shares can differ: write 0.05 for 5 percentage points"),
        (("plan", "--difference=0"), "--difference=0 is not a positive number: write a number above 0, such as 0.05"),
        (("plan", "--difference=-0.1"), "--difference=-0.1 is not a positive number: *"),
        (("plan", "--margin=0"), "--margin=0 is not a positive number: *"),
        (("plan", "--margin=nan"), "--margin=nan is not a positive number: *"),
        (("compare", "a.eval", "b.eval"), "'a.eval' is neither a file nor a run: give the path of a log *"),
        (("compare", "latest", "logs/b"), "'latest' is not a file: compare files with files, or runs with runs *"),
        (("compare", "latest", "abc"), "*run store '*' has no run that begins with 'abc': *"),
        (("compare", "abc", "latest"), "*run store '*' has no run that begins with 'abc': *"),
        (("compare", "latest", "tag:zzzz"), "*run store '*' has no tag 'zzzz': *"),
        (("compare", "latest", "latest"), "latest and latest are the same replies: compare two that differ"),
        (("compare", "latest", "latest:v9"), "run * has no arm 'v9': *"),
        (("compare", "latest", "latest:v1", "--metric=nope"), "metric 'nope' was not scored in both arms: they share exact_match"),
        (
            ("compare", "latest", "latest:v1", "--margin=0.1"),
            "--margin, --alternative and --relevant apply to one metric: name it with --metric",
        ),
        (("show", "tag:main"), "* has no tag 'main': `crucible runs tag RUN main` makes a run the baseline *"),
        (("runs", "tag", "nosuch", "main"), "* has no run that begins with 'nosuch': the latest is *"),
        (("runs", "--store=mysql://host/name"), "run store 'mysql://host/name' is not a database that can be reached: *"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused_in_one_sentence(suite, crucible, arguments, sentence):
    suite.prepare_once(compare_two)

    status, out, err = crucible(*arguments)

    assert (status, out, err.count("\n")) == (4, "", 1)
    assert fnmatch.fnmatch(err.strip(), f"crucible {arguments[0]}*: {sentence.replace('[', '[[]')}")


def test_a_full_disk_behind_standard_output_is_reported():
    with Path("/dev/full").open("wb", buffering=0) as full:
        command = [sys.executable, "-m", "pytest_crucible", "metrics", "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr) == (
        4, "crucible metrics: the output cannot be written: No space left on device\n",
    )  # fmt: skip
