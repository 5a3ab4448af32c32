"""Small generated data in the formats of the data sets that tinker-cookbook's recipes load.

They are not the data sets whose names they have: their texts are sums, so that a small model reads them within its context.
The same rows each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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
        return [_message("user", self.question), _message("assistant", f"The answer is {self.answer}.")]


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
        _data_set("HuggingFaceH4/no_robots", "default", _instruction, train=train, test=test),
        # The recipes keep 1,024 rows of these for testing.
        _data_set("allenai/tulu-3-sft-mixture", "default", _instruction, train=large),
        _data_set("allenai/llama-3.1-tulu-3-8b-preference-mixture", "default", _preference, train=large),
        _data_set("argilla/ultrafeedback-binarized-preferences", "default", _feedback, train=large),
        _data_set("openai/gsm8k", "main", _gsm8k, train=train, test=test),
        _data_set("HuggingFaceH4/MATH-500", "default", _problem, test=test),
        _data_set("EleutherAI/hendrycks_math", "default", _problem, train=train, test=test),
        _data_set("POLARIS-Project/Polaris-Dataset-53K", "default", _problem, train=train),
        _data_set("zwhe99/DeepMath-103K", "default", _deep_math, train=train),
        _data_set("Anthropic/hh-rlhf", "default", _dialogues, train=train, test=test),
        _data_set("nvidia/HelpSteer3", "preference", _comparison, train=train, validation=test),
    ]


def _data_set(name: str, config: str, row: Callable[[Sum], dict[str, Any]], **splits: list[Sum]) -> DataSet:
    return DataSet(name, config, {split: [row(item) for item in sums] for split, sums in splits.items()})


def _instruction(item: Sum) -> dict[str, Any]:
    return {"prompt": item.question, "messages": item.messages, "category": "Sums"}


def _preference(item: Sum) -> dict[str, Any]:
    rejected = [item.messages[0], _message("assistant", f"The answer is {item.wrong}.")]
    return {"prompt": item.question, "chosen": item.messages, "rejected": rejected}


def _feedback(item: Sum) -> dict[str, Any]:
    return {
        "instruction": item.question,
        "chosen_response": f"The answer is {item.answer}.",
        "rejected_response": f"The answer is {item.wrong}.",
    }


def _gsm8k(item: Sum) -> dict[str, Any]:
    return {"question": item.question, "answer": f"It is a sum.\n#### {item.answer}"}


def _problem(item: Sum) -> dict[str, Any]:
    solution = f"The sum is $\\boxed{{{item.answer}}}$."
    return {"problem": item.question, "solution": solution, "answer": str(item.answer), "subject": "Algebra"}


def _deep_math(item: Sum) -> dict[str, Any]:
    return {"question": item.question, "final_answer": str(item.answer)}


def _dialogues(item: Sum) -> dict[str, Any]:
    start = f"\n\nHuman: {item.question}\n\nAssistant: The answer is"
    return {"chosen": f"{start} {item.answer}.", "rejected": f"{start} {item.wrong}."}


def _comparison(item: Sum) -> dict[str, Any]:
    replies = {"response1": f"The answer is {item.answer}.", "response2": f"The answer is {item.wrong}."}
    return {"context": item.messages[:1], **replies, "overall_preference": -2}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
