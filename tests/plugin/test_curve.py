"""`crucible models curve`: the checkpoints of a log directory on a suite, in one session on the local service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tinker_archive import save_on_tinker

from pytest_crucible.cli import main

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
    paths = [save_on_tinker(service, name, 1) for name in ("000005", "000010")]
    write_log(suite.path, *paths, "tinker://run-1/sampler_weights/gone")
    arguments = ("models", "curve", "log", "--suite", "test_replies.py")

    assert main(arguments) == 0
    printed = capfd.readouterr()
    assert "2 checkpoints and tinker:" in printed.err
    assert "step 15 is left out: the service does not have tinker://run-1/sampler_weights/gone any more" in printed.out
    assert "no checkpoint is proven better than the base" in printed.out
    assert "train_mean_nll" in printed.out

    # Again without a request, as JSON on standard output alone, and with a budget that nothing of it needs.
    assert main((*arguments, "--json", "--", "--crucible-cache=only")) == 0
    (curve,) = json.loads(capfd.readouterr().out)["curves"]
    assert (curve["metric"], curve["base"]["n"], curve["finished"]) == ("short", 12, True)
    assert [(each["step"], each["pairs"], each["training"]) for each in curve["checkpoints"]] == [
        ("5", 12, 8),
        ("10", 12, 3),
    ]

    assert main((*arguments, "-o", "curve.md", "--", "--crucible-cache=only")) == 0
    assert "| `10` |" in (suite.path / "curve.md").read_text()
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
    assert "step 10 was trained on Qwen/Qwen3-8B, and step 5 on" in refusal(str(log), "--suite", "test_replies.py")

    write_log(suite.path, own)
    suite.test(TEST.replace('@pytest.mark.ab_compare("short")', ""), name="test_replies")
    assert "no test of the suite compares" in refusal("log", "--suite", "test_replies.py")
