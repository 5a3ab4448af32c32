"""Results of other harnesses as runs: the same verdicts as a session's own, stored or only compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from run_documents import of_arms

from pytest_crucible.cli import DID_NOT_HOLD, HELD, USAGE, main

FILES = Path(__file__).parents[1] / "peers" / "files"


@pytest.fixture
def there(tmp_path, monkeypatch):
    """An empty directory with the files in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRUCIBLE_STORE", raising=False)
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    return tmp_path


def import_run(capsys, *arguments: str) -> tuple[int, dict]:
    status = main([*arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def verdicts(document: dict) -> dict:
    return {verdict["subject"]: verdict for experiment in document["experiments"] for verdict in experiment["verdicts"]}


def test_an_imported_run_has_the_verdicts_of_its_session(suite, monkeypatch, capsys):
    """Exported as a table and read as anybody's: every number is the same."""
    monkeypatch.chdir(suite.path)
    session = suite.json("--crucible-adapter=poor", "--compare=v2")
    main(["export", "-o", "observations.csv"])
    capsys.readouterr()
    target = "exact_match >= 0.70"
    status, run = import_run(
        capsys, "import", "observations.csv", "--metric", "exact_match", "--target", target, "--store", "x.db"
    )

    assert (status, run["exit_status"]) == (DID_NOT_HOLD, 1)
    (ours,), (theirs,) = run["experiments"], session["experiments"]
    for part in ("comparisons", "estimates", "verdicts", "repeats"):
        assert ours[part] == theirs[part]
    assert of_arms(ours, "lost") == of_arms(theirs, "lost")


def test_two_logs_are_compared_with_nothing_else_configured(there, capsys):
    before = set(there.iterdir())
    status, run = import_run(capsys, "compare", "inspect-v2.eval", "inspect-v1.eval", "--metric", "match")

    (comparison,) = run["experiments"][0]["comparisons"]
    assert (status, comparison["pairs"], comparison["lost"]) == (HELD, 11, 1)
    assert comparison["difference"] == pytest.approx(
        5 / 11
    )  # of the eleven that both answered, v2 misses one and v1 six
    assert set(there.iterdir()) == before


@pytest.mark.parametrize("command", ["compare", "import"])
def test_directories_of_results_are_compared(there, capsys, command):
    _, run = import_run(capsys, command, "lm-eval-v2", "lm-eval-v1")
    results = [str(next(there.glob(f"lm-eval-{arm}/results_*.json"))) for arm in ("v2", "v1")]
    _, files = import_run(capsys, command, *results)

    assert verdicts(run) == verdicts(files)
    assert len(run["experiments"]) == 3


def test_a_directory_may_have_several_logs_of_one_model(there, capsys):
    for folder, name in (("new", "v2"), ("old", "v1")):
        (there / folder).mkdir()
        for log in (f"inspect-{name}.eval", f"inspect-clusters-{name}.eval"):
            shutil.copy(there / log, there / folder)
        (there / folder / "logs.json").write_text('[{"id": 1, "x": 2}]')
        (there / folder / "config.json").write_text('{"log_level": "info"}')
    _, run = import_run(capsys, "compare", "new", "old")

    assert [experiment["nodeid"] for experiment in run["experiments"]] == ["imported::documents", "imported::sums"]


def test_arms_of_one_name_in_two_directories_have_the_names_of_the_directories(there, capsys):
    for folder, name in (("new", "v2"), ("old", "v1")):
        (there / folder).mkdir()
        log = json.loads((there / "inspect-v1.json").read_text())
        (there / folder / "a.json").write_text(json.dumps({**log, "tags": [name]}))
    _, run = import_run(capsys, "compare", "new", "old", "--metric", "match")

    assert set(verdicts(run)) == {"match: new vs old"}


def test_one_table_of_several_arms_is_compared(there, capsys):
    rows = "".join(f"q{k},{int(k != 3)},{k % 2}\n" for k in range(20))
    (there / "both.csv").write_text(f"q,v2,v1\n{rows}")
    status, run = import_run(capsys, "compare", "both.csv", "--column", "arms=v2,v1", "--column", "sample=q")

    assert (status, verdicts(run)["score: v2 vs v1"]["state"]) == (HELD, "met")


def test_a_column_is_the_group_of_the_samples(there, capsys):
    for name, right in (("new", 10), ("old", 0)):
        rows = [f"q{k},page-{k // 10},{int(k < right)}" for k in range(60)]
        (there / f"{name}.csv").write_text("\n".join(["id,page,correct", *rows]) + "\n")
    compared = ("compare", "new.csv", "old.csv", "--metric", "correct")

    assert import_run(capsys, *compared)[1]["experiments"][0]["comparisons"][0]["p_value"] < 0.01
    _, run = import_run(capsys, *compared, "--group", "page")
    (comparison,) = run["experiments"][0]["comparisons"]
    assert (comparison["clusters"], comparison["p_value"] > 0.3) == (6, True)


def test_a_run_that_was_imported_is_a_run(there, capsys):
    main(["import", "inspect-v2.eval", "inspect-v1.json"])
    output = capsys.readouterr().out
    assert main(["show"]) == HELD
    assert "\nimported from inspect-v2.eval (inspect 0.3.285)\n" in capsys.readouterr().out
    status, run = import_run(capsys, "show")

    assert "inspect-v2.eval: inspect 0.3.285, mockllm/v2 on sums (24 results)" in output
    assert f"stored as run {run['run']['id']} in .crucible/crucible.db" in output
    assert status == HELD
    origins = run["run"]["environment"]["imported"]
    assert [(origin["file"], origin["harness"], origin["version"], len(origin["sha256"])) for origin in origins] == [
        ("inspect-v2.eval", "inspect", "0.3.285", 64),
        ("inspect-v1.json", "inspect", "0.3.285", 64),
    ]
    assert run["experiments"][0]["repeats"] == 2
    assert of_arms(run["experiments"][0], "lost")[0] == {"error": 2, "scorer": 2}


def test_a_run_that_was_cut_short_decides_nothing(there, capsys):
    log = json.loads((there / "inspect-v1.json").read_text())
    samples = [sample for sample in log["samples"] if sample["id"] != "sum-3"]
    (there / "cut.json").write_text(json.dumps({**log, "samples": samples, "status": "cancelled"}))
    status, run = import_run(capsys, "import", "inspect-v2.eval", "cut.json", "--metric", "match")

    (verdict,) = verdicts(run).values()
    assert (status, verdict["state"]) == (HELD, "undecided")
    assert of_arms(run["experiments"][0], "lost")[1]["not_run"] == 2
    assert "the run of cut.json ended as 'cancelled'" in run["notes"]


def test_what_was_sent_and_left_out_is_stored_with_the_run(there, capsys):
    """A user reads in which setting the arms differ, which only their logs have, and which sample is another one."""
    log = json.loads((there / "inspect-v1.json").read_text())
    for name, heat, inputs in (("v2", 0, {}), ("v1", 0.5, {"sum-3": "Another question?"})):
        samples = [{**sample, "input": inputs.get(sample["id"], sample["input"])} for sample in log["samples"]]
        spec = {**log["eval"], "model": f"mockllm/{name}", "model_generate_config": {"temperature": heat}}
        (there / f"{name}.json").write_text(json.dumps({**log, "samples": samples, "eval": spec}))
    assert main(["import", "v2.json", "v1.json", "--metric", "match"]) == HELD
    output = capsys.readouterr().out
    _, run = import_run(capsys, "show")

    assert "the arms were sent different temperature (temperature: mockllm/v2 0, mockllm/v1 0.5)" in output
    assert "task 'sums': 1 sample (first: sum-3) asked something else in each arm, left out" in output
    assert run["experiments"][0]["dataset"]["left_out"] == {"other input": ["sum-3"]}
    assert main(["show", "--sample", "sum-1"]) == HELD
    assert "user       What is 1 + 1?" in capsys.readouterr().out


def test_a_comparison_of_files_is_in_no_store(there, capsys):
    main(["compare", "promptfoo-cached.json", "-v"])

    assert "\nrun promptfoo-cached.json, seed 0, not stored\n" in capsys.readouterr().out


def test_several_tasks_are_judged_together(there, capsys):
    results = [str(next(there.glob(f"lm-eval-{arm}/results_*.json"))) for arm in ("v2", "v1")]
    _, run = import_run(capsys, "import", *results)

    assert [experiment["nodeid"] for experiment in run["experiments"]] == [
        "imported::sums_choice",
        "imported::sums_filtered",
        "imported::sums_perplexity",
    ]
    assert run["run"]["family_size"] == 5


def test_the_user_names_the_candidate_and_the_direction(there, capsys):
    _, run = import_run(
        capsys, "import", "promptfoo.json", "--candidate", "v1", "--lower", "brevity", "--range", "brevity=0:2"
    )

    (metric,) = [metric for metric in run["experiments"][0]["metrics"] if metric["name"] == "brevity"]
    assert (metric["direction"], metric["kind"]) == ("lower", "bounded")
    assert set(verdicts(run)) == {f"{name}: v1 vs v2" for name in ("pass", "score", "exact", "brevity")}


def write_arms(there, **metrics) -> None:
    """Write tables of 20 samples: each metric is its candidate's value and its baseline's, with differences that vary."""
    for arm, file in enumerate(("new.csv", "old.csv")):
        rows = [
            ",".join(map(str, (k, *(pair[arm] + (k + arm) % 5 / 8 for pair in metrics.values())))) for k in range(20)
        ]
        (there / file).write_text("\n".join([",".join(("id", *metrics)), *rows]) + "\n")


def test_a_metric_of_unknown_direction_has_a_difference_and_no_verdict(there, capsys):
    write_arms(there, num_errors=(1, 5), seed=(7, 3), latency=(2, 2))
    status, run = import_run(capsys, "compare", "new.csv", "old.csv")

    comparisons = {comparison["metric"]: comparison for comparison in run["experiments"][0]["comparisons"]}
    assert (status, set(verdicts(run)), run["run"]["family_size"]) == (HELD, {"latency: new vs old"}, 1)
    assert comparisons["num_errors"]["difference"] == pytest.approx(-4)
    assert comparisons["num_errors"]["high"] is not None
    assert comparisons["num_errors"]["alternative"] == "estimate"
    assert {metric["name"]: metric["direction"] for metric in run["experiments"][0]["metrics"]} == {
        "num_errors": None,
        "seed": None,
        "latency": "lower",
    }
    main(["compare", "new.csv", "old.csv"])
    assert (
        "nothing shows which direction is better: --metric seed:higher or --metric seed:lower"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(("direction", "status", "state"), [("lower", HELD, "met"), ("higher", DID_NOT_HOLD, "missed")])
def test_the_direction_of_a_metric_is_named_with_it(there, capsys, direction, status, state):
    write_arms(there, num_errors=(1, 5), seed=(7, 3))
    command = ("compare", "new.csv", "old.csv", "--metric", f"num_errors:{direction}")
    result, run = import_run(capsys, *command, "--range", "num_errors=0:9")
    unbounded, unproven = import_run(capsys, *command)

    assert (result, verdicts(run)["num_errors: new vs old"]["state"]) == (status, state)
    verdict = verdicts(unproven)["num_errors: new vs old"]
    # Without a range the test that the arms are alike decides as well; that the mean differs is then never proven.
    assert (unbounded, verdict["state"], verdict["proven"]) == (status, state, False)
    assert "declare bounds of 'num_errors'" in verdict["reason"]


def test_a_stored_metric_keeps_its_unknown_direction(there, capsys):
    write_arms(there, num_errors=(1, 5))
    ranges = ("--range", "num_errors=0:9")
    names = [import_run(capsys, "import", file, *ranges)[1]["run"]["id"] for file in ("new.csv", "old.csv")]

    # A table without a task is named alike in both runs.
    assert verdicts(import_run(capsys, "compare", *names)[1]) == {}
    status, run = import_run(capsys, "compare", *names, "--metric", "num_errors:higher")
    assert (status, [entry["state"] for entry in verdicts(run).values()]) == (DID_NOT_HOLD, ["missed"])


def test_reports_of_metrics_without_a_verdict_are_written(there, capsys):
    write_arms(there, num_errors=(1, 5), latency=(2, 3))
    assert main(["import", "new.csv", "old.csv"]) == HELD
    for name in ("report.html", "report.md", "report.tex", "report.ipynb"):
        assert main(["report", "-o", name]) == HELD
        assert "which direction is better" in (there / name).read_text(encoding="utf-8") or name.endswith("ipynb")


def test_keys_in_replies_are_hidden(there, capsys):
    (there / "r.csv").write_text("id,ok,reply\na,1,the key is sk-abcdefghijklmnopqrstuv\n")
    main(["import", "r.csv"])
    main(["export", "--what", "replies", "-o", "replies.csv"])

    assert "(key hidden)" in (there / "replies.csv").read_text()
    assert "sk-abc" not in (there / "replies.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("compare", "inspect-v1.eval", "latest"),
            "'latest' is not a file: compare files with files, or runs with runs",
        ),
        (("compare", "inspect-v1.eval", "gone.eval"), "'gone.eval' is neither a file nor a run: give the path"),
        (
            ("compare", "inspect-v1.eval", "inspect-v1.json", "--metric", "mtch"),
            "there is no metric 'mtch': the files have",
        ),
        (
            ("compare", "promptfoo.json", "promptfoo.json"),
            "task 'sums': 'promptfoo.json/v2' and 'promptfoo.json/v2' are",
        ),
        (
            ("compare", "inspect-v1.eval", "openai-evals-v1.jsonl"),
            "nothing was compared: 'mockllm/v1' has task 'sums', 'v1' has task 'sums.dev.v0': compare results of the same",
        ),
        (
            ("compare", "a.csv", "b.csv"),
            "nothing was compared: the arms share no metric with numbers: 'a' has acc, size, 'b' has f1",
        ),
        (
            ("compare", "a.csv", "b.csv", "--metric", "acc"),
            "metric 'acc' cannot be compared: task 'results' of 'b' has",
        ),
        (("compare", "a.csv"), "nothing was compared: 'a' has task 'results': compare results of the same tasks"),
        (("compare", "latest"), "name a baseline after the candidate: only a file with several arms needs none"),
        (("compare", "empty", "a.csv"), "empty has no file with results: give a directory of logs or of tables"),
        (("compare", ".", "a.csv"), ". has two results of "),
        (
            ("compare", "latest", "latest", "--group", "x"),
            "--column and --group apply to files: a stored run has its own",
        ),
        (
            ("compare", "a.csv", "c.csv", "--metric", "size", "--margin", "0.1"),
            "nothing shows which direction of 'size' is better, which alternative='non-inferior' needs: write --metric",
        ),
        (
            ("compare", "a.csv", "c.csv", "--metric", "size", "--relevant", "0.1"),
            "nothing shows which direction of 'size' is better, which relevant=0.1 needs: write --metric",
        ),
        (
            ("import", "promptfoo.json", "--target", "exakt > 0"),
            "target 'exakt > 0' names metric 'exakt': the files have",
        ),
        (("import", "promptfoo.json", "--range", "exact"), "--range='exact' cannot be read: write METRIC=LOW:HIGH"),
        (("import", "pytest-evals.csv", "--column", "arm"), "--column='arm' cannot be read: write ROLE=NAME"),
        (
            ("import", "inspect-v1.eval", "--margin", "0.1"),
            "--margin, --alternative and --relevant apply to one metric: name it with --metric",
        ),
        (
            ("import", "inspect-v1.eval", "inspect-v1.eval", "--arm", "a", "--arm", "b"),
            "task 'sums': 'a' and 'b' are the same results: compare two that differ",
        ),
    ],
)
def test_an_impossible_import_is_refused_in_one_sentence_and_stores_nothing(there, capsys, arguments, sentence):
    (there / "empty").mkdir()
    for name, metric in (("a", "acc,size"), ("b", "f1"), ("c", "acc,size")):
        (there / f"{name}.csv").write_text(f"id,{metric}\n" + f"q1,1{',3' * metric.count(',')}\n" * 1)
    assert main(arguments) == USAGE

    errors = capsys.readouterr().err
    assert errors.startswith(f"crucible {arguments[0]}: {sentence}")
    assert errors.count("\n") == 1
    assert not (there / ".crucible").exists()
