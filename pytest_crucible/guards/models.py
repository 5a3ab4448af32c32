"""Guards that call a model: a text classifier in Hugging Face's format (extra `[nli]`), or an LLM judge."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.guards.guard import Asks, GuardContext, GuardSettings, ScoredText
from pytest_crucible.metrics.models.verdicts import DATA, NoVerdict, closing_lines, read_verdict, wrap_in_tags
from pytest_crucible.metrics.models.weights import digest, find_directory, missing_extra
from pytest_crucible.records.errors import BackendError, SpecError

EXTRA = "nli"
_ATTACKS = re.compile(
    r"attack|injection|jailbreak|unsafe|toxic|malicious|harmful|spam|hate|label_1$|^1$", re.IGNORECASE
)


class ClassifierGuard:
    """Scores a text by the probability of the label that means an attack. A longer text is cut at the model's limit."""

    def __init__(self, model: str, label: str | None, *, revision: str | None, root: Path, place: str) -> None:
        """Raises SpecError if the model is not available, or does not name the label."""
        directory = find_directory(model, revision, root, extra=EXTRA)
        sha256 = digest(directory)
        try:
            import torch
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            raise missing_extra(f'{place}: kind = "classifier"', EXTRA) from error
        self._torch: Any = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        loaded = AutoModelForSequenceClassification.from_pretrained(
            directory, use_safetensors=True, trust_remote_code=False
        )
        self._model: Any = loaded.eval()
        self._number, self.label = find_attack_label(self._model.config.id2label, label, place)
        self.identity = f"classifier {sha256} {self.label}"

    async def score(self, text: str) -> ScoredText:
        return ScoredText(await asyncio.to_thread(self._compute, text), self.label)

    def _compute(self, text: str) -> float:
        limit = min(self._tokenizer.model_max_length, getattr(self._model.config, "max_position_embeddings", 512))
        inputs = self._tokenizer(text, return_tensors="pt", truncation=True, max_length=limit)
        with self._torch.inference_mode():
            logits = self._model(**inputs).logits[0]
        return float(logits.softmax(-1)[self._number])


def find_attack_label(labels: Mapping[int, str], label: str | None, place: str) -> tuple[int, str]:
    """Return the number and the name of the label that means an attack. Raises SpecError if that is not clear.

    >>> find_attack_label({0: "SAFE", 1: "INJECTION"}, None, "guards.c")
    (1, 'INJECTION')
    """
    wanted = [
        (number, name) for number, name in labels.items() if (_ATTACKS.search(name) if label is None else name == label)
    ]
    if len(wanted) != 1:
        raise SpecError(
            f'{place}: the model has the labels {", ".join(labels.values())}: write which one means an attack, label = "..."'
        )
    return wanted[0]


def open_classifier(settings: GuardSettings, context: GuardContext) -> ClassifierGuard:
    """Return the guard of `model`, a directory or a name on the hub."""
    options = settings.options
    return ClassifierGuard(
        options["model"],
        options.get("label"),
        revision=options.get("revision"),
        root=context.root,
        place=settings.place,
    )


_ANSWERS = ("yes", "no")


class JudgeGuard:
    """Scores 1 where the judge answers yes. Its requests go through the wrappers of its adapter: cached and budgeted."""

    def __init__(self, judge: Asks, question: str) -> None:
        self._judge, self._question = judge, question
        self.identity = f"judge {judge.identity} {question!r}"

    async def score(self, text: str) -> ScoredText:
        """Raises BackendError if the judge gives no reply, or none that can be read."""
        reply = await self._judge.query(judge_prompt(self._question, text))
        try:
            return ScoredText(float(read_verdict(reply, _ANSWERS) == "yes"))
        except NoVerdict as error:
            raise BackendError(str(error)) from None


def judge_prompt(question: str, text: str) -> str:
    """Return the prompt: the question, and the text in a tag that it cannot close."""
    return "\n\n".join(
        [
            f"Answer a question about a text.\n\nQuestion: {question}",
            DATA,
            *wrap_in_tags([("text", text)]),
            closing_lines(_ANSWERS),
        ]
    )


def open_judge(settings: GuardSettings, context: GuardContext) -> JudgeGuard:
    """Return the guard of `adapter` and `question`. Raises SpecError for an adapter that cannot answer prompts."""
    return JudgeGuard(context.open_judge(settings.options["adapter"]), settings.options["question"])
