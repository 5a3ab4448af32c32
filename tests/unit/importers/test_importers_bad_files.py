"""Files that are cut short, of another version, or not results at all: one sentence each."""

from __future__ import annotations

import contextlib
import json
import math
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.importers.formats import read
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.imported import ImportedRun, ImportOptions

FILES = Path(__file__).parents[2] / "peers" / "files"


def text(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def inspect(**changes) -> str:
    return json.dumps({**json.loads(text("inspect-v1.json")), **changes})


def promptfoo_of(version: int) -> str:
    document = json.loads(text("promptfoo.json"))
    document["results"]["version"] = version
    return json.dumps(document)


def twice() -> str:
    samples = json.loads(text("inspect-v1.json"))["samples"]
    return inspect(samples=[*samples, samples[3]])


def of_epoch(number: int) -> str:
    samples = json.loads(text("inspect-v1.json"))["samples"]
    return inspect(samples=[{**samples[0], "epoch": number}, *samples[1:]])


def only_the_spec() -> str:
    return text("openai-evals-v1.jsonl").splitlines()[0]


def beyond_floats() -> str:
    fields = {"doc_id": 1, "doc": {}, "resps": [["4"]], "filtered_resps": ["4"], "metrics": ["exact"], "exact": 10**400}
    return json.dumps(fields) + "\n"


BAD = {
    "huge.jsonl": (beyond_floats, r"is not a file of lm-eval, .* \(OverflowError: int too large to convert to float\)"),
    "cut.json": (
        lambda: text("inspect-v1.json")[:9000],
        "cut.json is neither JSON nor JSON lines .*: it may be incomplete: write it again",
    ),
    "cut.jsonl": (
        lambda: text("openai-evals-v1.jsonl")[:3000],
        "line 14 of .* is not JSON .*: the file may be incomplete: write it again",
    ),
    "empty.json": (lambda: " \n", "empty.json is empty: there is nothing to import"),
    "new.json": (lambda: inspect(version=9), "is an Inspect log of format 9, and format 2 can be read: convert it"),
    "old.json": (
        lambda: promptfoo_of(2),
        "has results of promptfoo's format 2, and format 3 can be read: export it again",
    ),
    "totals.json": (
        lambda: inspect(samples=None, reductions=None),
        "has only aggregate scores; scores of single samples are needed: log the samples too",
    ),
    "results_x.json": (lambda: "", "has totals only: run lm_eval with --log_samples"),
    "spec.jsonl": (only_the_spec, "has no events of single samples, only its specification and report"),
    "twice.json": (
        twice,
        r"has sample 'sum-\d+' of 'mockllm/v1' twice in one repeat \(1 sample repeated\): ids must be unique",
    ),
    "other.json": (lambda: '{"a": 1}', r"was not recognised: give a file of inspect, "),
    "rows.json": (
        lambda: json.dumps({**json.loads(text("mlflow.json")), "data": [3]}),
        r"was not recognised: give a file of inspect, ",
    ),
    "half.json": (
        lambda: inspect(eval={**json.loads(text("inspect-v1.json"))["eval"], "task": "\ud83d"}),
        r"is not a file of inspect, .* \(TypeError: '\\ud83d' is not a name\)",
    ),
    "epoch.json": (
        lambda: of_epoch(0),
        r"is not a file of inspect, .* \(TypeError: -1 is not the number of a repeat\)",
    ),
    "broken.json": (
        lambda: inspect(eval={"model": "m"}),
        r"is not a file of inspect, or of an unknown version .* \(KeyError: 'task'\)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_an_error_in_one_sentence(name, tmp_path, monkeypatch):
    content, sentence = BAD[name]
    path = tmp_path / name
    if name == "results_x.json":
        (results,) = FILES.glob("lm-eval-v1/results_*")
        path.write_bytes(results.read_bytes())
    else:
        path.write_text(content(), encoding="utf-8")

    with pytest.raises(SpecError, match=sentence) as raised:
        read(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("gone.eval", {}, "'.*gone.eval' is not a file: give the path of a log, or of a table of results"),
        ("inspect-v1.eval", {"harness": "inspekt"}, "harness 'inspekt' is not known: did you mean 'inspect'"),
        (
            "inspect-v1.eval",
            {"columns": {"sample": "id"}},
            "--column applies to tables; inspect files name their own fields",
        ),
        ("inspect-v1.json", {"harness": "deepeval"}, "inspect-v1.json has only aggregate scores"),
        (
            "pytest-evals.csv",
            {"columns": {"arm": "modl"}},
            "has no parameter 'modl' to tell arms apart: there are arm, k",
        ),
    ],
)
def test_wrong_options_are_errors(name, options, sentence):
    with pytest.raises(SpecError, match=sentence):
        read(FILES / name, **options)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        (
            "r.csv",
            'question,[openai:v2] {{question}},[openai:v1] {{question}}\n1 + 1,[PASS] 2,"[FAIL] (0.00) 3"\n',
            "CSV",
        ),
        ("r.yaml", "evalId: eval-1\nresults:\n  version: 3\n", "YAML"),
        ("r.html", "<!DOCTYPE html><html><head><title>Promptfoo report</title></head></html>", "HTML"),
    ],
)
def test_other_outputs_of_promptfoo_are_refused_with_the_way_out(tmp_path, name, content, kind):
    path = tmp_path / name
    path.write_text(content)

    with pytest.raises(
        SpecError, match=f"{name} is promptfoo's {kind}: export JSON with `promptfoo export eval latest -o"
    ):
        read(path)


class TestArchives:
    def test_a_truncated_archive_is_an_error(self, tmp_path):
        path = tmp_path / "cut.eval"
        path.write_bytes((FILES / "inspect-v1.eval").read_bytes()[:9000])

        with pytest.raises(SpecError, match=r"cut.eval is a damaged archive .*: copy it again after its run has ended"):
            read(path)

    def test_a_damaged_sample_is_an_error(self, tmp_path):
        whole = (FILES / "inspect-v1.eval").read_bytes()
        path = tmp_path / "damaged.eval"
        path.write_bytes(whole[:1500] + b"\0" * 200 + whole[1700:])

        with pytest.raises(SpecError, match=r"damaged.eval: \S+ in it cannot be read \(.*\): write the log again"):
            read(path)

    def test_the_samples_of_a_killed_run_are_read(self, tmp_path):
        """Inspect leaves no header then, but a journal."""
        document = json.loads(text("inspect-v1.json"))
        path = tmp_path / "killed.eval"
        with zipfile.ZipFile(path, "w") as archive:
            start = {"version": 2, "eval": document["eval"], "plan": document["plan"]}
            archive.writestr("_journal/start.json", json.dumps(start))
            archive.writestr("samples/sum-1_epoch_1.json", json.dumps(document["samples"][0]))
        imported = read(path)

        (results,) = imported.results
        assert (len(results.rows), len(results.planned), results.finished) == (1, 12, False)
        assert imported.notes == ("the run of killed.eval ended as 'started'",)


JUNK = st.sampled_from([None, True, 0, -1, math.nan, "", "x", [], {}, [1], {"a": 1}, "\0", 10**30])


@given(st.data(), st.sampled_from(["inspect-v1.json", "deepeval-v2.json", "promptfoo.json", "pytest-evals.json"]))
def test_any_value_in_a_file_is_read_or_an_error(tmp_path_factory, data, name):
    """One value in it, anywhere, is another one."""
    document = json.loads(text(name))
    at, key = document, data.draw(st.sampled_from(list(document)))
    while isinstance(at[key], dict | list) and at[key] and data.draw(st.integers(0, 5)):
        at, key = (
            at[key],
            data.draw(st.sampled_from(list(at[key]) if isinstance(at[key], dict) else range(len(at[key])))),
        )
    at[key] = data.draw(JUNK)
    path = tmp_path_factory.mktemp("junk") / "results.json"
    path.write_text(json.dumps(document), encoding="utf-8")

    with contextlib.suppress(SpecError):
        files = [read(path)]
        assert all(row.repeat >= 0 for results in files[0].results for row in results.rows)
        ImportedRun.of(files, ImportOptions())
