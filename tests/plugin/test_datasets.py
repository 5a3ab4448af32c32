"""Datasets in a suite: which were read, and which part of them was asked, stand in the run's record."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.datasets import identify, load_file, select
from pytest_crucible.datasets.load import is_large
from pytest_crucible.records import Selection

SUITE = """
import pytest


@pytest.mark.crucible(dataset={dataset!r}, metrics="exact_match"{more})
def test_it(sample, score):
    return str(sample.expected)
"""


def document(pytester: pytest.Pytester) -> dict:
    return json.loads((pytester.path / "out.json").read_text())["experiments"][0]["dataset"]


def run(pytester: pytest.Pytester, dataset: str, more: str = "") -> pytest.RunResult:
    pytester.makepyfile(SUITE.format(dataset=dataset, more=more))
    return pytester.runpytest("-p", "no:asyncio", "--crucible-json=out.json")


def test_a_dataset_by_name_says_where_it_comes_from(pytester, tmp_path, monkeypatch):
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k" / "test.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')

    assert run(pytester, "gsm8k").ret == 0
    origin = document(pytester)["origin"]
    assert origin["source"] == "https://github.com/openai/grade-school-math"
    assert len(origin["files"]["gsm8k/test.jsonl"]) == 64
    assert origin["official"] is False


def test_the_selected_part_is_in_the_record(pytester):
    rows = "".join(f"{n},{n},{n},{'ab'[n % 2]}\n" for n in range(40))
    (pytester.path / "sums.csv").write_text(f"id,input,expected,label\n{rows}")

    assert run(pytester, "sums.csv", ', fold="2/4", limit=6, stratify="label"').ret == 0
    result = document(pytester)
    assert result["n"] == 6
    assert result["selection"] == {
        "of": 40, "seed": 0, "split": None, "fold": "2/4", "limit": 6, "stratify": "label",
    }  # fmt: skip
    assert result["origin"] is None


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (', fold="5/4"', "fold='5/4' is not valid: write '2/5' for the second of five folds"),
        (', split="test"', "split='test' is not valid: write 'test 0.2' for a fifth, and 'train 0.2' for the rest"),
        (
            ', stratify="label"',
            "@pytest.mark.crucible has stratify='label' but nothing to draw: add limit=, fold= or split=",
        ),
    ],
)
def test_an_invalid_part_ends_the_session(pytester, more, sentence):
    (pytester.path / "sums.csv").write_text("id,input,expected\na,1,1\n")
    result = run(pytester, "sums.csv", more)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{sentence}*".replace("[", "[[]")])


def test_a_dataset_that_is_neither_on_the_hub_nor_cached_ends_the_session(pytester, monkeypatch, tmp_path):
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets are not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    result = run(pytester, "hf://acme/reviews:test")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*dataset 'hf://acme/reviews:test' is neither reachable on the Hugging Face Hub nor in the local cache (*"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", ', stratify="expected"'])
def test_a_limit_selects_the_same_samples_of_a_large_file(pytester, more):
    rows = [{"id": f"q{k}", "input": f"{k} " + "x" * 200, "expected": str(k % 3)} for k in range(20_000)]
    path = pytester.path / "large.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert is_large(path)

    assert run(pytester, "large.jsonl", f", limit=30{more}").ret == 0
    record = document(pytester)
    arguments = eval(f"dict(limit=30{more})")
    selection = Selection(of=20_000, seed=0, **arguments)
    assert record["selection"] == {"split": None, "fold": None, "stratify": None, "of": 20_000, "seed": 0, **arguments}
    assert record["sha256"] == identify("large.jsonl", select(load_file(path), selection)).sha256


STRATEGY = """
import pytest
from hypothesis import strategies as st

from pytest_crucible import from_strategy

SUMS = st.integers(0, 10**9).map(lambda k: {{"input": f"{{k}} + 1", "expected": str(k + 1)}})


@pytest.mark.crucible(dataset=from_strategy({strategy}, n={n}), metrics="exact_match")
def test_sum(sample):
    return str(eval(sample.input))


@pytest.mark.crucible(dataset=from_strategy(SUMS, n=40), metrics="exact_match", limit=10)
def test_part(sample):
    return str(eval(sample.input))
"""


def hashes_and_reused(pytester: pytest.Pytester, *options: str) -> tuple[list[str], int]:
    """Return the hash of each experiment's samples, and the number of experiments whose replies were stored before."""
    result = pytester.runpytest("-p", "no:asyncio", "--crucible-json=out.json", *options)
    experiments = json.loads((pytester.path / "out.json").read_text())["experiments"]
    assert [experiment["dataset"]["n"] for experiment in experiments] == [30, 10]
    return [experiment["dataset"]["sha256"] for experiment in experiments], str(result.stdout).count(
        "replies reused from run"
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_samples_of_a_strategy_are_drawn_by_the_seed_and_resumed(pytester, workers):
    pytester.makepyfile(STRATEGY.format(strategy="SUMS", n=30))
    hashes, _ = hashes_and_reused(pytester, "--crucible-seed=1")

    assert hashes_and_reused(pytester, "--crucible-seed=1", "--crucible-resume", *workers) == (hashes, 2)
    others, reused = hashes_and_reused(pytester, "--crucible-seed=2", "--crucible-resume", *workers)
    assert not set(others) & set(hashes)
    assert reused == 0


def test_a_strategy_with_too_few_samples_ends_the_session(pytester):
    pytester.makepyfile(STRATEGY.format(strategy="st.booleans()", n=3))
    result = pytester.runpytest("-p", "no:asyncio")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*from_strategy(booleans()) gives only 2 distinct samples in 100 draws, and n=3: *"])
