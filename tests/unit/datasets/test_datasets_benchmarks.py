"""Public datasets by name, read from their official files and from the Hugging Face Hub."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from pytest_crucible import DatasetError, Reply, Sample
from pytest_crucible.builtin import find_release, named_datasets
from pytest_crucible.commands.listings import catalogue
from pytest_crucible.datasets import load_rows
from pytest_crucible.metrics.choice import choice_match
from pytest_crucible.metrics.numbers import final_number_matches

DATA = os.environ.get("CRUCIBLE_DATA", "")
needs_data = pytest.mark.skipif(
    not DATA, reason="CRUCIBLE_DATA is not set: it names a directory with the official files"
)
HERE = ("abstract_algebra", "anatomy", "college_computer_science", "computer_security", "formal_logic", "global_facts",
        "high_school_statistics", "machine_learning", "us_foreign_policy", "world_religions")  # fmt: skip


def load_named(name: str) -> list[Sample]:
    release = find_release(name)
    assert release is not None
    return list(load_rows(release, name=name))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory."""
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))
    return tmp_path


@needs_data
@pytest.mark.parametrize("name", ["gsm8k", "humaneval", "scifact-dev", "scifact-train"])
def test_a_dataset_has_its_number_of_samples_and_the_official_checksum(name):
    release = find_release(name)

    assert len(load_named(name)) == release.samples
    assert release.origin().official is True


@needs_data
def test_gsm8k_solutions_are_judged_as_published():
    expected = {sample.input: sample for sample in load_named("gsm8k")}
    agreed = judged = 0
    with gzip.open(Path(DATA) / "gsm8k" / "example_model_solutions.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            sample = expected[row["question"]]
            for solution in (value for value in row.values() if isinstance(value, dict)):
                judged += 1
                agreed += final_number_matches(Reply(text=solution["solution"]), sample) is solution["is_correct"]

    assert (agreed, judged) == (5276, 5276)


@needs_data
def test_every_row_of_mmlu_is_a_question():
    samples = [sample for subject in HERE for sample in load_named(f"mmlu:{subject}")]

    assert len(samples) == 1260
    assert len({sample.id for sample in samples}) == 1260
    assert all(choice_match(Reply(text=f"Answer: {sample.expected}"), sample) for sample in samples)
    assert all(len(sample.metadata["choices"]) == 4 for sample in samples)
    assert [len(load_named(f"mmlu-dev:{subject}")) for subject in HERE] == [5] * 10


@needs_data
def test_fever_loads(data):
    (data / "fever").mkdir()
    shutil.copy(Path(DATA) / "fever" / "paper_dev_first1000.jsonl", data / "fever" / "paper_dev.jsonl")
    samples = load_named("fever")

    assert len(samples) == 1000
    assert Counter(sample.expected for sample in samples) == {"REFUTES": 339, "SUPPORTS": 331, "NOT ENOUGH INFO": 330}
    assert all(sample.metadata["evidence"] for sample in samples if sample.expected != "NOT ENOUGH INFO")
    assert find_release("fever").origin().official is False  # these are its first lines


def test_the_origin_has_the_checksum_of_the_file(data):
    (data / "gsm8k").mkdir()
    content = b'{"question": "1 + 1?", "answer": "#### 2"}\n'
    (data / "gsm8k" / "test.jsonl.gz").write_bytes(gzip.compress(content))
    origin = find_release("gsm8k").origin()

    assert origin.files == {"gsm8k/test.jsonl": hashlib.sha256(content).hexdigest()}
    assert origin.official is False
    assert origin.licence == "MIT"


@pytest.mark.parametrize(
    ("name", "file", "row", "message"),
    [
        ("fever", "fever/paper_dev.jsonl", '{"id": 1, "claim": "c", "label": "MAYBE", "evidence": []}', "has the label 'MAYBE'"),
        ("fever", "fever/paper_dev.jsonl", '{"id": 1, "label": "REFUTES", "evidence": []}', "has no 'claim'"),
        *(
            ("mmlu:virology", "mmlu/test/virology_test.csv", row, "is not an MMLU question")
            for row in ("q,1,2,3,A", "q,1,2,3,4,E", "q,1,2,3,4,5,A")
        ),
    ],
)  # fmt: skip
def test_a_wrong_row_is_an_error(data, name, file, row, message):
    (data / file).parent.mkdir(parents=True)
    (data / file).write_text(f"{row}\n")

    with pytest.raises(DatasetError, match=rf"line 1 of .*{file} {message}"):
        load_named(name)


def test_a_misspelt_subject_has_a_suggestion():
    with pytest.raises(DatasetError, match=r"MMLU has no subject .astro.: did you mean .astronomy.\?"):
        find_release("mmlu:astro")


def test_every_dataset_has_a_description():
    assert len({file.name for file in find_release("mmlu").files}) == 57
    assert find_release("mmlu:virology").samples is None
    assert [find_release(name) for name in ("gsm8k:algebra", "humaneval:x", "sums.jsonl")] == [None] * 3
    assert "hf" not in [row["name"] for row in catalogue()]
    for name in named_datasets():
        release = find_release(name)
        assert release.name == name
        assert release.says
        assert release.licence
        assert release.source.startswith("https://")
        assert all(len(file.sha256) == 64 for file in release.files)


datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets are not installed")

TEXTS = [("a film to see twice", 1), ("two hours lost", 0), ("not rated", -1)]


class Reviews(datasets.GeneratorBasedBuilder):
    """Writes the cache as a download would; the hub is not needed for it."""

    BUILDER_CONFIGS = tuple(datasets.BuilderConfig(name=name) for name in ("films", "books"))

    def _info(self):
        label = datasets.ClassLabel(names=["bad", "good"])
        return datasets.DatasetInfo(features=datasets.Features({"text": datasets.Value("string"), "label": label}))

    def _split_generators(self, dl_manager):
        return [datasets.SplitGenerator(name="validation")]

    def _generate_examples(self):
        yield from enumerate({"text": f"{self.config.name}: {text}", "label": label} for text, label in TEXTS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The cache of a machine that is not connected, as HF_HUB_OFFLINE=1 and HF_DATASETS_CACHE would set it."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    return tmp_path


@pytest.fixture
def cached(cache):
    for configuration in ("films", "books"):
        builder = Reviews(
            cache_dir=cache, repo_id="acme/reviews", dataset_name="reviews", config_name=configuration, hash="0" * 40
        )
        builder.download_and_prepare()


def load(name: str) -> list[Sample]:
    return list(load_rows(find_release(name), name=name, fields={"input": "text", "expected": "label"}))


def complaint(name: str) -> str:
    with pytest.raises(DatasetError) as caught:
        load(name)
    return str(caught.value)


@pytest.mark.usefixtures("cached")
def test_a_cached_dataset_is_read_with_the_names_of_its_classes():
    samples = load("hf://acme/reviews/films:validation")

    assert [sample.input for sample in samples] == [f"films: {text}" for text, _ in TEXTS]
    assert [sample.expected for sample in samples] == ["good", "bad", None]
    assert samples[0].id == "hf://acme/reviews/films:validation-1"
    assert [sample.input for sample in load("hf://acme/reviews/books:validation[1:2]")] == ["books: two hours lost"]
    origin = find_release("hf://acme/reviews/films:validation").origin()
    assert (origin.source, origin.official) == ("https://huggingface.co/datasets/acme/reviews", None)


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hf://acme/reviews/films:test", "Unknown split \"test\". Should be one of ['validation']."),
        ("hf://acme/reviews/plays:test", "Couldn't find cache for acme/reviews for config 'plays'"),
        ("hf://acme/reviews:test", "There are multiple 'acme/reviews' configurations in the cache: "),
    ],
    ids=["split", "configuration", "several-configurations"],
)
def test_an_unknown_split_is_an_error(name, reason):
    sentence = complaint(name)

    assert sentence.startswith(f"dataset {name!r} cannot be loaded ({reason}")
    assert sentence.endswith("): check the configuration and the split")


def test_an_unreachable_dataset_is_an_error():
    name = "hf://acme/reviews:test"

    assert complaint(name) == (
        f"dataset {name!r} is neither reachable on the Hugging Face Hub nor in the local cache "
        "(Couldn't reach 'acme/reviews' on the Hub (OfflineModeIsEnabled)): "
        "check the name and the connection, or load it once while connected"
    )


@pytest.mark.parametrize("name", ["hf://reviews:test", "hf://acme/reviews", "hf://a/b/c/d:test", "hf://"])
def test_an_incomplete_name_is_an_error(name):
    assert complaint(name).startswith(f"dataset {name!r} is not valid: write hf://ORG/NAME:SPLIT, or ")


def test_a_missing_datasets_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)

    assert complaint("hf://acme/reviews:test").endswith('pip install "pytest-crucible[hf]"')
