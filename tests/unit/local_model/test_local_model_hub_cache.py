"""The cache from which recipes load tokenizers and data without a network."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.local_model.engine import RESERVED
from pytest_crucible.local_model.server import hub_cache
from pytest_crucible.local_model.server.recipe_data import recipe_data
from pytest_crucible.local_model.tokens import Tokenizer
from pytest_crucible.records.errors import SpecError


def test_tokenizers_and_data_lie_where_the_libraries_look_for_them(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    names = ("Qwen/Qwen3-8B", "meta-llama/Llama-3.2-1B", "moonshotai/Kimi-K2.6")
    environment = hub_cache.write_hub_cache(tmp_path, names)

    assert environment["HF_HOME"] == str(tmp_path)
    assert environment["HF_HUB_OFFLINE"] == "1"
    hub = tmp_path / "hub"
    assert sorted(path.name for path in hub.iterdir()) == [
        "models--Qwen--Qwen3-8B",
        "models--crucible--tiny",
        "models--moonshotai--Kimi-K2.6",
        "models--thinkingmachineslabinc--meta-llama-3-instruct-tokenizer",
    ]
    for place in hub.iterdir():
        snapshot = place / "snapshots" / (place / "refs" / "main").read_text()
        reserved = () if place.name == "models--crucible--tiny" else RESERVED
        assert Tokenizer.load(snapshot / "tokenizer.json").reserved == reserved
        # transformers needs a configuration of a model, too.
        assert {"config.json", "tokenizer_config.json"} < {file.name for file in snapshot.iterdir()}
    place = tmp_path / "datasets/HuggingFaceH4___math-500/default/0.0.0" / hub_cache.REVISION
    info = json.loads((place / "dataset_info.json").read_text())
    assert (info["config_name"], info["splits"]["test"]["num_examples"]) == ("default", 64)
    with arrow.OSFile(str(place / "math-500-test.arrow")) as file:
        rows = arrow.ipc.open_stream(file).read_all().to_pylist()
    assert len(rows) == 64
    assert rows[0]["solution"] == f"The sum is $\\boxed{{{rows[0]['answer']}}}$."
    hub_cache.write_hub_cache(tmp_path, names)  # again, over the same files


def test_every_data_set_has_rows_and_the_same_rows_each_time():
    data = recipe_data()
    assert data == recipe_data()
    assert len({item.name for item in data}) == len(data)
    assert all(rows for item in data for rows in item.splits.values())


def test_rows_for_testing_fill_a_batch_of_supervised_recipes():
    # `chat_sl`, `dpo` and `rlhf` have batches of 256 and leave out an incomplete one: the sweep by test/nll would have NaN alone.
    splits = {item.name: item.splits for item in recipe_data()}
    assert len(splits["HuggingFaceH4/no_robots"]["test"]) >= 256
    assert len(splits["Anthropic/hh-rlhf"]["test"]) >= 256
    assert len(splits["nvidia/HelpSteer3"]["validation"]) >= 256


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    def fail(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(hub_cache.importlib, "import_module", fail)
    with pytest.raises(SpecError, match=r"pip install \"pytest-crucible\[parquet\]\""):
        hub_cache.write_hub_cache(tmp_path, ("Qwen/Qwen3-8B",))
