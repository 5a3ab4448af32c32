"""Values that are nested too deep for recursion: one sentence, wherever they are read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.adapters.config_tables import list_tables
from pytest_crucible.backends.offline import load_recorded
from pytest_crucible.datasets import load_file, load_rows
from pytest_crucible.features.contamination.drift import load_rows_of_file
from pytest_crucible.importers.source import open_source, read_beside
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.serialize import MOST_DEPTH, TooDeep, check_depth, parse
from pytest_crucible.runs.run_store import _pytest_table

SENTENCE = "is nested more than 100 levels deep"
DEEP = [101, 900, 995, 5_000, 100_000]


def text(depth: int, kind: str = "list") -> str:
    return "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "1" + "}" * depth


def nest(depth: int):
    value: object = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@given(st.integers(0, 2 * MOST_DEPTH))
def test_the_limit_is_exact(depth):
    value = nest(depth)
    if depth <= MOST_DEPTH:
        check_depth(value)
    else:
        with pytest.raises(TooDeep, match=SENTENCE):
            check_depth(value)


def test_what_contains_itself_is_too_deep():
    rows: list[object] = []
    rows += [rows, rows, {"a": rows}]

    with pytest.raises(TooDeep):
        check_depth(rows)


@pytest.mark.parametrize("depth", DEEP)
@pytest.mark.parametrize("kind", ["list", "mapping"])
def test_a_parser_that_cannot_go_on_says_so(depth, kind):
    with pytest.raises(TooDeep):
        parse(json.loads, text(depth, kind))


@pytest.mark.parametrize("depth", DEEP)
@pytest.mark.parametrize("field", ["input", "expected", "topic"])
@pytest.mark.parametrize("read", [load_file, load_rows_of_file])
def test_rows_of_files(tmp_path, depth, field, read):
    row = f'{{"input": "q", "{field}": {text(depth)}}}'
    for name, content in (("d.jsonl", row), ("d.json", f"[{row}]")):
        (tmp_path / name).write_text(content)
        with pytest.raises(CrucibleError, match=f"^line 1 of .*{name} {SENTENCE}: flatten its values$"):
            read(tmp_path / name)


@pytest.mark.parametrize("depth", [101, 900])
def test_rows_in_memory(depth):
    rows = [{"input": nest(depth)}, {"input": "q", "expected": nest(depth)}, {"input": "q", "x": nest(depth)},
            Sample(id="a", input="q", metadata={"x": nest(depth)}), Sample(id="a", input=nest(depth))]  # fmt: skip
    for row in rows:
        with pytest.raises(CrucibleError, match=f"^sample 1 of rows {SENTENCE}: flatten its values$"):
            load_rows([row], name="rows")


@pytest.mark.parametrize("depth", DEEP[:4])
def test_replies_logs_and_configurations(tmp_path, depth):
    log, table = tmp_path / "log.jsonl", tmp_path / "crucible.toml"
    log.write_text(f'{{"sample_id": "a", "text": "b", "x": {text(depth)}}}\n')
    table.write_text(f"[adapters.v1]\nx = {text(depth)}\n")
    pytest_table = tmp_path / "pytest.toml"
    pytest_table.write_text(f"[pytest]\nx = {text(depth)}\n")
    for read in (
        lambda: load_recorded(log),
        lambda: open_source(log),
        lambda: read_beside(log),
        lambda: list(list_tables(tmp_path, "adapters")),
        lambda: _pytest_table(pytest_table),
    ):
        with pytest.raises(CrucibleError, match=SENTENCE):
            read()
