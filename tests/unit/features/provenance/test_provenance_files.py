"""Files of graphs and timelines: endings, styles, rows, keys and hostile texts."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest
from hostile_texts import CONTROL, FORMULAS, HOSTILE
from timeline_builders import START, a_call, a_decision, a_graph, a_long_story, a_node, a_timeline

from pytest_crucible.features.provenance.exports.files import (
    GRAPHS,
    TIMELINES,
    check_graph_file,
    check_timeline_file,
    write_graph,
    write_timelines,
)
from pytest_crucible.features.provenance.graph import Graph
from pytest_crucible.features.provenance.timeline import Step
from pytest_crucible.records.errors import SpecError


@pytest.mark.parametrize(
    ("check", "name", "sentence"),
    [
        (check_graph_file, "why.dot", "nothing writes '.dot': use .mmd, .prov.json, .html, .md, .jsonl or .csv"),
        (check_graph_file, "why.json", "nothing writes '.json': use .mmd, .prov.json, .html, .md, .jsonl or .csv"),
        (
            check_graph_file,
            "a.otlp.json",
            "nothing writes '.otlp.json': use .mmd, .prov.json, .html, .md, .jsonl or .csv",
        ),
        (
            check_timeline_file,
            "a.prov.json",
            "nothing writes '.prov.json': use .mmd, .otlp.json, .chrome.json, .html, .md, .jsonl or .csv",
        ),
        (
            check_timeline_file,
            "trace",
            "nothing writes 'trace': use .mmd, .otlp.json, .chrome.json, .html, .md, .jsonl or .csv",
        ),
    ],
)
def test_an_unknown_ending_is_refused_with_the_known_ones(check, name, sentence):
    with pytest.raises(SpecError) as refused:
        check(Path(name), None)

    assert str(refused.value) == sentence


def test_a_style_is_for_mermaid_files():
    with pytest.raises(
        SpecError, match=r"--as graph is the kind of diagram in a \.mmd file, and no file was named: add -o FILE\.mmd"
    ):
        check_graph_file(None, "graph")
    with pytest.raises(SpecError, match=r"and 'a\.csv' is not one: add -o FILE\.mmd"):
        check_timeline_file(Path("a.csv"), "graph")
    check_graph_file(Path("a.mmd"), "graph")
    check_timeline_file(None, None)


def test_a_file_that_cannot_be_written_is_named_and_none_is_half_written(tmp_path):
    with pytest.raises(SpecError, match=r"-o .*missing/a\.csv cannot be written: No such file or directory"):
        write_graph(a_graph(), tmp_path / "missing/a.csv")
    assert os.listdir(tmp_path) == []


def test_the_rows_of_a_timeline(tmp_path):
    write_timelines([a_long_story(), a_timeline(unknown="its calls are unknown")], tmp_path / "a.jsonl")

    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows[2] == {
        "run": "3f2a",
        "experiment": "test_qa.py::test_qa",
        "arm": "v2",
        "sample": "q17",
        "repeat": 0,
        "variant": "",
        "step": 3,
        "kind": "request",
        "title": "request: 429 after 0.5 s",
        "at": START + 0.75,
        "since_first_s": 0.75,
        "seconds": 0.5,
        "call": 1,
        "request": 1,
        "member": "",
        "is_claim": False,
        "facts": {"error": "429"},
        "unknown": "",
    }
    assert [row["is_claim"] for row in rows[:10]] == [False] * 6 + [True] + [False] * 3
    assert rows[-1]["step"] is None
    assert rows[-1]["unknown"] == "its calls are unknown"


def test_the_rows_of_a_graph_have_all_that_it_has(tmp_path):
    graph = a_graph()

    write_graph(graph, tmp_path / "a.jsonl")
    write_graph(graph, tmp_path / "a.csv")

    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert {row["key"]: (row["label"], row["facts"]) for row in rows if row["row"] == "node"} == {
        key: (node.label, node.facts) for key, node in graph.nodes.items()
    }
    assert [(row["key"], row["kind"], row["target"]) for row in rows if row["row"] == "relation"] == [
        (each.source, each.kind, each.target) for each in graph.relations
    ]
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row["key"] for row in csv.DictReader(file)] == [row["key"] for row in rows]


@pytest.mark.parametrize("ending", TIMELINES)
def test_no_file_of_a_timeline_has_a_key(tmp_path, monkeypatch, ending):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234567890abcdefghij1234")
    key = "sk-1234567890abcdefghij1234"

    write_timelines([a_timeline(a_call(f"my key is {key}"), a_decision(key))], tmp_path / f"a{ending}")

    assert key not in (tmp_path / f"a{ending}").read_text()


@pytest.mark.parametrize("ending", [*TIMELINES, ".prov.json"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_file_has_a_control_character_of_a_hostile_text(tmp_path, ending, text):
    text = text[:20_000]
    # In brackets at its end a cell of a page is laid out as an interval.
    node = a_node(f"verdict:{text}", f"{text[:100]}]", text=text, **{text: [text]})
    steps = [a_call(text, prompt=text), a_decision(text, is_claim=True, because=text), Step(kind="wait", title=text)]
    timeline = a_timeline(*steps, sample=text, arm=text, variant=text, experiment=text, adapter=text, unknown=text)

    if ending in TIMELINES:
        write_timelines([timeline], tmp_path / f"a{ending}")
        assert CONTROL.findall((tmp_path / f"a{ending}").read_text(encoding="utf-8")) == []
    if ending in GRAPHS:
        write_graph(Graph(nodes={node.key: node}, relations=()), tmp_path / f"b{ending}")
        assert CONTROL.findall((tmp_path / f"b{ending}").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_a_csv_file_is_a_formula(tmp_path, text):
    node = a_node(text, text)
    write_timelines([a_timeline(a_decision(text), sample=text, arm=text)], tmp_path / "a.csv")
    write_graph(Graph(nodes={text: node}, relations=()), tmp_path / "b.csv")

    cells = [
        cell
        for name in ("a.csv", "b.csv")
        for row in csv.reader(io.StringIO((tmp_path / name).read_text(), newline=""))
        for cell in row
    ]
    assert [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))] == []


def test_deep_json_and_long_texts_are_texts_in_every_format(tmp_path):
    deep, long = "[" * 10_000 + "]" * 10_000, "x" * 1_000_000
    timeline = a_timeline(a_call(deep, prompt=long), a_decision(long, because=deep))
    graph = Graph(nodes={"verdict:x": a_node("verdict:x", long, deep=deep)}, relations=())

    for ending in TIMELINES:
        write_timelines([timeline], tmp_path / f"a{ending}")
    for ending in GRAPHS:
        write_graph(graph, tmp_path / f"b{ending}")

    assert len((tmp_path / "a.mmd").read_text()) < 1_000
    assert len((tmp_path / "a.html").read_text()) < 100_000
    assert len((tmp_path / "b.html").read_text()) < 100_000
    assert long in (tmp_path / "a.jsonl").read_text()


@pytest.mark.parametrize("ending", TIMELINES)
def test_each_file_says_that_calls_are_unknown(tmp_path, ending):
    write_timelines([a_timeline(a_decision("x"), unknown="its calls are unknown")], tmp_path / f"a{ending}")

    assert "its calls are unknown" in (tmp_path / f"a{ending}").read_text()


@pytest.mark.parametrize("ending", [".html", ".md"])
def test_a_page_has_the_first_steps_and_counts_the_others(tmp_path, ending):
    timeline = a_timeline(*(Step(kind="wait", title=f"wait {k}") for k in range(2_500)))
    write_timelines([timeline, timeline], tmp_path / f"a{ending}")

    text = (tmp_path / f"a{ending}").read_text()
    assert "500 more steps, not shown here: .jsonl has all" in text
    assert "1 more timeline, not shown here" in text
    assert text.count("wait 1999") == 1
    assert "wait 2000" not in text


@pytest.mark.parametrize("ending", [*TIMELINES, ".prov.json"])
def test_nothing_is_written_as_well(tmp_path, ending):
    if ending in TIMELINES:
        write_timelines([], tmp_path / f"a{ending}")
        write_timelines([a_timeline()], tmp_path / f"a{ending}")
    if ending in GRAPHS:
        write_graph(Graph(nodes={}, relations=()), tmp_path / f"b{ending}")

    assert all(file.stat().st_size for file in tmp_path.iterdir() if ending != ".jsonl")
