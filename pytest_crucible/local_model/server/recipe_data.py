"""Generated data in the schemas that recipes of tinker-cookbook 0.5 and 0.6 read, under the names of their data sets.

They are not the data sets whose names they have: their texts are sums, so that a small model reads them within its context. The
same rows each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pytest_crucible.quick_dataclass import dataclass

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
    """Return all data sets."""
    train, batch, large = make_sums(512, 0), make_sums(256, 1), make_sums(1536, 2)
    test = batch[:64]
    return [
        # Supervised recipes leave out an incomplete batch of 256, so that fewer rows would give a likelihood of NaN.
        _data_set("HuggingFaceH4/no_robots", "default", "instruction", train=train, test=batch),
        # The recipes keep 1,024 rows of these for testing.
        _data_set("allenai/tulu-3-sft-mixture", "default", "instruction", train=large),
        _data_set("allenai/llama-3.1-tulu-3-8b-preference-mixture", "default", "preference", train=large),
        _data_set("argilla/ultrafeedback-binarized-preferences", "default", "feedback", train=large),
        _data_set("openai/gsm8k", "main", "gsm8k", train=train, test=test),
        _data_set("HuggingFaceH4/MATH-500", "default", "problem", test=test),
        _data_set("EleutherAI/hendrycks_math", "default", "problem", train=train, test=test),
        _data_set("POLARIS-Project/Polaris-Dataset-53K", "default", "problem", train=train),
        _data_set("zwhe99/DeepMath-103K", "default", "deep_math", train=train),
        _data_set("Anthropic/hh-rlhf", "default", "dialogue", train=train, test=batch),
        _data_set("nvidia/HelpSteer3", "preference", "comparison", train=train, validation=batch),
        _data_set("lmarena-ai/arena-human-preference-140k", "default", "arena", train=large),
        _data_set("open-thoughts/OpenThoughts3-1.2M", "default", "thoughts", train=large),
        _data_set("hicai-zju/SciKnowEval", "default", "choice", test=train),
        _data_set("tangqiaoyu/ToolAlpaca", "default", "tool", train=train),
        _data_set("Salesforce/wikitext", "wikitext-103-raw-v1", "text", train=large),
        _data_set("prometheus-eval/Feedback-Collection", "default", "rubric", train=train),
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
    "arena": lambda item: {
        "winner": "model_a",
        **{
            f"conversation_{side}": [
                {"role": message["role"], "content": [{"type": "text", "text": message["content"]}]}
                for message in (item.messages[0], _message("assistant", _reply(number)))
            ]
            for side, number in (("a", item.answer), ("b", item.wrong))
        },
    },
    "thoughts": lambda item: {
        "conversations": [
            {"from": "human", "value": item.question},
            {"from": "gpt", "value": f"<think>It is a sum.</think>\n\n{_reply(item.answer)}"},
        ]
    },
    "choice": lambda item: {
        "domain": "Chemistry",
        "details": {"level": "L3"},
        "type": "mcq-4-choices",
        "question": item.question,
        "choices": {"label": ["A", "B"], "text": [str(item.wrong), str(item.answer)]},
        "answerKey": "B",
    },
    "tool": lambda item: {"instruction": item.question, "output": _reply(item.answer)},
    "text": lambda item: {"text": f"{item.question} {_reply(item.answer)}\n"},
    "rubric": lambda item: {
        "orig_instruction": item.question,
        "orig_criteria": "Is the number right?",
        "orig_reference_answer": _reply(item.answer),
        **{f"orig_score{score}_description": f"It is off by {5 - score}." for score in range(1, 6)},
    },
}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _reply(number: int) -> str:
    return f"The answer is {number}."
