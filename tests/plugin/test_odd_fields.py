"""Fields of any shape: sections fail no session, and no command ends in a traceback."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.cli import main


def field_values(k: int, n: int) -> dict[str, object]:
    late = max(0, k - int(0.93 * n))
    return {
        "constant": 7,
        "zero_inflated": late,
        "nearly_all": int(k == 0),
        "null": None,
        "one_value": 3 if k == 2 else None,
        "names": f"level {k}",
        "numbers": k * 1.5,
        "empty": "",
        "huge": 10**400 + k % 2,
        "big": 1e308 * (-1) ** k,
        "truth_and_numbers": [True, False, 1, 0, 2.5][k % 5],
        "in_part": None if k % 3 else k,
        "list": [k % 2, [k % 3]],
        "object": {"a": {"b": k % 2}, "c": [1] * (k % 2)},
        "mixed": [1, "1", 1.0, None, True, [1], {"a": 1}][k % 7],
        "signs": ["\u202e", "\x1b[31m", "e\u0301", " "][k % 4],
        "text_numbers": str(k % 30) if k % 4 else "",
        "not_numbers": ["nan", "inf", "-inf", "1"][k % 4],
        "zeros": [0.0, -0.0, 0][k % 3],
        "two": "ab"[k % 2],
        "long": "x" * 5000 + str(k % 2),
        "metadata": {"inner": k % 2},
    }


TEST = """
    import pytest

    @pytest.mark.crucible(dataset="d.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    @pytest.mark.ab_compare("late")
    @pytest.mark.quality_target("exact_match >= 0")
    async def test_odd(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(late=float(max(0, int(sample.id[1:]) - 93)), constant=3.5)
        return reply
"""
COMMANDS = [
    command.split()
    for command in (
        "show --why-better", "show --why-better --json", "show --why-better --metric late", "show --why-better --metric constant",
        "show", "show --json", "report -o r.html", "report -o r.md", "report -o r.tex", "report -o r.json",
        "compare v1.jsonl v2.jsonl", "data list d.jsonl", "data check d.jsonl", "data drift d.jsonl d.jsonl",
    )
]  # fmt: skip
MORE_FIELDS = ["expected", "object.a.b", "zero_inflated(0)", "zero_inflated(1)", "huge(5)", "big(0)", "mixed(1)",
               "constant & two", "two & list", "in_part(10)", "numbers(3, 9)", "nowhere", "metadata.inner"]  # fmt: skip


def write(suite, n: int, *, fields: bool = True, groups: bool = False, messages: bool = False) -> None:
    rows = []
    for k in range(n):
        text = f"cats{'!' * (k % 9)}" + " 5 " * max(0, k - int(0.93 * n))
        row = {"id": f"s{k}", "input": [{"role": "user", "content": text}] if messages else text, "expected": "yes"}
        rows.append(row | (field_values(k, n) if fields else {}) | ({"group": f"g{k // 3}"} if groups else {}))
    suite.write_rows("d.jsonl", rows)
    for name, every in (("v1", 5), ("v2", 6)):
        replies = [{"sample_id": f"s{k}", "text": "yes" if k % every else "no", "x": name} for k in range(n)]
        replies[0]["text"] = f"yes {name}"
        suite.write_rows(f"{name}.jsonl", replies)
    suite.adapters({name: {"backend": "recorded", "path": f"{name}.jsonl"} for name in ("v1", "v2")})
    suite.test(TEST)


@pytest.mark.parametrize(
    ("n", "facts"),
    [
        (100, {}), pytest.param(100, {"groups": True}, marks=pytest.mark.slow), (100, {"fields": False}),
        pytest.param(60, {"messages": True}, marks=pytest.mark.slow), (45, {"fields": False}),
        pytest.param(3, {}, marks=pytest.mark.slow), (1, {}),
    ],
)  # fmt: skip
def test_no_section_and_no_command_fails(suite, monkeypatch, capsys, n, facts):
    write(suite, n, **facts)
    monkeypatch.chdir(suite.path)
    reports = [f"--crucible-report=o.{ending}" for ending in ("html", "md", "tex", "json")]
    result = suite.run("--crucible-adapter=v2", "--compare=v1", "-vv", *reports)

    assert result.ret == 0
    for words in ("Traceback", "could not be shown", "error in the suite", "INTERNALERROR"):
        result.stdout.no_fnmatch_line(f"*{words}*")
    [experiment] = json.loads((suite.path / "o.json").read_text())["experiments"]
    assert not [name for name, section in experiment["sections"].items() if "error" in section]
    names = [*field_values(0, n), *MORE_FIELDS]
    more = ([], ["--metric", "late", "--json"])
    fairness = [["show", "--by", name, *more[k % 2]] for k, name in enumerate(names)]
    capsys.readouterr()
    for command in [*COMMANDS, *fairness, *(["show", "--by", "mixed", *words] for words in more)]:
        # A crash is an exception here; a refusal is one sentence.
        status = main(command)
        output = capsys.readouterr()
        assert status in (0, 1, 4), (command, output)
        assert "Traceback" not in output.out + output.err
        if status == 4:
            assert len(output.err.strip().splitlines()) == 1, (command, output.err)


@pytest.mark.uses("slices")
@pytest.mark.parametrize(
    "field", ["zero_inflated", "truth_and_numbers", "mixed", "list", "not_numbers", "in_part(10)", "big(0)"]
)
def test_targets_by_odd_fields_are_decided(suite, field):
    write(suite, 100)
    suite.test(
        TEST.replace("exact_match >= 0", f"gap(exact_match by {field}) <= 1").replace(
            '@pytest.mark.ab_compare("late")', f'@pytest.mark.ab_compare("gap(exact_match by {field})")'
        )
    )
    result = suite.run("--crucible-adapter=v2", "--compare=v1", "-vv")

    assert result.ret in (0, 1)
    for words in ("Traceback", "could not be shown", "error in the suite: the section", "INTERNALERROR"):
        result.stdout.no_fnmatch_line(f"*{words}*")
