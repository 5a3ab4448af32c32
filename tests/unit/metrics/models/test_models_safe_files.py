"""A model's directory: nothing that it names may be imported, nothing may be unpickled, and usual models are accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.metrics.models.weights import check_model_files, digest
from pytest_crucible.records.errors import SpecError

TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}


def write(directory: Path, **files: Any) -> Path:
    for name, content in {"model__safetensors": "weights", **files}.items():
        path = directory / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return directory


def module(kind: Any, path: str = "2_More") -> dict[str, Any]:
    return {"idx": 2, "name": "2", "path": path, "type": kind}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"config__json": {"tokenizer_class": "BertTokenizer", "activation_function": "gelu_new", "hidden_act": "gelu"}},
        {"modules__json": [TRANSFORMER, POOLING], "1_Pooling___config__json": {"pooling_mode_mean_tokens": True}},
        {"modules__json": [TRANSFORMER, module("sentence_transformers.base.modules.dense.Dense")],
         "2_More___config__json": {"activation_function": "torch.nn.modules.activation.Tanh"},
         "2_More___model__safetensors": "w"},
        {"modules__json": [module("sentence_transformers.models.Router")],
         "2_More___router_config__json": {"types": {"query": "sentence_transformers.models.Transformer"}}},
        {"tokenizer__json": {"model": {"type": "evil.Class"}}, "training_args__bin": "beside weights in safetensors"},
        {"config__json": {"rope_scaling": {"type": "linear"}, "architectures": ["BertModel"]}},
    ],
)  # fmt: skip
def test_a_usual_model_is_accepted(tmp_path, files):
    check_model_files(write(tmp_path, **files))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"modules__json": [TRANSFORMER, module("local_module.Loader")]}, "has type = 'local_module.Loader'"),
        ({"modules__json": [module("os.getcwd")]}, "has type = 'os.getcwd', and loading it would run that code"),
        ({"modules__json": [module("sentence_transformers_evil.Loader")]}, "has type ="),
        ({"modules__json": [module("sentence_transformers")]}, "has type ="),
        ({"modules__json": [module("sentence_transformers.models.Loader; import x")]}, "has type ="),
        ({"modules__json": [module("sentence_transformers.models.Loader\n")]}, "has type ="),
        ({"modules__json": [module(["local_module.Loader"])]}, "has type ="),
        ({"modules__json": [{"path": ""}]}, "has type = None"),
        ({"modules__json": {"0": TRANSFORMER}}, "is not a list of modules"),
        ({"modules__json": ["sentence_transformers.models.Loader"]}, "is not a list of modules"),
        ({"modules__json": "[{"}, "cannot be read as JSON"),
        ({"modules__json": [module(TRANSFORMER["type"], "../elsewhere")]}, "is outside of it"),
        ({"modules__json": [module(TRANSFORMER["type"], "/etc")]}, "is outside of it"),
        ({"modules__json": [module("sentence_transformers.models.Router")],
          "2_More___router_config__json": {"types": {"query": "local_module.Loader"}}}, "has types = 'local_module.Loader'"),
        ({"modules__json": [module("sentence_transformers.models.Router")],
          "2_More___config__json": {"types": {"query": "loader"}}}, "has types = 'loader'"),
        ({"modules__json": [module("sentence_transformers.models.Router")],
          "2_More___query_0_Dense___config__json": {"activation_function": "local.f"}}, "has activation_function = 'local.f'"),
        ({"modules__json": [module("sentence_transformers.models.WordEmbeddings")],
          "2_More___wordembedding_config__json": {"tokenizer_class": "local.Tokenizer"}}, "has tokenizer_class ="),
        ({"config__json": {"sentence_transformers": {"activation_fn": "local.f"}}}, "has activation_fn = 'local.f'"),
        ({"config__json": {"activation_function": "torch.hub.list"}}, "has activation_function = 'torch.hub.list'"),
        ({"modules__json": [module("sentence_transformers.models.Dense")], "2_More___pytorch_model__bin": "x"},
         "pytorch_model.bin is not safetensors"),
        ({"modules__json": [module("sentence_transformers.models.Dense")], "2_More___other__PKL": "x"}, "other.PKL is not"),
    ],
)  # fmt: skip
def test_a_model_that_names_code_or_is_pickled_is_refused(tmp_path, files, message):
    with pytest.raises(SpecError) as raised:
        check_model_files(write(tmp_path, **files))

    assert message in str(raised.value)


@given(
    kind=st.text() | st.none() | st.integers() | st.from_regex(r"[a-z_]{1,20}(\.[A-Za-z_]{1,10}){0,3}", fullmatch=True)
)
def test_no_type_from_elsewhere_is_accepted(tmp_path_factory, kind):
    directory = write(tmp_path_factory.mktemp("model"), modules__json=[module(kind)])

    with pytest.raises(SpecError):
        check_model_files(directory)


def test_weights_and_configurations_of_modules_are_part_of_the_hash(tmp_path):
    first = digest(write(tmp_path, modules__json=[TRANSFORMER]))
    second = digest(write(tmp_path, **{"2_More___model__safetensors": "a"}))
    third = digest(write(tmp_path, **{"2_More___model__safetensors": "b"}))
    fourth = digest(write(tmp_path, **{"2_More___router_config__json": {}}))

    assert len({first, second, third, fourth}) == 4
