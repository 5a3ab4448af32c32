"""Training rows as texts, and the samples that they match: equal, containing, similar, or of one group."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.load import as_rows, file_source
from pytest_crucible.datasets.similar import Encoded, Numbers, SimilarSets, Vocabulary, split_words
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.datasets import normalise
from pytest_crucible.records.plan import PlanValue

How = Literal["exact", "long", "near", "group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A sample that a training row matches, by the strongest of its matches."""

    position: int
    """The sample's place in its dataset."""
    sample: str
    how: How
    row: int
    """The line or number of the training row."""
    similarity: float
    """Jaccard similarity for a near match, the share of the sample's word sequences for a long one, otherwise 1."""
    other_answer: bool = False
    """True when every matching row has another answer than the sample expects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The samples of a dataset compared with one training file."""

    file: str
    sha256: str = ""
    problem: str = ""
    """Why the file cannot be checked; empty if it was. An unchecked file is not a clean one."""
    rows: int = 0
    samples: int = 0
    matches: tuple[Match, ...] = ()
    similar: int = 0
    """Samples with a training row of a Jaccard similarity of at least 0.5."""
    similar_near: int = 0
    """Samples with a training row of a Jaccard similarity of at least `near`."""
    shared: int = 0
    """Samples that share a sequence of 8 words with a training row."""
    too_short: int = 0
    """Samples of fewer than 8 words, which can share none."""
    near: float = 0.8
    """The Jaccard similarity from which on a match is near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOverlap:
    """An arm's samples compared with all files that it was trained on."""

    arm: str
    files: tuple[Overlap, ...]

    @property
    def positions(self) -> frozenset[int]:
        """The positions of all matched samples."""
        return frozenset(match.position for file in self.files for match in file.matches)


OVERLAPS = PlanValue[tuple[ArmOverlap, ...]]("overlaps", tuple[ArmOverlap, ...], ())
"""The samples that arms were trained on, where training files are known."""

_ANSWERS = ("expected", "completion", "answer", "label", "output", "response", "target", "chosen", "preferred_output")
"""Fields of an answer, in order of preference."""

LEAST_OF_REPLY = 8
"""Words of a reply that samples are compared with: a shorter one, such as a number, is equal to a short input by chance."""

_NO_TEXT = frozenset({"id", "group", "rejected", "non_preferred_output", *_ANSWERS})


class TrainingText(NamedTuple):
    """The texts of one training row, and its number."""

    number: int
    texts: tuple[str, ...]
    """The texts that a sample may be equal or similar to: the prompt, each of its messages, the completion."""
    answer: str | None
    group: str | None


def read_training_rows(path: Path) -> Iterator[TrainingText]:
    """Yield the rows of a file: JSONL, a JSON array, CSV, TSV or Parquet. Raises DatasetError."""
    _, file_format = file_source(path)
    return (_of_mapping(number, row) for number, row in file_format.read(path))


def training_rows(rows: Iterable[Any]) -> Iterator[TrainingText]:
    """Yield the rows of a dataset in memory, numbered from 1."""
    for number, row in enumerate(as_rows(rows), start=1):
        if isinstance(row, Sample):
            yield TrainingText(number, tuple(_texts(row.input)), answer_text(row.expected), row.group)
        else:
            yield _of_mapping(number, row)


def answer_text(value: Any) -> str | None:
    """Return an answer as a text; None if it is unknown, as for a mapping without a label.

    >>> answer_text("Yes"), answer_text(7), answer_text({"label": "SUPPORT", "claim": "c1"}), answer_text({"claim": "c1"})
    ('Yes', '7', 'SUPPORT', None)
    """
    if isinstance(value, Mapping):
        return next((answer_text(value[name]) for name in ("label", "content", *_ANSWERS) if name in value), None)
    if isinstance(value, list | tuple):
        return answer_text(value[0]) if len(value) == 1 else None
    return None if value is None else str(value) or None


def _of_mapping(number: int, row: Any) -> TrainingText:
    if not isinstance(row, Mapping):
        return TrainingText(number, tuple(_texts(row)), None, None)
    messages, answer = row.get("messages"), next((row[name] for name in _ANSWERS if row.get(name) is not None), None)
    if answer is None and isinstance(messages, list) and len(messages) > 1:
        last = messages[-1]
        answer = last.get("content") if isinstance(last, Mapping) else last
    prompts = [text for name, value in row.items() if name not in _NO_TEXT for text in _texts(value)]
    reply = [text for text in _texts(answer) if len(text.split()) >= LEAST_OF_REPLY]
    # A comparison or a chat has its answer among its texts already.
    texts = dict.fromkeys(text for text in (*prompts, *reply) if text)
    group = row.get("group")
    return TrainingText(number, tuple(texts), answer_text(answer), None if group is None else str(group))


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts inside of a value: a text, messages, or mappings and lists of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            # The role of a message is not a text that was learnt.
            if name not in ("role", "type"):
                yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)


NEAR_MATCH = 0.8
"""One changed word among nine: 8 of 10 different words are common."""

# Samples with such a row are counted, but only near ones are matches.
SIMILAR = 0.5

LONG, SHORT = 13, 8
"""Words of a sequence: 13 as Brown et al. (2020) count contamination, 8 as Chowdhery et al. (2022)."""

_ORDER: tuple[How, ...] = ("exact", "long", "near", "group")

# Rows that are encoded at a time: the arrays of 4,000 rows of 50 words take some MB, and stay in the processor's cache.
_CHUNK = 4000


class SampleText(NamedTuple):
    """The parts of a sample that are compared."""

    id: str
    text: str
    answer: str | None
    group: str | None


class _RowMatch(NamedTuple):
    how: How
    row: int
    similarity: float

    @property
    def strength(self) -> tuple[int, float, int]:
        """The sort key of matches, the strongest first."""
        return _ORDER.index(self.how), -self.similarity, self.row


class Matcher:
    """Compares samples with training rows, which are read once, a few thousand at a time."""

    def __init__(self, samples: Sequence[SampleText], near: float = NEAR_MATCH) -> None:
        """`near` is the Jaccard similarity from which on a row matches, from 0.5 to 1."""
        self._samples, self._near = samples, near
        words = [split_words(sample.text) for sample in samples]
        self._vocabulary = Vocabulary(words)
        self._similar_index = SimilarSets(words, self._vocabulary, min(SIMILAR, near))
        self._long_index = SequenceIndex(words, self._vocabulary, LONG)
        self._short_index = SequenceIndex(words, self._vocabulary, SHORT)
        self._too_short = sum(len(of_sample) < SHORT for of_sample in words)
        self._equal: dict[str, list[int]] = {}
        self._groups: dict[str | None, list[int]] = {}
        for position, sample in enumerate(samples):
            self._equal.setdefault(normalise(sample.text), []).append(position)
            self._groups.setdefault(sample.group, []).append(position)
        self._groups.pop(None, None)
        self._equal.pop("", None)
        self._answers = [None if sample.answer is None else normalise(sample.answer) for sample in samples]
        self._best: dict[tuple[int, bool], _RowMatch] = {}
        self._similar, self._similar_near, self._shared = np.zeros((3, len(samples)), dtype=bool)
        self._rows = 0

    def add_rows(self, rows: Iterable[TrainingText]) -> None:
        """Compare further rows."""
        iterator = iter(rows)
        while chunk := list(itertools.islice(iterator, _CHUNK)):
            self._rows += len(chunk)
            self._add_equal(chunk)
            texts = [split_words(text) for row in chunk for text in row.texts]
            of_row = np.repeat(np.arange(len(chunk)), [len(row.texts) for row in chunk])
            if not texts:
                continue
            encoded = self._vocabulary.encode(texts)
            self._add_similar(chunk, of_row, encoded)
            self._add_long(chunk, of_row, encoded)
            self._shared[self._short_index.find(encoded).indexed] = True

    def result(self, file: str, sha256: str = "") -> Overlap:
        """Return the matches with all rows so far."""
        # A row with the sample's own answer, or with an unknown one, counts before those with another answer.
        matches = {}
        for (position, is_other), match in sorted(self._best.items(), reverse=True):
            matches[position] = Match(
                position=position,
                sample=self._samples[position].id,
                how=match.how,
                row=match.row,
                similarity=round(match.similarity, 4),
                other_answer=is_other,
            )
        return Overlap(
            file=file,
            sha256=sha256,
            rows=self._rows,
            samples=len(self._samples),
            matches=tuple(matches[position] for position in sorted(matches)),
            similar=int(self._similar.sum()),
            similar_near=int(self._similar_near.sum()),
            shared=int(self._shared.sum()),
            too_short=self._too_short,
            near=self._near,
        )

    def _add_equal(self, chunk: Sequence[TrainingText]) -> None:
        equal, groups = self._equal, self._groups
        for row in chunk:
            for text in row.texts:
                positions = equal.get(normalise(text))
                if positions is not None:
                    self._add(positions, _RowMatch("exact", row.number, 1.0), row)
            if row.group in groups:
                self._add(groups[row.group], _RowMatch("group", row.number, 1.0), row)

    def _add_similar(self, chunk: Sequence[TrainingText], of_row: np.ndarray, encoded: Encoded) -> None:
        for pairs in self._similar_index.find(encoded):
            self._similar[pairs.indexed[pairs.similarities >= SIMILAR - 1e-9]] = True
            near = pairs.similarities >= self._near - 1e-9
            self._similar_near[pairs.indexed[near]] = True
            for text, position, similarity in zip(
                pairs.texts[near].tolist(), pairs.indexed[near].tolist(), pairs.similarities[near].tolist(), strict=True
            ):
                row = chunk[of_row[text]]
                self._add([position], _RowMatch("near", row.number, similarity), row)

    def _add_long(self, chunk: Sequence[TrainingText], of_row: np.ndarray, encoded: Encoded) -> None:
        shared = self._long_index.find(encoded)
        if not len(shared.texts):
            return
        # A row contains a sequence once, in whichever of its texts.
        keys = np.unique(np.stack([of_row[shared.texts], shared.indexed, shared.sequences], axis=1), axis=0)
        pairs, counts = np.unique(keys[:, :2], axis=0, return_counts=True)
        shares = counts / self._long_index.counts[pairs[:, 1]]
        for (number, position), share in zip(pairs.tolist(), shares.tolist(), strict=True):
            if share >= 0.5:
                self._add([position], _RowMatch("long", chunk[number].number, share), chunk[number])

    def _add(self, positions: Sequence[int], match: _RowMatch, row: TrainingText) -> None:
        answer = None if row.answer is None else normalise(row.answer)
        for position in positions:
            own = self._answers[position]
            key = (position, own is not None and answer is not None and own != answer)
            best = self._best.get(key)
            if best is None or match.strength < best.strength:
                self._best[key] = match


Hashes = npt.NDArray[np.uint64]

# Fixed: equal texts have equal hashes in every run.
_SEED = 13

_TABLE = np.uint64(2**22 - 1)
"""The bits of a hash that are its place in a table of 4 MB."""


class Shared(NamedTuple):
    """Texts and indexed texts with common sequences, as parallel columns: one row for each pair and sequence."""

    texts: Numbers
    indexed: Numbers
    sequences: Numbers
    """The number of the sequence."""


class SequenceIndex:
    """An index of texts by their sequences of `length` words."""

    def __init__(self, texts: Sequence[Sequence[str]], vocabulary: Vocabulary, length: int) -> None:
        self.length = length
        draw = np.random.default_rng(_SEED)
        # A polynomial of random numbers modulo 2^64: two sequences collide with a probability of about 1 in 10^19.
        self._values = draw.integers(0, 2**64, size=max(len(vocabulary), 1), dtype=np.uint64)
        self._factors = draw.integers(0, 2**64, size=length, dtype=np.uint64) | np.uint64(1)
        hashes, of_text = self._hash(vocabulary.encode(texts))
        self._hashes, numbers = np.unique(hashes, return_inverse=True)
        self._table = np.zeros(int(_TABLE) + 1, dtype=bool)
        self._table[self._hashes & _TABLE] = True
        keys = np.unique(numbers * max(len(texts), 1) + of_text)
        sequences, self._postings = np.divmod(keys, max(len(texts), 1))
        self._starts = np.searchsorted(sequences, np.arange(len(self._hashes) + 1))
        self.counts: Numbers = np.bincount(self._postings, minlength=len(texts))
        """The number of different sequences of each indexed text."""

    def find(self, encoded: Encoded) -> Shared:
        """Return the sequences that texts share with indexed ones, each once for a pair of texts."""
        hashes, texts = self._hash(encoded)
        if not len(self._hashes) or not len(hashes):
            none = np.array([], dtype=np.int64)
            return Shared(none, none, none)
        # A look into a table rejects most hashes, which is ten times as fast as a search among all.
        maybe = self._table[hashes & _TABLE]
        hashes, texts = hashes[maybe], texts[maybe]
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        is_known = self._hashes[places] == hashes
        # A text may have a sequence several times.
        keys = np.unique(texts[is_known] * len(self._hashes) + places[is_known])
        texts, sequences = np.divmod(keys, len(self._hashes))
        counts = self._starts[sequences + 1] - self._starts[sequences]
        at = np.repeat(self._starts[sequences] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return Shared(np.repeat(texts, counts), self._postings[at], np.repeat(sequences, counts))

    def _hash(self, encoded: Encoded) -> tuple[Hashes, Numbers]:
        """Return the hash of each sequence without unknown words, and its text."""
        windows = len(encoded.words) - self.length + 1
        if windows <= 0:
            return np.array([], dtype=np.uint64), np.array([], dtype=np.int64)
        texts = encoded.texts
        unknown = np.concatenate([[0], np.cumsum(encoded.words < 0)])
        whole = (texts[:windows] == texts[self.length - 1 :]) & (unknown[self.length :] == unknown[:windows])
        begins = np.flatnonzero(whole)
        hashes = np.zeros(len(begins), dtype=np.uint64)
        for k, factor in enumerate(self._factors):
            hashes += self._values[encoded.words[begins + k]] * factor
        return hashes, texts[begins]
