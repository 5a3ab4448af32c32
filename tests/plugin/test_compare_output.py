"""`crucible compare` on the terminal and as a comment: one sentence in plain words, then the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_crucible.cli import main

FILES = Path(__file__).parents[1] / "peers" / "files"
LOGS = [str(FILES / f"inspect-{name}.eval") for name in ("v2", "v1")]


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys):
    """Compare in an empty folder, and return status, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["compare", *arguments])
        return (status, *capsys.readouterr())

    return run


def table(path: Path, right: int) -> str:
    rows = [f"q{k},{int(k < right)},{k / 10}\n" for k in range(60)]
    path.write_text("sample,correct,edit_distance\n" + "".join(rows))
    return str(path)


def test_the_first_line_says_what_differs_by_how_much_and_whether_it_is_proven(compare, tmp_path):
    new, old = table(tmp_path / "new.csv", 55), table(tmp_path / "old.csv", 20)
    better, worse = compare(new, old, "--metric", "correct"), compare(old, new, "--metric", "correct")

    assert better[1].startswith("new is better than old by 58.3 points [")
    assert better[1].splitlines()[0].endswith("] (correct); the gate holds.")
    assert worse[1].startswith("old is worse than new by 58.3 points [")
    assert (better[0], worse[0]) == (0, 1)


def test_what_is_not_proven_is_not_claimed(compare):
    _, out, _ = compare(*LOGS, "--metric", "match")

    assert out.splitlines()[0] == (
        "mockllm/v2 did better than mockllm/v1 on 11 samples, by 45.5 points [6.3, 77.5] (match), but that mockllm/v2 is better "
        "is not proven; the gate holds."
    )


def test_several_metrics_are_listed_with_their_amounts(compare):
    assert compare(*LOGS)[1].splitlines()[0] == (
        "In none of 2 comparisons is mockllm/v2 proven better or worse than mockllm/v1 (match better by 45.5 points [6.3, 77.5], "
        "graded better by 50.0 points [-2.4, 81.3]); both gates hold."
    )


def test_without_a_known_direction_the_difference_has_no_verdict(compare):
    assert compare(*LOGS, "--metric", "shape.length")[1].startswith(
        "mockllm/v2 minus mockllm/v1 is -3.9 [-6.9, -0.9] on 11 samples (shape.length); no gate was decided.\n"
    )


def test_markdown_is_a_comment_with_the_sentence_as_its_title(compare):
    status, out, _ = compare(*LOGS, "--metric", "match", "--markdown")

    assert status == 0
    assert out.startswith("## ✅ mockllm/v2 did better than mockllm/v1 on 11 samples, by 45.5 points")
    assert "| `match: mockllm/v2 vs mockllm/v1` | +0.455 [+0.063, +0.775] | 11 | 1 |" in out
    assert len(out) < 65_536


def test_markdown_and_json_are_two_forms(compare):
    assert compare(*LOGS, "--markdown", "--json") == (
        4,
        "",
        "crucible compare: --markdown and --json are two forms of one result: write one of them\n",
    )
