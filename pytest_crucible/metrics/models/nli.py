"""Entailment by a cross-encoder in Hugging Face's format (extra `[nli]`), which reads premise and hypothesis together.

Labels are read from their names, never from their order, then tested: models disagree about the order, and P(neutral) read as
P(entailment) looks like a valid number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_crucible.metrics.models.batched import Batched, Precision, choose_machine, hidden_progress_bars
from pytest_crucible.metrics.models.scorers import Entailment, Premise
from pytest_crucible.metrics.models.weights import digest, find_directory, missing_extra
from pytest_crucible.records.errors import SpecError

# Models write "entailment", "ENTAILMENT" or "entails"; the beginnings are common to them.
BEGINNINGS = {"entailment": "entail", "neutral": "neutral", "contradiction": "contradict"}
# Premise, hypothesis, and whether the first entails or contradicts the second: no model with correct labels confuses
# them.
PLAIN = (
    ("A man is eating pizza.", "A man is eating food.", True),
    ("Two dogs are running on the beach.", "Animals are outside.", True),
    ("The vaccine lowered the risk of infection.", "The vaccine reduced the risk of infection.", True),
    ("A man is eating pizza.", "Nobody is eating.", False),
    ("Two dogs are running on the beach.", "The dogs are asleep.", False),
    ("The vaccine lowered the risk of infection.", "The vaccine raised the risk of infection.", False),
)
# Small models get one of these pairs wrong; with swapped labels, nearly all are wrong.
MAY_FAIL = 1


class Positions(NamedTuple):
    """The output of each label."""

    entailment: int
    neutral: int
    contradiction: int


def find_labels(labels: Mapping[int, str], model: str) -> Positions:
    """Return the outputs by label, in any order and case. Raises SpecError for labels without these names.

    >>> find_labels({0: "CONTRADICTION", 1: "entailment", 2: "Neutral"}, "m")
    Positions(entailment=1, neutral=2, contradiction=0)
    """
    places_by_name = {
        name: [place for place, label in labels.items() if str(label).strip().casefold().startswith(beginning)]
        for name, beginning in BEGINNINGS.items()
    }
    if len(labels) != len(places_by_name) or any(len(places) != 1 for places in places_by_name.values()):
        raise SpecError(
            f"model {model!r} has the labels {', '.join(map(repr, labels.values()))}: use a model whose config.json "
            "names entailment, neutral and contradiction in id2label"
        )
    return Positions(**{name: places[0] for name, places in places_by_name.items()})


def check_direction(scores: Sequence[Entailment], model: str) -> None:
    """Raise SpecError for a model that judges plain pairs the wrong way round."""
    wrong = [
        (premise, hypothesis, score)
        for (premise, hypothesis, entails), score in zip(PLAIN, scores, strict=True)
        if (score.entailment > score.contradiction) is not entails
    ]
    if len(wrong) > MAY_FAIL:
        premise, hypothesis, score = wrong[0]
        raise SpecError(
            f"model {model!r} takes {len(wrong)} of {len(PLAIN)} plain pairs for their opposite (first: {premise!r} and "
            f"{hypothesis!r} have entailment {score.entailment:.2f} and contradiction {score.contradiction:.2f}): "
            "its labels are swapped, or it is not an NLI model; use another one"
        )


EXTRA = "nli"
# Pairs in one batch of the model.
BATCH_SIZES = {"cpu": 8, "cuda": 64}
# A tokenizer without a known limit reports a larger number.
UNKNOWN_LENGTH = 1_000_000


class NliScorer:
    """An opened model that has passed its self-test."""

    def __init__(
        self,
        model: str,
        *,
        root: Path,
        revision: str | None = None,
        premise: Premise = "abstract",
        precision: Precision | None = None,
    ) -> None:
        """Raises SpecError if the model is not available, does not name its labels, or has them swapped."""
        directory = find_directory(model, revision, root, extra=EXTRA)
        sha256 = digest(directory)
        try:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            raise missing_extra("an entailment scorer of kind 'nli'", EXTRA) from error
        self._device, self._precision = choose_machine(precision)
        with hidden_progress_bars():
            self._tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
            loaded = AutoModelForSequenceClassification.from_pretrained(
                directory, dtype=self._precision, use_safetensors=True, trust_remote_code=False
            )
        self._model: Any = loaded.to(self._device).eval()
        self._labels = find_labels(self._model.config.id2label, model)
        self._max_tokens = _max_tokens(self._tokenizer, self._model.config)
        # Eight batches of the model in one computation, sorted by length, waste less padding.
        self._batched = Batched(self._compute, batch_size=BATCH_SIZES[self._device] * 8)
        self.premise = premise
        self.identity = f"nli:{Path(model).name}@{revision or ''}:{sha256[:16]}:{self._precision}:{premise}"
        self.read = 0
        """Pairs scored, and pairs whose end was cut off, since the last report."""
        self.truncated = 0
        check_direction(self._compute([pair[:2] for pair in PLAIN]), model)
        self.read = self.truncated = 0

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        return await self._batched(pairs)

    def report(self) -> str | None:
        """Return a message about truncated pairs since the last report; None if there were none."""
        read, truncated = self.read, self.truncated
        self.read = self.truncated = 0
        if not truncated:
            return None
        return (
            f"entailment: {truncated:,} of {read:,} pairs were longer than the {self._max_tokens} tokens that the model "
            'reads, and their end was not read: premise = "sentence" in [scorers] reads them sentence by sentence'
        )

    def _compute(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        """Score pairs, longest first: pairs of similar length need little padding, and too large a batch fails at once."""
        premises, hypotheses = zip(*pairs, strict=True)
        ids = self._tokenizer(list(premises), list(hypotheses), verbose=False)["input_ids"]
        lengths = [len(tokens) for tokens in ids]
        scores: dict[int, Entailment] = {}
        order = sorted(range(len(pairs)), key=lambda place: -lengths[place])
        for part in _parts(order, BATCH_SIZES[self._device]):
            probabilities = self._probabilities([pairs[place] for place in part])
            for place, row in zip(part, probabilities, strict=True):
                values = (row[self._labels.entailment], row[self._labels.neutral], row[self._labels.contradiction])
                scores[place] = Entailment(*values, truncated=lengths[place] > self._max_tokens)
        self.read += len(pairs)
        self.truncated += sum(tokens.truncated for tokens in scores.values())
        return [scores[place] for place in range(len(pairs))]

    def _probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        import torch

        premises, hypotheses = map(list, zip(*pairs, strict=True))
        encoded = self._tokenizer(
            premises, hypotheses, truncation=True, max_length=self._max_tokens, padding=True, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            logits = self._model(**encoded).logits.float()
        rows: list[list[float]] = torch.softmax(logits, dim=-1).tolist()
        return rows


def _max_tokens(tokenizer: Any, config: Any) -> int:
    """Return how many tokens of a pair the model reads. RoBERTa models number positions after the padding's."""
    declared = tokenizer.model_max_length
    by_positions = getattr(config, "max_position_embeddings", None)
    if by_positions is not None and "roberta" in config.model_type:
        by_positions -= config.pad_token_id + 1
    limits = [limit for limit in (declared if declared < UNKNOWN_LENGTH else None, by_positions) if limit]
    if not limits:
        raise SpecError("the model does not declare its maximum length: set model_max_length in tokenizer_config.json")
    return int(min(limits))


def _parts(order: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(order), size):
        yield order[start : start + size]
