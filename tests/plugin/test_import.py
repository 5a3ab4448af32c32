"""What another harness has measured, as a run: the same verdicts as a session's own, stored or only compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from run_documents import of_arms

from pytest_crucible.cli import DID_NOT_HOLD, HELD, USAGE, main

FILES = Path(__file__).parents[1] / "data" / "imports"


@pytest.fixture
def there(tmp_path, monkeypatch):
    """An empty directory with the files in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRUCIBLE_STORE", raising=False)
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    return tmp_path


def told(capsys, *arguments: str) -> tuple[int, dict]:
    status = main([*arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def verdicts(document: dict) -> dict:
    return {one["subject"]: one for experiment in document["experiments"] for one in experiment["verdicts"]}


def test_what_a_session_has_measured_has_the_same_verdicts_when_it_is_imported(suite, monkeypatch, capsys):
    """Exported as a table and read as anybody's: every number is the same."""
    monkeypatch.chdir(suite.path)
    session = suite.json("--crucible-adapter=poor", "--compare=v2")
    main(["export", "-o", "observations.csv"])
    capsys.readouterr()
    target = "exact_match >= 0.70"
    status, run = told(
        capsys, "import", "observations.csv", "--metric", "exact_match", "--target", target, "--store", "x.db"
    )

    assert (status, run["exit_status"]) == (DID_NOT_HOLD, 1)
    (ours,), (theirs,) = run["experiments"], session["experiments"]
    for part in ("comparisons", "estimates", "verdicts", "epochs"):
        assert ours[part] == theirs[part]
    assert of_arms(ours, "lost") == of_arms(theirs, "lost")


def test_two_logs_are_compared_with_nothing_else_configured(there, capsys):
    before = set(there.iterdir())
    status, run = told(capsys, "compare", "inspect-v2.eval", "inspect-v1.eval", "--metric", "match")

    (comparison,) = run["experiments"][0]["comparisons"]
    assert (status, comparison["pairs"], comparison["lost"]) == (HELD, 11, 1)
    assert comparison["difference"] == pytest.approx(
        5 / 11
    )  # of the eleven that both answered, v2 misses one and v1 six
    assert set(there.iterdir()) == before


def test_a_run_that_was_imported_is_a_run(there, capsys):
    main(["import", "inspect-v2.eval", "inspect-v1.json"])
    said = capsys.readouterr().out
    assert main(["show"]) == HELD
    assert "\nimported from inspect-v2.eval (inspect 0.3.285)\n" in capsys.readouterr().out
    status, run = told(capsys, "show")

    assert "inspect-v2.eval: inspect 0.3.285, mockllm/v2 on sums (24 results)" in said
    assert f"stored as run {run['run']['id']} in .crucible/crucible.db" in said
    assert status == HELD
    origins = run["run"]["environment"]["imported"]
    assert [(one["file"], one["harness"], one["version"], len(one["sha256"])) for one in origins] == [
        ("inspect-v2.eval", "inspect", "0.3.285", 64),
        ("inspect-v1.json", "inspect", "0.3.285", 64),
    ]
    assert run["experiments"][0]["epochs"] == 2
    assert of_arms(run["experiments"][0], "lost")[0] == {"error": 2, "scorer": 2}


def test_the_doctor_looks_at_the_files(there, capsys):
    main(["import", "inspect-v2.eval", "inspect-v1.eval"])
    (there / "inspect-v1.eval").write_bytes(b"another")
    capsys.readouterr()

    assert main(["doctor", "latest"]) == DID_NOT_HOLD
    said = capsys.readouterr().out
    assert "ok       inspect-v2.eval: as it was imported\n" in said
    assert "differs  inspect-v1.eval: it was imported with another content\n" in said


def test_a_run_that_was_cut_short_decides_nothing(there, capsys):
    log = json.loads((there / "inspect-v1.json").read_text())
    kept = [one for one in log["samples"] if one["id"] != "sum-3"]
    (there / "cut.json").write_text(json.dumps({**log, "samples": kept, "status": "cancelled"}))
    status, run = told(capsys, "import", "inspect-v2.eval", "cut.json", "--metric", "match")

    (verdict,) = verdicts(run).values()
    assert (status, verdict["state"]) == (HELD, "undecided")
    assert of_arms(run["experiments"][0], "lost")[1]["unasked"] == 2
    assert "the run of cut.json ended as 'cancelled'" in run["notes"]


def test_several_tasks_are_judged_together(there, capsys):
    results = [str(next(there.glob(f"lm-eval-{arm}/results_*.json"))) for arm in ("v2", "v1")]
    _, run = told(capsys, "import", *results)

    assert [one["nodeid"] for one in run["experiments"]] == ["imported::sums_choice", "imported::sums_filtered"]
    assert run["run"]["family_size"] == 4


def test_the_candidate_and_what_is_better_are_the_users_to_say(there, capsys):
    _, run = told(
        capsys, "import", "promptfoo.json", "--candidate", "v1", "--lower", "brevity", "--range", "brevity=0:2"
    )

    (metric,) = [one for one in run["experiments"][0]["metrics"] if one["name"] == "brevity"]
    assert (metric["direction"], metric["kind"]) == ("lower", "bounded")
    assert set(verdicts(run)) == {f"{name}: v1 vs v2" for name in ("pass", "score", "exact", "brevity")}


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
            ("import", "promptfoo.json", "--target", "exakt > 0"),
            "target 'exakt > 0' names metric 'exakt': the files have",
        ),
        (("import", "promptfoo.json", "--range", "exact"), "--range='exact' cannot be read: write METRIC=LOW:HIGH"),
        (("import", "pytest-evals.csv", "--column", "arm"), "--column='arm' cannot be read: write ROLE=NAME"),
        (
            ("import", "inspect-v1.eval", "--margin", "0.1"),
            "--margin and --alternative apply to one metric: name it with --metric",
        ),
        (
            ("import", "inspect-v1.eval", "inspect-v1.eval", "--arm", "a", "--arm", "b"),
            "task 'sums': 'a' and 'b' are the same results: compare two that differ",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_nothing_is_stored(there, capsys, arguments, sentence):
    assert main(arguments) == USAGE

    said = capsys.readouterr().err
    assert said.startswith(f"crucible {arguments[0]}: {sentence}")
    assert said.count("\n") == 1
    assert not (there / ".crucible").exists()
