"""Large files are read row by row, and have the results, the verdicts and the refusals of small ones."""

from __future__ import annotations

import json
import pickle
import random
import sys
from dataclasses import replace

import pyarrow
import pyarrow.parquet
import pytest

from pytest_crucible.datasets.packed import PackedSamples
from pytest_crucible.importers import large_files, lm_eval_samples, second_half
from pytest_crucible.importers.formats import read
from pytest_crucible.importers.packed_rows import PackedRows, Packing, RowColumns
from pytest_crucible.plan import streamed
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs import imported_samples
from pytest_crucible.runs.compared_sources import compare_results
from pytest_crucible.runs.imported_tasks import group_tasks
from pytest_crucible.runs.plugins import program_plugins

ROWS = 300


@pytest.fixture
def no_file_is_small(monkeypatch):
    monkeypatch.setattr(large_files, "LARGE_BYTES", 0)
    monkeypatch.setattr(large_files, "LARGE_ROWS", 0)


@pytest.fixture
def no_run_is_small(monkeypatch, no_file_is_small):
    for module in (streamed, imported_samples):
        monkeypatch.setattr(module, "MOST_IMPORTED", 0)


def samples(path, arm: int, **more):
    rng = random.Random(arm)
    lines = [
        {
            "doc_id": k,
            "doc": {"question": f"{k} + {k}?"},
            "target": str(2 * k),
            "arguments": {"gen_args_0": {"arg_0": f"Q: {k} + {k}?", "arg_1": {"until": ["\n"]}}},
            "filtered_resps": [str(2 * k)],
            "resps": [[str(2 * k)]],
            "filter": "none",
            "metrics": ["exact_match"],
            "exact_match": float(rng.random() < 0.5 + 0.2 * arm),
            **more,
        }
        for k in range(ROWS)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return path


def table(path, arm: int):
    rng = random.Random(arm)
    columns = {
        "id": [f"q{k}" for k in range(ROWS)],
        "question": [f"{k} + {k}?" for k in range(ROWS)],
        "output": [None if k == 7 else str(2 * k) for k in range(ROWS)],
        "score": [None if k == 7 else rng.random() + 0.1 * arm for k in range(ROWS)],
        "error": ["timeout" if k == 7 else "" for k in range(ROWS)],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


WRITERS = {"samples.jsonl": samples, "table.parquet": table}


@pytest.mark.parametrize("name", WRITERS)
def test_a_large_file_has_the_results_of_a_small_one(tmp_path, name, request):
    path = WRITERS[name](tmp_path / name, 0)
    small = read(path)
    request.getfixturevalue("no_file_is_small")
    large = read(path)

    assert isinstance(large.results[0].rows, PackedRows)
    assert not isinstance(small.results[0].rows, PackedRows)
    assert [replace(arm, rows=list(arm.rows)) for arm in large.results] == small.results
    assert replace(large, results=()) == replace(small, results=())


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_comparison_without_texts_has_the_verdicts_of_one_with_them(tmp_path, name, request):
    first, second = (WRITERS[name](tmp_path / f"{arm}-{name}", arm) for arm in range(2))
    in_memory = compare_results(first, second)
    request.getfixturevalue("no_run_is_small")
    in_batches = compare_results(first, second)

    assert "large_run" in in_batches.experiments[0].sections
    assert "large_run" not in in_memory.experiments[0].sections
    assert [verdict.state for verdict in in_batches.verdicts] == [verdict.state for verdict in in_memory.verdicts]
    [ours], [theirs] = (run.experiments[0].comparisons for run in (in_batches, in_memory))
    assert (ours.pairs, ours.lost, ours.p_value) == (theirs.pairs, theirs.lost, pytest.approx(theirs.p_value))
    assert ours.difference == pytest.approx(theirs.difference)


@pytest.mark.slow
def test_samples_with_other_inputs_are_left_out_of_large_files_too(tmp_path, no_run_is_small):
    first = samples(tmp_path / "a.jsonl", 0)
    second = samples(tmp_path / "b.jsonl", 1)
    second.write_text(second.read_text(encoding="utf-8").replace('"17 + 17?"', '"seventeen?"'), encoding="utf-8")

    [comparison] = compare_results(first, second).experiments[0].comparisons

    assert comparison.pairs == ROWS - 1


@pytest.mark.slow
def test_a_score_that_is_no_number_is_lost_in_large_files_too(tmp_path, no_run_is_small):
    first = samples(tmp_path / "a.jsonl", 0)
    second = samples(tmp_path / "b.jsonl", 1)
    lines = first.read_text(encoding="utf-8").splitlines()
    lines[17] = json.dumps({**json.loads(lines[17]), "exact_match": float("nan")})
    first.write_text("\n".join(lines), encoding="utf-8")

    [comparison] = compare_results(first, second).experiments[0].comparisons

    assert (comparison.pairs, comparison.lost) == (ROWS - 1, 1)


@pytest.mark.slow
def test_equal_questions_of_large_files_are_one_group(tmp_path, no_run_is_small):
    files = [samples(tmp_path / f"{arm}.jsonl", arm) for arm in range(2)]
    for path in files:
        path.write_text(path.read_text(encoding="utf-8").replace("18 + 18?", "17 + 17?"), encoding="utf-8")

    assert compare_results(*files).experiments[0].plan.groups == ROWS - 1


@pytest.mark.parametrize("name", WRITERS)
def test_samples_of_large_files_in_a_temporary_file_are_those_in_memory(tmp_path, name, request):
    path = WRITERS[name](tmp_path / name, 0)
    [small] = group_tasks([read(path)])
    request.getfixturevalue("no_file_is_small")
    [large] = group_tasks([read(path)])
    in_memory, spilled = imported_samples.load_samples(small), imported_samples.load_samples(large)

    assert isinstance(spilled.samples, PackedSamples)
    assert spilled.sha256 == in_memory.sha256
    assert list(spilled.samples) == list(in_memory.samples)
    assert spilled.samples[ROWS // 2] == in_memory.samples[ROWS // 2]
    assert imported_samples.group_questions(large, spilled) == (spilled, None)
    assert imported_samples.group_questions(small, in_memory)[1] is None


ODD = [
    {},
    {"arguments": None},
    {"arguments": [["Q: as a list?", {"until": ["\n"], "temperature": 0.5}]]},
    {"arguments": {"gen_args_0": {"arg_0": '[{"role": "user", "content": "2 + 2?"}]', "arg_1": {}}}},
    {"filter": "flexible"},
    {"filter": None},
    {"exact_match": float("nan")},
    {"exact_match": True},
    {"exact_match": [1, 2]},
    {"metrics": ["word_perplexity", "perplexity"], "word_perplexity": [-12.5, 5], "perplexity": -3.0},
    {"metrics": []},
    {"metrics": ["exact_match", "f1"], "f1": 0.25},
    {"doc": {"question": ["a", "list"]}},
    {"doc": "a text"},
    {"prompt_hash": "a" * 64},
    {"prompt_hash": ""},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_samples_among_plain_ones_are_packed_as_each_row_alone_would_be(odd):
    lines = [
        {
            "doc_id": k,
            "doc": {"question": f"{k}?", "label": "x"},
            "target": "4",
            "arguments": {"gen_args_0": {"arg_0": f"Q: {k}?", "arg_1": {"until": ["\n"]}}},
            "filter": "none",
            "metrics": ["exact_match"],
            "prompt_hash": f"{k:064x}",
            "exact_match": k / 8,
        }
        for k in range(120)
    ]
    lines[70] |= odd
    if odd == {}:
        del lines[70]["doc"], lines[70]["filter"]
    settings = {"num_fewshot": 5}

    by_row = Packing()
    by_row.add(lm_eval_samples._lm_eval_row(line, settings, with_reply=False) for line in lines)
    by_columns = lm_eval_samples._pack(lines, settings)
    in_parts = Packing()
    for first in range(0, 120, 40):
        in_parts.merge(pickle.loads(pickle.dumps(lm_eval_samples._pack(lines[first : first + 40], settings))))

    assert everything(by_columns) == everything(by_row)
    assert everything(in_parts) == everything(by_row)


def everything(packed: Packing | PackedRows):
    """Return what is in memory of rows; scores as texts, too, which tell numbers of different types apart."""
    packed.columns.pad()
    scores = [(name, repr(values)) for name, values in packed.columns.scores.items()]
    return scores, packed.columns, packed.hashes, packed.questions, packed.kinds, packed.settings


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"score": None},
        {"score": float("nan")},
        {"score": "high"},
        {"error": "timeout"},
        {"question": ""},
        {"expected": None},
    ],
    ids=str,
)
def test_odd_cells_of_a_large_table_are_packed_as_each_row_alone_would_be(tmp_path, odd, request):
    path = tmp_path / "odd.parquet"
    rows = [
        {"id": k, "question": f"{k}?", "expected": "x", "output": "y", "error": "", "score": k / 8} for k in range(30)
    ]
    rows[20] |= odd
    cells = {name: [row[name] for row in rows] for name in rows[0]}
    if odd.get("score") == "high":
        cells["score"] = list(map(str, cells["score"]))
    pyarrow.parquet.write_table(pyarrow.table(cells), path)
    by_row = Packing()
    by_row.add(read(path).results[0].rows)
    request.getfixturevalue("no_file_is_small")

    assert everything(read(path).results[0].rows) == everything(by_row)


@pytest.fixture
def two_processes(monkeypatch, no_file_is_small):
    monkeypatch.setattr(second_half, "SHARED_BYTES", 0)
    monkeypatch.setattr(second_half, "_processors", lambda: 2)


@pytest.mark.slow
def test_two_processes_pack_what_one_packs(tmp_path, request):
    path = samples(tmp_path / "a.jsonl", 0)
    request.getfixturevalue("no_file_is_small")
    alone = read(path).results[0].rows
    request.getfixturevalue("two_processes")
    shared = read(path).results[0].rows

    assert everything(shared) == everything(alone)
    assert list(shared) == list(alone)


@pytest.mark.slow
def test_a_damaged_line_of_the_other_process_is_refused_with_its_number(tmp_path, two_processes):
    path = samples(tmp_path / "a.jsonl", 0)
    path.write_text(path.read_text(encoding="utf-8") + '{"doc_id": 1, "doc"\n', encoding="utf-8")

    with pytest.raises(SpecError, match=f"line {ROWS + 1} of .* is not JSON .* may be incomplete"):
        read(path)


@pytest.mark.parametrize("program", ["/bin/false", "/bin/true", "/does/not/exist"])
def test_without_the_other_process_one_reads_all(tmp_path, two_processes, monkeypatch, program):
    path = samples(tmp_path / "a.jsonl", 0)
    monkeypatch.setattr(sys, "executable", program)

    assert len(read(path).results[0].rows) == ROWS


@pytest.mark.slow
def test_what_the_other_process_wrote_before_it_failed_is_not_used(tmp_path, two_processes):
    path = samples(tmp_path / "a.jsonl", 0)
    [line] = path.read_text(encoding="utf-8").splitlines()[:1]
    # So many that it writes a part before it comes to the damaged line.
    with path.open("a", encoding="utf-8") as file:
        file.writelines(line.replace('"doc_id": 0', f'"doc_id": {k}') + "\n" for k in range(ROWS, 25_000))
        file.write("[]\n")

    with pytest.raises(SpecError, match=r"line 25001 of .* is not an object"):
        read(path)


@pytest.mark.parametrize("value", [-3.2, 12.5])
def test_a_perplexity_of_a_large_file_has_the_name_of_its_value(tmp_path, request, value):
    path = samples(tmp_path / "a.jsonl", 0, metrics=["perplexity"], perplexity=value, prompt_hash="0f" * 32)
    small = read(path).results[0]
    request.getfixturevalue("no_file_is_small")

    assert list(RowColumns.of(read(path).results[0].rows).scores) == list(RowColumns.of(small.rows).scores)


def test_filters_of_a_large_file_are_one_row(tmp_path, no_file_is_small):
    path = samples(tmp_path / "a.jsonl", 0)
    twin = samples(tmp_path / "b.jsonl", 1, filter="flexible")
    path.write_text(path.read_text(encoding="utf-8") + twin.read_text(encoding="utf-8"), encoding="utf-8")

    rows = read(path).results[0].rows

    assert len(rows) == ROWS
    assert set(rows[0].scores) == {"exact_match", "exact_match.flexible"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"doc_id": 1, "doc"', f"line {ROWS + 1} of .* is not JSON .* may be incomplete"),
        ("[1, 2]", f"line {ROWS + 1} of .* is not an object"),
        ("[" * 5000, f"line {ROWS + 1} of .* is nested more than"),
        ('{"doc": ' + "[" * 150 + "1" + "]" * 150 + "}", f"line {ROWS + 1} of .* is nested more than"),
        (json.dumps({"doc_id": 1}), "not a file of lm-eval"),
    ],
)
def test_a_damaged_line_of_a_large_file_is_refused_with_its_number(tmp_path, no_file_is_small, line, sentence):
    path = samples(tmp_path / "a.jsonl", 0)
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")

    with pytest.raises(SpecError, match=sentence):
        read(path)


def test_a_unit_twice_in_a_large_table_is_refused_as_in_a_small_one(tmp_path, no_file_is_small):
    path = tmp_path / "twice.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": ["a", "b", "a"], "score": [0.1, 0.2, 0.3]}), path)

    with pytest.raises(SpecError, match=r"line 3 of .* has sample 'a' of 'twice' again in repeat 0"):
        read(path)


def test_the_arms_and_repeats_of_a_large_table_are_those_of_a_small_one(tmp_path, request):
    path = tmp_path / "arms.parquet"
    rows = [{"id": f"q{k}", "model": arm, "repeat": n, "m": k * n} for k in range(5) for arm in "ab" for n in (1, 2)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    small = read(path)
    request.getfixturevalue("no_file_is_small")
    large = read(path)

    assert [replace(arm, rows=list(arm.rows)) for arm in large.results] == small.results
    for packed, rows in zip(large.results, small.results, strict=True):
        by_row = Packing()
        by_row.add(rows.rows)
        assert everything(packed.rows) == everything(by_row)


def repeated_table(path, arm: int, repeats: int, question: str = "{k}?"):
    rng = random.Random(arm)
    rows = [
        {
            "id": f"q{k}",
            "repeat": n,
            "group": f"g{k // 2}",
            "question": question.format(k=k, n=n),
            "score": rng.random(),
        }
        for k in range(40)
        for n in range(repeats)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("question", ["{k}?", "{k}, the {n}th time?"], ids=["equal inputs", "an input of each repeat"])
@pytest.mark.parametrize("repeats", [2, 3])
def test_large_tables_with_repeats_and_groups_are_compared_as_small_ones(tmp_path, request, question, repeats):
    first = repeated_table(tmp_path / "a.parquet", 0, repeats, question)
    second = repeated_table(tmp_path / "b.parquet", 1, 2, question)

    def compare_both():
        try:
            experiment = compare_results(first, second).experiments[0]
        except SpecError as error:
            return str(error)
        [comparison] = experiment.comparisons
        return comparison.pairs, comparison.lost, experiment.plan.groups, pytest.approx(comparison.difference)

    small = compare_both()
    request.getfixturevalue("no_run_is_small")

    assert compare_both() == small


def test_equal_rows_whose_repeats_have_other_inputs_are_not_compared_in_large_tables_either(tmp_path, request):
    files = [repeated_table(tmp_path / f"{arm}.parquet", arm, 2, "{k}, the {n}th time?") for arm in range(2)]

    def refusal():
        # A column that is chosen stays the input, although it differs between the repeats of a sample.
        with pytest.raises(SpecError, match="no sample in common with the same input") as refused:
            compare_results(*files, columns={"input": "question"})
        return str(refused.value)

    small = refusal()
    request.getfixturevalue("no_run_is_small")

    assert refusal() == small


@pytest.mark.slow
def test_large_files_are_refused_where_a_plugin_chooses_samples_which_needs_all_rows(tmp_path, no_run_is_small):
    class Chooser:
        def pytest_crucible_analyse_run(self, analysis):
            analysis.cuts.append(lambda inputs, stored: inputs)

    plugins, chooser = program_plugins(), Chooser()
    plugins.register(chooser)
    try:
        with pytest.raises(SpecError, match=r"a plugin chooses the samples that count.*: compare fewer at a time"):
            compare_results(samples(tmp_path / "a.jsonl", 0), samples(tmp_path / "b.jsonl", 1))
    finally:
        plugins.unregister(chooser)
