"""Entailment by a cross-encoder of the Hugging Face kind (extra `[nli]`): a model that reads premise and hypothesis together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.scorers.batched import Batched
from pytest_crucible.scorers.labels import PLAIN, check_direction, positions
from pytest_crucible.scorers.precision import Precision, machine, without_progress
from pytest_crucible.scorers.protocol import Entailment, Premise
from pytest_crucible.scorers.weights import digest, directory_of, needs_extra

EXTRA = "nli"
AT_ONCE = {"cpu": 8, "cuda": 64}
"""Pairs in one batch of the model."""
UNSAID = 1_000_000
"""A tokenizer that does not know how much its model reads says a number beyond this."""


class NliScorer:
    """A model that was opened and has passed its self-test."""

    def __init__(
        self,
        model: str,
        *,
        root: Path,
        revision: str | None = None,
        premise: Premise = "abstract",
        precision: Precision | None = None,
    ) -> None:
        """Raises SpecError for a model that cannot be had, does not name its labels, or does not mean them."""
        try:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            raise needs_extra("an entailment scorer of kind 'nli'", EXTRA) from error
        directory = directory_of(model, revision, root, extra=EXTRA)
        sha256 = digest(directory)
        self._device, self._precision = machine(precision)
        with without_progress():
            self._tokenizer: Any = AutoTokenizer.from_pretrained(directory)
            loaded = AutoModelForSequenceClassification.from_pretrained(directory, dtype=self._precision)
        self._model: Any = loaded.to(self._device).eval()
        self._labels = positions(self._model.config.id2label, model)
        self._longest = _longest(self._tokenizer, self._model.config)
        self._batched = Batched(self._compute, most=AT_ONCE[self._device] * 8)
        self.premise = premise
        self.identity = f"nli:{Path(model).name}@{revision or ''}:{sha256[:16]}:{self._precision}:{premise}"
        self.read = 0
        """Pairs that were scored, and those of which the end was not read."""
        self.truncated = 0
        check_direction(self._compute([pair[:2] for pair in PLAIN]), model)
        self.read = self.truncated = 0

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        return await self._batched(pairs)

    def told(self) -> str | None:
        """What is to be said of the pairs since it was last said; None where all of each was read."""
        read, truncated = self.read, self.truncated
        self.read = self.truncated = 0
        if not truncated:
            return None
        return (
            f"entailment: {truncated:,} of {read:,} pairs were longer than the {self._longest} tokens that the model "
            'reads, and their end was not read: premise = "sentence" in [scorers] reads them sentence by sentence'
        )

    def _compute(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        """Longest first: pairs of like length are padded little, and too large a batch shows at once."""
        premises, hypotheses = zip(*pairs, strict=True)
        ids = self._tokenizer(list(premises), list(hypotheses), verbose=False)["input_ids"]
        lengths = [len(one) for one in ids]
        found: dict[int, Entailment] = {}
        order = sorted(range(len(pairs)), key=lambda place: -lengths[place])
        for part in _parts(order, AT_ONCE[self._device]):
            probabilities = self._probabilities([pairs[place] for place in part])
            for place, row in zip(part, probabilities, strict=True):
                said = (row[self._labels.entailment], row[self._labels.neutral], row[self._labels.contradiction])
                found[place] = Entailment(*said, truncated=lengths[place] > self._longest)
        self.read += len(pairs)
        self.truncated += sum(one.truncated for one in found.values())
        return [found[place] for place in range(len(pairs))]

    def _probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        import torch

        premises, hypotheses = map(list, zip(*pairs, strict=True))
        given = self._tokenizer(
            premises, hypotheses, truncation=True, max_length=self._longest, padding=True, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            logits = self._model(**given).logits.float()
        rows: list[list[float]] = torch.softmax(logits, dim=-1).tolist()
        return rows


def _longest(tokenizer: Any, config: Any) -> int:
    """Tokens that the model reads of a pair. Models of the RoBERTa kind count their positions from behind the padding's."""
    said = tokenizer.model_max_length
    positions_ = getattr(config, "max_position_embeddings", None)
    if positions_ is not None and "roberta" in config.model_type:
        positions_ -= config.pad_token_id + 1
    known = [one for one in (said if said < UNSAID else None, positions_) if one]
    if not known:
        raise SpecError(
            "the model does not say how long a text it reads: set model_max_length in tokenizer_config.json"
        )
    return int(min(known))


def _parts(order: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(order), size):
        yield order[start : start + size]
