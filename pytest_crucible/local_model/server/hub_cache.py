"""A cache of Hugging Face's hub, so that recipes load tokenizers and data without a network.

    HF_HOME/hub/models--ORG--NAME/refs/main, snapshots/REVISION/tokenizer.json, ...
    HF_HOME/datasets/ORG___NAME/CONFIG/0.0.0/REVISION/dataset_info.json, NAME-SPLIT.arrow

With HF_HUB_OFFLINE=1 `transformers` and `datasets` read nothing else.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.engine import Engine, make_stand_in
from pytest_crucible.local_model.server.recipe_data import DataSet, recipe_data
from pytest_crucible.local_model.tokens import Tokenizer
from pytest_crucible.records.errors import SpecError

# A revision on a hub is a hash of 40 digits; these files have none.
REVISION = "0" * 40
LLAMA, KIMI = "meta-llama/Llama-3", "moonshotai/Kimi-K2"
# The cookbook loads one tokenizer for all of Llama 3, because the models' own need permission.
LLAMA_TOKENIZER = "thinkingmachineslabinc/meta-llama-3-instruct-tokenizer"
# The cookbook loads the files of Kimi K2 at fixed revisions (`tokenizer_utils`, cookbook 0.6.1), through a class of their own.
KIMI_REVISIONS = (
    "a51ccc050d73dab088bf7b0e2dd9b30ae85a4e55",
    "2426b45b6af0da48d0dcce71bbce6225e5c73adc",
    "b5aabbfb20227ed42becbf5541dbffd213942c58",
)
_KIMI_CLASS = """from transformers import PreTrainedTokenizerFast


class TikTokenTokenizer(PreTrainedTokenizerFast):
    pass
"""
_NOTICE = "Written by pytest-crucible: generated sums, not the data set of this name.\n"


def write_hub_cache(home: Path, stand_ins: Iterable[str], base: Path | None = None) -> dict[str, str]:
    """Write the tokenizers of the server's models, and all data sets; return the variables with which recipes find them.

    Raises SpecError without pyarrow.
    """
    engine = Engine.load(base) if base else Engine.load_packaged()
    # The SDK asks a hub for the tokenizer of this name, too.
    write_tokenizer(home, BASE_MODEL, engine.tokenizer)
    tokenizer = make_stand_in(engine).tokenizer
    for name in stand_ins:
        write_tokenizer(home, LLAMA_TOKENIZER if name.startswith(LLAMA) else name, tokenizer)
    for data in recipe_data():
        write_data_set(home, data)
    # READMEs of recipes log to Weights & Biases.
    return {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "offline"}


def write_tokenizer(home: Path, name: str, tokenizer: Tokenizer) -> None:
    """Write a tokenizer under a model's name."""
    place = home / "hub" / f"models--{name.replace('/', '--')}"
    is_kimi = name.startswith(KIMI)
    for revision in (REVISION, *(KIMI_REVISIONS if is_kimi else ())):
        snapshot = place / "snapshots" / revision
        tokenizer.save_for_transformers(snapshot)
        if is_kimi:
            (snapshot / "tokenization_kimi.py").write_text(_KIMI_CLASS, encoding="utf-8")
    (place / "refs").mkdir(exist_ok=True)
    (place / "refs" / "main").write_text(REVISION, encoding="utf-8")


def write_data_set(home: Path, data: DataSet) -> None:
    """Write a data set as `datasets` caches it. Raises SpecError without pyarrow."""
    owner, name = data.name.split("/")
    place = home / "datasets" / f"{owner}___{snake_case(name)}" / data.config / "0.0.0" / REVISION
    place.mkdir(parents=True, exist_ok=True)
    for split, rows in data.splits.items():
        _write_arrow(place / f"{snake_case(name)}-{split}.arrow", rows)
    splits = {
        split: {"name": split, "num_bytes": 0, "num_examples": len(rows), "dataset_name": snake_case(name)}
        for split, rows in data.splits.items()
    }
    info = {"description": _NOTICE, "config_name": data.config, "dataset_name": snake_case(name), "splits": splits}
    (place / "dataset_info.json").write_text(json.dumps(info) + "\n", encoding="utf-8")


def snake_case(name: str) -> str:
    """Return a name as `datasets` writes it in paths (`datasets.naming.camelcase_to_snakecase`).

    >>> snake_case("MATH-500"), snake_case("DeepMath-103K"), snake_case("HelpSteer3")
    ('math-500', 'deep_math-103_k', 'help_steer3')
    """
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z\d])([A-Z])", r"\1_\2", name).lower()


def _write_arrow(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    try:
        arrow = importlib.import_module("pyarrow")
    except ImportError as error:
        raise SpecError(
            f'--prepare writes data with pyarrow: pip install "pytest-crucible[parquet]" ({error})'
        ) from None
    table = arrow.Table.from_pylist(list(rows))
    with arrow.OSFile(str(file), "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
