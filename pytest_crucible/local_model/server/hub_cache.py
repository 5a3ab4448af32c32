"""A cache of Hugging Face's hub, so that recipes load tokenizers and data without a network.

    HF_HOME/hub/models--ORG--NAME/refs/main, snapshots/REVISION/tokenizer.json, ...
    HF_HOME/datasets/ORG___NAME/CONFIG/0.0.0/REVISION/dataset_info.json, NAME-SPLIT.arrow

With HF_HUB_OFFLINE=1 `transformers` and `datasets` read nothing else. The data are not the data sets whose names they have: their
texts are sums, so that a small model reads them within its context. The same rows each time.
"""

from __future__ import annotations

import importlib
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pytest_crucible.local_model.engine import Engine, make_stand_in
from pytest_crucible.local_model.tokens import Tokenizer
from pytest_crucible.records.errors import SpecError

Rows: TypeAlias = Sequence[Mapping[str, Any]]

_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gina", "Hal")
_THINGS = ("apples", "books", "coins", "eggs", "keys", "pens", "stamps", "tickets")


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set on a hub: its name, the configuration that recipes load, and the rows of each split."""

    name: str
    config: str
    splits: Mapping[str, Rows]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum in words, its answer, and a wrong one."""

    question: str
    answer: int
    wrong: int

    @property
    def messages(self) -> list[dict[str, str]]:
        """A conversation: the sum as the user's question, and the assistant's right answer."""
        return [_message("user", self.question), _message("assistant", _reply(self.answer))]


def make_sums(count: int, seed: int) -> list[Sum]:
    """Return sums of small numbers.

    >>> make_sums(1, 0)[0].question
    'Gina has 2 stamps and finds 6 more. How many stamps does Gina have?'
    """
    draw = random.Random(seed)
    sums = []
    for _ in range(count):
        name, thing = draw.choice(_NAMES), draw.choice(_THINGS)
        first, second = draw.randint(2, 9), draw.randint(2, 9)
        question = f"{name} has {first} {thing} and finds {second} more. How many {thing} does {name} have?"
        sums.append(Sum(question, first + second, first + second + draw.randint(1, 5)))
    return sums


def recipe_data() -> list[DataSet]:
    """Return all data sets, in the schemas that recipes of tinker-cookbook 0.5 and 0.6 read."""
    train, test, large = make_sums(512, 0), make_sums(64, 1), make_sums(1536, 2)
    return [
        _data_set("HuggingFaceH4/no_robots", "default", "instruction", train=train, test=test),
        # The recipes keep 1,024 rows of these for testing.
        _data_set("allenai/tulu-3-sft-mixture", "default", "instruction", train=large),
        _data_set("allenai/llama-3.1-tulu-3-8b-preference-mixture", "default", "preference", train=large),
        _data_set("argilla/ultrafeedback-binarized-preferences", "default", "feedback", train=large),
        _data_set("openai/gsm8k", "main", "gsm8k", train=train, test=test),
        _data_set("HuggingFaceH4/MATH-500", "default", "problem", test=test),
        _data_set("EleutherAI/hendrycks_math", "default", "problem", train=train, test=test),
        _data_set("POLARIS-Project/Polaris-Dataset-53K", "default", "problem", train=train),
        _data_set("zwhe99/DeepMath-103K", "default", "deep_math", train=train),
        _data_set("Anthropic/hh-rlhf", "default", "dialogue", train=train, test=test),
        _data_set("nvidia/HelpSteer3", "preference", "comparison", train=train, validation=test),
    ]


def _data_set(name: str, config: str, form: str, **splits: list[Sum]) -> DataSet:
    return DataSet(name, config, {split: [_ROWS[form](item) for item in sums] for split, sums in splits.items()})


_ROWS: Mapping[str, Callable[[Sum], dict[str, Any]]] = {
    "instruction": lambda item: {"prompt": item.question, "messages": item.messages, "category": "Sums"},
    "preference": lambda item: {
        "prompt": item.question,
        "chosen": item.messages,
        "rejected": [item.messages[0], _message("assistant", _reply(item.wrong))],
    },
    "feedback": lambda item: {
        "instruction": item.question,
        "chosen_response": _reply(item.answer),
        "rejected_response": _reply(item.wrong),
    },
    "gsm8k": lambda item: {"question": item.question, "answer": f"It is a sum.\n#### {item.answer}"},
    "problem": lambda item: {
        "problem": item.question,
        "solution": f"The sum is $\\boxed{{{item.answer}}}$.",
        "answer": str(item.answer),
        "subject": "Algebra",
    },
    "deep_math": lambda item: {"question": item.question, "final_answer": str(item.answer)},
    "dialogue": lambda item: {
        name: f"\n\nHuman: {item.question}\n\nAssistant: {_reply(number)}"
        for name, number in (("chosen", item.answer), ("rejected", item.wrong))
    },
    "comparison": lambda item: {
        "context": item.messages[:1],
        "response1": _reply(item.answer),
        "response2": _reply(item.wrong),
        "overall_preference": -2,
    },
}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _reply(number: int) -> str:
    return f"The answer is {number}."


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
    """Write the tokenizers of the stand-ins, and all data sets; return the variables with which recipes find them.

    Raises SpecError without pyarrow.
    """
    tokenizer = make_stand_in(Engine.load(base) if base else Engine.load_packaged()).tokenizer
    for name in stand_ins:
        write_tokenizer(home, LLAMA_TOKENIZER if name.startswith(LLAMA) else name, tokenizer)
    for data in recipe_data():
        write_data_set(home, data)
    return {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


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
