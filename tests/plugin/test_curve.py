"""`crucible models curve`: the checkpoints of a log directory on a suite, in one session on the local service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tinker_archive import BASE, save_on_tinker

from pytest_crucible.cli import main
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.server.archive import SAMPLER, TRAINING, Archive, CheckpointInfo, CheckpointPath

TEST = """
    import pytest

    @pytest.mark.ab_compare("short")
    @pytest.mark.crucible(dataset=[{"id": f"q{k}", "input": f"Document {k}:"} for k in range(12)])
    async def test_replies(sample, sampler, score):
        reply = await sampler.generate(sample.input, max_tokens=3)
        score(short=len(reply.text) < 8)
"""


def write_log(folder: Path, *paths: str) -> Path:
    log = folder / "log"
    log.mkdir(exist_ok=True)
    rows = [
        {"name": path.rpartition("/")[2], "batch": 5 * place, "sampler_path": path}
        for place, path in enumerate(paths, start=1)
    ]
    (log / "checkpoints.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    (log / "metrics.jsonl").write_text("".join(f'{{"step": {k}, "train_mean_nll": {10 - k}}}\n' for k in range(10)))
    return log


@pytest.mark.uses("stages")
@pytest.mark.slow
def test_a_curve_of_two_checkpoints_and_one_that_has_expired(suite, monkeypatch, capfd):
    monkeypatch.chdir(suite.path)
    suite.test(TEST, name="test_replies")
    service = suite.path / ".crucible" / "tinker"
    paths = [save_on_tinker(service, name, 1, steps=steps) for name, steps in (("000005", 7), ("000010", None))]
    write_log(suite.path, *paths, "tinker://run-1/sampler_weights/gone")
    arguments = ("models", "curve", "log", "--suite", "test_replies.py")

    assert main(arguments) == 0
    printed = capfd.readouterr()
    assert "2 checkpoints and tinker:" in printed.err
    assert (
        "checkpoint gone is left out: the service does not have tinker://run-1/sampler_weights/gone any more"
        in printed.out
    )
    assert "no checkpoint is proven better than the base" in printed.out
    assert "train_mean_nll" in printed.out

    # Again without a request, as JSON on standard output alone, and with a budget that nothing of it needs.
    assert main((*arguments, "--json", "--", "--crucible-cache=only")) == 0
    (curve,) = json.loads(capfd.readouterr().out)["curves"]
    assert (curve["metric"], curve["base"]["n"], curve["finished"]) == ("short", 12, True)
    assert [(each["checkpoint"], each["steps"], each["pairs"], each["training"]) for each in curve["checkpoints"]] == [
        ("000005", 7, 12, 7.0),
        ("000010", None, 12, 2.0),
    ]

    assert main((*arguments, "-o", "curve.md", "--", "--crucible-cache=only")) == 0
    assert "| `000010` |" in (suite.path / "curve.md").read_text()
    capfd.readouterr()
    assert main((*arguments, "--", "--crucible-estimate")) == 0
    assert "nothing was sent" in capfd.readouterr().out


@pytest.mark.slow
def test_replies_that_all_fail_have_a_curve_of_zeros(suite, monkeypatch, capfd):
    monkeypatch.chdir(suite.path)
    failing = TEST.replace('"short"', '"exact_match"').replace(
        "@pytest.mark.crucible(", '@pytest.mark.crucible(metrics=["exact_match"], '
    )
    failing = failing.replace('"input": f"Document {k}:"', '"input": f"Document {k}:", "expected": "no"')
    suite.test(
        failing.replace("score(short=len(reply.text) < 8)", "assert len(reply.text) > 1000"), name="test_replies"
    )
    write_log(suite.path, save_on_tinker(suite.path / ".crucible" / "tinker", "000005", 1))

    assert main(("models", "curve", "log", "--suite", "test_replies.py", "--json")) == 0
    (curve,) = json.loads(capfd.readouterr().out)["curves"]
    assert (curve["metric"], curve["base"]["n"], curve["base"]["value"]) == ("exact_match", 12, 0.0)
    assert [each["pairs"] for each in curve["checkpoints"]] == [12]


@pytest.mark.slow
def test_a_model_without_checkpoints_has_no_curve(suite, monkeypatch, capfd):
    monkeypatch.chdir(suite.path)
    suite.test(TEST, name="test_replies")
    log = write_log(suite.path, "tinker://run-1/sampler_weights/gone")

    def refusal(*words: str) -> str:
        assert main(("models", "curve", *words)) == 4
        return capfd.readouterr().err

    assert "--suite test_none.py does not exist" in refusal("log", "--suite", "test_none.py")
    assert "has no checkpoints.jsonl" in refusal(".", "--suite", "test_replies.py")
    assert "must end in one of .html, .md, .json" in refusal("log", "--suite", "test_replies.py", "-o", "curve.txt")
    assert "the service has none of 1 checkpoint" in refusal("log", "--suite", "test_replies.py")

    service = suite.path / ".crucible" / "tinker"
    own = save_on_tinker(service, "own", 1)
    write_log(suite.path, own, save_on_tinker(service, "other", 2, base="Qwen/Qwen3-8B"))
    assert "checkpoint other was trained on Qwen/Qwen3-8B, and own on" in refusal(
        str(log), "--suite", "test_replies.py"
    )

    write_log(suite.path, own)
    suite.test(TEST.replace('@pytest.mark.ab_compare("short")', ""), name="test_replies")
    assert "no test of the suite compares" in refusal("log", "--suite", "test_replies.py")


def save_run(service: Path, run: str, name: str, steps: int | None) -> dict[str, str]:
    about = CheckpointInfo(BASE, Engine.load_packaged().base_sha256, {"rank": 4}, created=1.7e9, steps=steps)
    paths = [CheckpointPath(run, kind, name) for kind in (TRAINING, SAMPLER)]
    for path in paths:
        with Archive(service).write_checkpoint(path, about):
            pass
    return {"name": name, "state_path": str(paths[0]), "sampler_path": str(paths[1])}


@pytest.mark.slow
def test_doctor_lists_the_optimiser_steps_of_a_log_directory(suite, monkeypatch, capfd):
    """The cookbook's supervised training saves after it has submitted the next batch."""
    pytest.importorskip("tinker")
    monkeypatch.chdir(suite.path)
    monkeypatch.delenv("TINKER_BASE_URL", raising=False)
    log, service = suite.path / "log", suite.path / ".crucible" / "tinker"
    log.mkdir()
    (suite.path / "empty").mkdir()
    assert main(("doctor", "empty")) == 4
    assert "empty is a folder without checkpoints.jsonl: name a run, or the log_path" in capfd.readouterr().err

    rows = [
        {**save_run(service, "a", "000003", 5), "batch": 3},
        {**save_run(service, "b", "000006", 10), "batch": 6},
        {**save_run(service, "b", "000009", 11), "batch": 9},
        {**save_run(service, "b", "000012", None), "batch": 12},
        {"name": "gone", "state_path": "tinker://c/weights/gone"},
    ]
    (log / "checkpoints.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main(("doctor", "log")) == 1
    resumes = "though a training that resumes here starts with batch"
    twice = "applied twice if tinker-cookbook is killed and resumed; trainings of pytest-crucible repeat none"
    assert capfd.readouterr().out.splitlines() == [
        f"differs  000003: 5 optimiser steps, {resumes} 3 (from 0): batches 3 and 4 {twice}",
        "differs  resumed: from 000003: batches 3 and 4 applied twice",
        f"differs  000006: 10 optimiser steps, {resumes} 6 (from 0): batches 6 and 7 {twice}",
        "ok       000009: 11 optimiser steps",
        "ok       000012: optimiser steps unknown: the service does not state them",
        "ok       gone: optimiser steps unknown: the service does not list it",
    ]
