"""Replies that would break a terminal, a report or a database, if they could."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from xml.etree import ElementTree

import pytest
from hostile_texts import CONTROL, HOSTILE

from pytest_crucible.cli import main

V2 = "--crucible-adapter=v2"
METRICS = (
    *("exact_match", "contains_expected", "final_number_matches", "squad_exact_match", "squad_f1", "numeric_matches"),
    *("choice_match", "choice_given", "python_code_bleu", "refusal", "truncated"),
)
SUITE = f"""
    import pytest
    from pytest_crucible import metric
    from pytest_crucible.metrics import json_problem, matches, valid_json

    @metric(kind="text", version="1")
    def echo(reply, sample):
        return reply.text

    @metric(kind="binary", version="1")
    def breaks(reply, sample):
        raise ValueError(reply.text)

    METRICS = [*{METRICS!r}, echo, breaks, valid_json(fenced=True), json_problem(), matches("evil")]

    @pytest.mark.crucible(dataset="hostile.jsonl", metrics=METRICS)
    @pytest.mark.quality_target("exact_match >= 0.5", "contains_expected >= 0.5", "breaks >= 0.5")
    @pytest.mark.ab_compare("squad_f1")
    def test_hostile(sample, sampler):
        return sampler.generate(sample.input)
"""


@pytest.fixture
def hostile(suite):
    suite.write_rows("hostile.jsonl", [{"id": name, "input": name, "expected": "B 1"} for name in HOSTILE])
    suite.write_rows("answers/v2.jsonl", [{"sample_id": name, "text": text} for name, text in HOSTILE.items()])
    suite.write_rows("answers/v1.jsonl", [{"sample_id": name, "text": "B 1"} for name in HOSTILE])
    suite.test(
        SUITE.replace("def test_hostile", "async def test_hostile").replace("return sampler", "return await sampler")
    )
    return suite


@pytest.mark.slow
def test_no_reply_breaks_terminal_report_or_database(hostile):
    arguments = ("--crucible-adapter=v2", "--compare=v1", "--crucible-json=run.json", "--junitxml=junit.xml", "-vv")

    result = hostile.run(*arguments)

    output = result.stdout.str() + result.stderr.str()
    assert result.ret == 1
    assert "INTERNALERROR" not in output
    assert CONTROL.findall(re.sub(r"\x1b\[[0-9;]*m", "", output.replace("\r\n", "\n"))) == []
    assert len(output) < 200_000
    document = json.loads((hostile.path / "run.json").read_text(encoding="utf-8"))
    assert {estimate["metric"]: estimate["n"] for estimate in document["experiments"][0]["estimates"]}[
        "exact_match"
    ] == len(HOSTILE)
    ElementTree.parse(hostile.path / "junit.xml")


@pytest.mark.slow
def test_the_database_keeps_the_reply_without_invalid_characters(hostile):
    hostile.run("--crucible-adapter=v2", "--compare=v1")

    with closing(sqlite3.connect(hostile.path / ".crucible" / "crucible.db")) as connection:
        query = "select coalesce(text, body) from replies left join texts on texts.id = replies.text_id"
        texts = {text for (text,) in connection.execute(query)}
    connection.close()
    odd = {"nul": "a\ufffdb", "half": "\ufffd and \ufffd"}
    assert {odd.get(name, text) for name, text in HOSTILE.items()} <= texts


@pytest.mark.parametrize("name", ["ansi", "half", "long", "controls"])
def test_one_sample_alone_is_shown_escaped_and_cut(hostile, name):
    result = hostile.run_apart("--crucible-adapter=v2", f"--crucible-sample={name}")

    output = result.stdout.str() + result.stderr.str()
    assert "reply " in output
    assert CONTROL.findall(output) == []
    assert len(output) < 100_000


LONG = "x" * 1_000_000
REPORTS = ("run.html", "run.md", "run.tex", "run.ipynb")


def test_the_id_of_a_sample_is_cut_wherever_it_is_shown(suite, capsys):
    suite.write_rows("questions.jsonl", [{"id": name, "input": "?", "expected": "1"} for name in (LONG, "short")])
    suite.write_rows("answers/v2.jsonl", [{"sample_id": name, "text": "2"} for name in (LONG, "short")])
    suite.write_rows("answers/v1.jsonl", [{"sample_id": "short", "text": "1"}])
    reports = [f"--crucible-report={name}" for name in REPORTS]

    result = suite.run(V2, "-vv", "--crucible-json=run.json", "--junitxml=junit.xml", *reports)
    lost = suite.run("--crucible-adapter=v1", "--crucible-json=lost.json")
    alone = suite.run(V2, "--crucible-sample=short")
    main(["show", "latest", "--sample=other"])

    lines = [result.stdout.str(), lost.stdout.str(), alone.stdout.str(), "".join(capsys.readouterr())]
    lines += [(suite.path / name).read_text() for name in (*REPORTS, "run.json", "lost.json", "junit.xml")]
    assert all("x" * 2_001 not in text for text in lines)
    assert f"test_sums.py::test_sums  {'x' * 200}... (999,800 characters more): exact_match = 0" in lines[0]


def test_a_repeated_id_is_cut_and_the_sentence_is_whole(suite):
    suite.write_rows("questions.jsonl", [{"id": LONG, "input": "?"}] * 2)

    suite.refuses(suite.run(V2), f"*line 2 of *repeats the id '{'x' * 199} of line 1 of *: ids must be unique")
