"""Datasets of the Hugging Face Hub from the cache of the real `datasets` package, which is offline here."""

from __future__ import annotations

import sys

import pytest

from pytest_crucible import DatasetError, Sample
from pytest_crucible.builtin import find_release
from pytest_crucible.commands.listings import catalogue
from pytest_crucible.datasets import load_rows

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


@pytest.mark.usefixtures("cached")
def test_a_split_may_be_sliced():
    assert [sample.input for sample in load("hf://acme/reviews/books:validation[1:2]")] == ["books: two hours lost"]


@pytest.mark.usefixtures("cached")
def test_the_origin_is_the_page_of_the_dataset():
    origin = find_release("hf://acme/reviews/films:validation").origin()

    assert origin.source == "https://huggingface.co/datasets/acme/reviews"
    assert origin.official is None


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
def test_a_part_that_the_dataset_does_not_have(name, reason):
    sentence = complaint(name)

    assert sentence.startswith(f"dataset {name!r} cannot be loaded ({reason}")
    assert sentence.endswith("): check the configuration and the split")


def test_a_dataset_that_is_neither_reachable_nor_cached():
    name = "hf://acme/reviews:test"

    assert complaint(name) == (
        f"dataset {name!r} is neither reachable on the Hugging Face Hub nor in the local cache "
        "(Couldn't reach 'acme/reviews' on the Hub (OfflineModeIsEnabled)): "
        "check the name and the connection, or load it once while connected"
    )


@pytest.mark.parametrize("name", ["hf://reviews:test", "hf://acme/reviews", "hf://a/b/c/d:test", "hf://"])
def test_a_name_without_one_of_its_parts(name):
    assert complaint(name).startswith(f"dataset {name!r} is not valid: write hf://ORG/NAME:SPLIT, or ")


def test_the_extra_is_named_where_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)

    assert complaint("hf://acme/reviews:test").endswith('pip install "pytest-crucible[hf]"')


def test_the_catalogue_lists_only_datasets_of_this_package():
    assert "hf" not in [row["name"] for row in catalogue()]
