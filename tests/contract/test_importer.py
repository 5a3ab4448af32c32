"""The contract of importers: two files that a harness wrote are recognised, paired and compared, and damage is one sentence."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.importers.formats import READERS, read, read_results
from pytest_crucible.importers.results import Source
from pytest_crucible.importers.sources import open_source
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.imported import ImportedRun, ImportOptions, group_tasks

FILES = Path(__file__).parents[1] / "peers" / "files"
# Harness -> candidate and baseline, in one file or in two, and a metric of them.
PAIRS = {
    "inspect": (("inspect-v2.eval", "inspect-v1.eval"), "match"),
    "deepeval": (("deepeval-v2.json", "deepeval-v1.json"), "Exact_Match"),
    "promptfoo": (("promptfoo.json",), "pass"),
    "openai-evals": (("openai-evals-v2.jsonl", "openai-evals-v1.jsonl"), "match"),
    "lm-eval": (("lm-eval-v2/results_*", "lm-eval-v1/results_*"), "acc"),
    "pytest-evals": (("pytest-evals.json",), "correct"),
    "pytest-harvest": (("pytest-harvest.csv",), "correct"),
    "pydantic-evals": (("pydantic-evals-v2.json", "pydantic-evals-v1.json"), "EqualsExpected"),
    "mlflow": (("mlflow-genai-v2.parquet", "mlflow-genai-v1.parquet"), "exact_match"),
    "helm": (("helm-v2/per_instance_stats.json", "helm-v1/per_instance_stats.json"), "exact_match"),
    "ragas": (("ragas-v2.jsonl", "ragas-v1.jsonl"), "exact_match"),
    "evalplus": (("evalplus-v2_eval_results.json", "evalplus-v1_eval_results.json"), "plus"),
    "langsmith": (("langsmith-v2.csv", "langsmith-v1.csv"), "exact_match"),
    "phoenix": (("phoenix-v2.json", "phoenix-v1.json"), "exact_match"),
    "braintrust": (("braintrust-v2.json", "braintrust-v1.json"), "exact_match"),
    "opencompass": (("opencompass/results/v2/sums.json", "opencompass/results/v1/sums.json"), "correct"),
    "garak": (("garak-v2.report.jsonl", "garak-v1.report.jsonl"), "always.Random"),
    "swe-bench": (("swe-bench-v2.json", "swe-bench-v1.json"), "resolved"),
    "bfcl": (("bfcl/v2/score/*/*/*", "bfcl/v1/score/*/*/*"), "valid"),
    "verifiers": (("verifiers/v2/traces.jsonl", "verifiers/v1/traces.jsonl"), "right"),
    "verifiers-results": (("verifiers-results/v2/results.jsonl", "verifiers-results/v1/results.jsonl"), "reward"),
    "lighteval": (("lighteval/details/sums/v2/*/*", "lighteval/details/sums/v1/*/*"), "em"),
    "tau2": (("tau2-v2.json", "tau2-v1.json"), "reward"),
    "opik": (("opik-v2.json", "opik-v1.json"), "right"),
    "opik-results": (("opik-results-v2.json", "opik-results-v1.json"), "right"),
    "weave": (("weave-v2.jsonl", "weave-v1.jsonl"), "match.right"),
    "alpaca-eval": (("alpaca-eval-v2.json", "alpaca-eval-v1.json"), "win"),
    "every-eval-ever": (("eee-lm-eval-v2_samples.jsonl", "eee-lm-eval-v1_samples.jsonl"), "acc"),
    "table": (("mlflow.json",), "exact_match"),
}
ONE_FILE = [(harness, pattern) for harness, (patterns, _) in PAIRS.items() for pattern in patterns]
JSON = [*((harness, name) for harness, name in ONE_FILE if name.endswith(".json")), ("mlflow", "mlflow-genai-v2.json")]
JUNK = st.sampled_from([None, True, 0, -1, math.nan, "", "x", [], {}, [1], {"a": 1}, "\0", 10**30])


def data_file(pattern: str) -> Path:
    (path,) = FILES.glob(pattern)
    return path


def test_every_reader_is_held_to_the_contract():
    assert set(PAIRS) == set(READERS)


@pytest.mark.parametrize(("harness", "pattern"), ONE_FILE)
def test_no_other_reader_takes_the_file(harness, pattern):
    """The order in which readers are tried does not matter. Tables take any rows, and come last."""
    source = open_source(data_file(pattern))

    assert {name for name, reader in READERS.items() if reader.recognises(source)} - {"table"} == {harness} - {"table"}


@pytest.mark.parametrize("harness", PAIRS)
def test_the_samples_of_two_files_are_paired_and_compared(harness):
    patterns, metric = PAIRS[harness]
    files = [read(data_file(pattern)) for pattern in patterns]
    run = ImportedRun.of(files, ImportOptions())
    (comparison,) = [
        comparison
        for comparison in run.evaluate_unstored().experiments[0].comparisons
        if comparison.contrast.metric == metric
    ]

    assert all(len(task.arms) == 2 and len(task.samples) >= 7 for task in group_tasks(files))
    # A sample of which a repeat is lost is still compared.
    assert comparison.pairs <= len(run.tasks[0].samples) <= comparison.pairs + comparison.lost
    assert comparison.pairs >= 7


@pytest.mark.parametrize(("harness", "pattern"), ONE_FILE)
def test_lost_samples_have_no_score(harness, pattern):
    rows = [row for results in read(data_file(pattern)).results for row in results.rows]

    assert rows
    for row in rows:
        assert not set(row.scores) & set(row.lost)
        assert all(value is None or isinstance(value, str) or math.isfinite(value) for value in row.scores.values())


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
@pytest.mark.parametrize(("harness", "pattern"), [entry for entry in ONE_FILE if not entry[1].endswith(".csv")])
def test_a_truncated_file_is_refused_in_one_sentence(harness, pattern, share, tmp_path):
    """But for CSV, whose first rows are a table, too."""
    original = data_file(pattern)
    folder = shutil.copytree(original.parent, tmp_path / "cut") if original.parent != FILES else tmp_path
    path = folder / original.name
    path.write_bytes(original.read_bytes()[: int(original.stat().st_size * share)])

    with pytest.raises(SpecError) as raised:
        read(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@settings(max_examples=choose_examples(60), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(("harness", "pattern"), JSON)
def test_any_changed_value_is_read_or_refused_in_a_sentence(harness, pattern, data, tmp_path_factory):
    document = json.loads(data_file(pattern).read_text(encoding="utf-8"))
    at, key = document, data.draw(st.sampled_from(keys(document)))
    while isinstance(at[key], dict | list) and at[key] and data.draw(st.integers(0, 5)):
        at, key = at[key], data.draw(st.sampled_from(keys(at[key])))
    at[key] = data.draw(JUNK)
    path = tmp_path_factory.mktemp("junk") / "results.json"
    path.write_text(json.dumps(document), encoding="utf-8")

    with contextlib.suppress(SpecError):
        ImportedRun.of([read(path)], ImportOptions())


NAMES = [
    *("user_input", "response", "eval", "version", "hash", "test_cases", "evalId", "results", "spec", "name", "cases"),
    *("failures", "higher_is_better", "instance_id", "train_trial_index", "stats", "example_id", "execution_time"),
    *(
        "trace_id",
        "trace",
        "state",
        "doc_id",
        "resps",
        "filtered_resps",
        "promptIdx",
        "testIdx",
        "testCase",
        "provider",
    ),
    *("status", "duration_ms", "test_id", "params", "fixtures", "columns", "data"),
]
ODD = [
    None,
    True,
    1,
    math.nan,
    "x",
    [],
    {},
    [None],
    [[]],
    [{}],
    [1, "x"],
    {"a": None},
    {"a": []},
    {"a": [None]},
    {"a": [[[]]]},
]


@pytest.mark.parametrize("harness", READERS)
def test_a_reader_looks_at_any_content_without_raising(harness):
    """The fields of all formats with odd values, and rows of CSV with too many cells, whose key is None."""
    documents = [*ODD, *({**dict.fromkeys(NAMES, value), "name": "x"} for value in ODD)]
    lists = [[document] for document in documents]
    rows = [[(1, {**dict.fromkeys(NAMES, value), None: "x"})] for value in ODD]
    sources = [Source(path=Path("x"), sha256="", document=document) for document in [*documents, *lists]]
    for source in [*sources, *(Source(path=Path("x"), sha256="", rows=of_one) for of_one in [[], *rows])]:
        assert READERS[harness].recognises(source) in (True, False)


class Broken:
    """A reader with an error in it."""

    def recognises(self, source: Source) -> bool:
        return source.document["no such field"]

    def read(self, source: Source, columns):
        raise NotImplementedError


BROKEN = r"the reader of 'broken' failed to look at .*results.json \(KeyError: 'no such field'\): .*--as"


def test_a_broken_reader_is_named_and_not_passed_over(tmp_path):
    """Passed over, the next reader would take its file, and what is wrong would stay hidden."""
    shutil.copy(data_file("promptfoo.json"), tmp_path / "results.json")
    readers = {"broken": Broken(), **READERS}

    with pytest.raises(SpecError, match=BROKEN):
        read(tmp_path / "results.json", readers=readers)
    with pytest.raises(SpecError, match=BROKEN):
        read_results(tmp_path, readers=readers)
    assert read(tmp_path / "results.json", "promptfoo", readers=readers).harness == "promptfoo"


def keys(of: dict | list) -> list:
    return list(of) if isinstance(of, dict) else list(range(len(of)))
