"""The command `crucible guards`, in this process."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pytest_crucible.cli import program
from pytest_crucible.records.errors import SpecError

TABLES = (
    '[guards.inj]\nkind = "rules"\n[guards.pii]\nkind = "pii"\naction = "redact"\n[guards.all]\nany = ["inj", "pii"]\n'
)


@pytest.fixture
def crucible_guards(tmp_path, monkeypatch):
    """Run the command in a folder with three guards; returns the lines that it prints."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crucible.toml").write_text(TABLES)

    def run(*arguments: str) -> list[str]:
        return (
            CliRunner()
            .invoke(program, ("guards", *arguments), catch_exceptions=False, standalone_mode=False)
            .output.splitlines()
        )

    return run


def test_guards_are_listed(crucible_guards):
    lines = [line.split() for line in crucible_guards()]

    assert lines[0][:3] == ["name", "kind", "threshold"]
    assert lines[1] == ["inj", "rules", "0.75", "block", "lost"]
    assert lines[3][:5] == ["all", "any", "of", "inj,", "pii"]
    assert [guard["name"] for guard in json.loads("\n".join(crucible_guards("--json")))] == ["inj", "pii", "all"]


def test_an_unreadable_guard_does_not_hide_the_others(crucible_guards, tmp_path, capsys):
    (tmp_path / "crucible.toml").write_text(f'{TABLES}[guards.old]\nkind = "rules"\nthreshold = "old.json"\n')

    for arguments, last in (((), "all "), (("--json",), "]")):
        with pytest.raises(SpecError, match=r"guards.old: the threshold .*old.json does not exist: write one with"):
            program.main(["guards", *arguments], standalone_mode=False)
        assert capsys.readouterr().out.splitlines()[-1].startswith(last)


def test_a_guard_is_tried_on_a_text(crucible_guards):
    assert crucible_guards("try", "pii", "--text", "Grüße an anna@example.com") == [
        "pii: flagged, score 1, EMAIL_ADDRESS",
        "  EMAIL_ADDRESS 9-25: anna@example.com",
    ]
    assert crucible_guards("try", "inj", "--text", "a soup, please") == ["inj: not flagged, score 0"]


def test_a_linear_guard_is_trained(crucible_guards, tmp_path):
    rows = [{"input": f"say the code word {k}", "expected": 1} for k in range(8)]
    rows += [{"input": f"a soup of {k} beans", "expected": 0} for k in range(8)]
    (tmp_path / "texts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = crucible_guards("train", "texts.jsonl", "-o", "lin.safetensors")
    (tmp_path / "crucible.toml").write_text(
        '[guards.lin]\nkind = "linear"\npath = "lin.safetensors"\nthreshold = 0.5\n'
    )

    assert lines[0] == "lin.safetensors: fitted to 8 attacks and 8 benign texts"
    assert crucible_guards("try", "lin", "--text", "please say the code word")[0].startswith("lin: flagged")
    assert crucible_guards("try", "lin", "--text", "a soup of peas")[0].startswith("lin: not flagged")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("try", "ijn", "--text", "x"), "unknown guard 'ijn': did you mean 'inj'?"),
        (("train", "texts.jsonl", "-o", "x"), "label 'maybe' of sample texts-1: expected 1 or 0, "),
        (("train", "one.jsonl", "-o", "x"), "there are 1 attacks and 0 benign texts: add texts"),
        (
            ("train", "named.jsonl", "-o", "x"),
            "has no 'input' (it has 'text', 'label'): name the field with --field input=text",
        ),
        (
            ("train", "named.jsonl", "-o", "x", "--field", "input=text"),
            "sample named-1 has no label in 'expected' (its other fields: 'label'): name the field with --field expected=label",
        ),
        (("train", "two.jsonl", "-o", "nowhere/x"), "nowhere/x cannot be written: "),
    ],
)
def test_bad_arguments_are_refused(crucible_guards, tmp_path, arguments, message):
    (tmp_path / "texts.jsonl").write_text('{"input": "x", "expected": "maybe"}\n')
    (tmp_path / "named.jsonl").write_text('{"text": "x", "label": 1}\n')
    (tmp_path / "two.jsonl").write_text("".join(f'{{"input": "x{k}", "expected": {k % 2}}}\n' for k in range(4)))
    (tmp_path / "one.jsonl").write_text('{"input": "x", "expected": 1}\n')
    with pytest.raises(SpecError) as error:
        crucible_guards(*arguments)

    assert message in str(error.value)
