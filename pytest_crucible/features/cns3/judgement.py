"""All measurements of one reply against its gold answer, each computed once; a failure does not stop the others."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeVar

from pytest_crucible.features.cns3.chirality import Chirality, measure_chirality
from pytest_crucible.features.cns3.claims import CENTRAL, Citations, Extraction, parse, polarity_conflict
from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.metrics.models.scorers import (
    NO_ENTAILMENT,
    NO_SIMILARITY,
    Premise,
    entailment_scorer,
    similarity_scorer,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import describe_type

Stance = Literal["SUPPORT", "CONTRADICT", "NEI"]


@dataclass(frozen=True, slots=True)
class Document:
    """An abstract, in sentences."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join((self.title, *self.sentences))


@dataclass(frozen=True, slots=True)
class Gold:
    """The right answer to one sample."""

    claim: str
    label: Stance
    cited: tuple[str, ...]
    """All documents that the sample's author cited, evidence or not: those that Thinker's evaluation expects."""
    evidence: Mapping[str, tuple[int, ...]]
    """The sentences of each document that are evidence."""
    documents: Mapping[str, Document]
    """The documents of the prompt, if known."""


def read_gold(sample: Sample) -> Gold:
    """Read `expected` (claim, label, cited, evidence) and `metadata` (documents). Raises ValueError if something is missing."""
    expected: Any = sample.expected
    if not isinstance(expected, Mapping) or not isinstance(expected.get("claim"), str):
        raise ValueError(
            f"sample {sample.id!r} expects {describe_type(expected)}; the CNS3 metrics need a mapping with 'claim', 'label', "
            "'cited' and 'evidence', as pytest_crucible.features.cns3.scifact makes it"
        )
    documents = sample.metadata.get("documents", {})
    return Gold(
        claim=expected["claim"],
        label=expected.get("label", "NEI"),
        cited=tuple(map(str, expected.get("cited", ()))),
        evidence={str(document): tuple(lines) for document, lines in expected.get("evidence", {}).items()},
        documents={
            str(name): Document(document["title"], tuple(document["abstract"])) for name, document in documents.items()
        },
    )


_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on", "or", "that", "the", "to",
))  # fmt: skip


def overlap(premise: str, hypothesis: str) -> float:
    """Return the share of the hypothesis's words, without stop words, that occur in the premise; 0 if it has none.

    >>> overlap("Tea shortened colds in forty adults.", "Tea shortened the flu.")
    0.6666666666666666
    """
    words = _content_words(hypothesis)
    return len(words & _content_words(premise)) / len(words) if words else 0.0


@lru_cache(maxsize=1024)
def _content_words(text: str) -> frozenset[str]:
    # Cached: each arm and repeat is scored against the same documents.
    return frozenset(_WORD.findall(text.casefold())) - _STOP_WORDS


def tfidf_cosine(first: str, second: str, corpus: Iterable[str]) -> float:
    """Return the cosine with weights ln((1 + n) / (1 + df)) + 1 (scikit-learn's smooth idf); n and df count all texts.

    The corpus is the sample's own, so that a sample's value does not depend on other samples. 0 if a text has no word.

    >>> round(tfidf_cosine("Tea shortens colds.", "Tea shortens the flu.", ["Colds are common.", "Tea is hot."]), 4)
    0.4602
    """
    left, right = _word_counts(first), _word_counts(second)
    texts = [left.keys(), right.keys(), *(_word_counts(text).keys() for text in corpus)]
    words = left.keys() | right.keys()
    weights = {word: math.log((1 + len(texts)) / (1 + sum(word in text for text in texts))) + 1 for word in words}
    product = sum(left[word] * right[word] * weights[word] ** 2 for word in left)
    lengths = [math.sqrt(sum((count * weights[word]) ** 2 for word, count in text.items())) for text in (left, right)]
    # Rounding may give 1.0000000000000002.
    return min(1.0, product / (lengths[0] * lengths[1])) if all(lengths) else 0.0


@lru_cache(maxsize=1024)
# Cached: each arm and repeat is scored against the same documents.
def _word_counts(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


Value = TypeVar("Value")
# Least scores that pass.
MIN_ENTAILMENT, MIN_SIMILARITY = 0.75, 0.70
NOTHING_TO_CITE = NotApplicable("no document is evidence for or against the claim")
NO_CITATION = NotApplicable("the reply cites no document")
NO_CENTRAL_CLAIM = NotApplicable("the reply has no central claim")
UNMEASURED = "the models were not called: await the judgement's measure() first"
# Reasons that do not depend on the reply.
UNKNOWN = frozenset({NO_ENTAILMENT, NO_SIMILARITY, UNMEASURED})
NO_EVIDENCE = NotApplicable("no claim that cites a document of the prompt relates to c1")


class Judgement:
    """The measurements of one reply under the strict policy. Those by models apply after `measure` was awaited."""

    def __init__(self, reply: Reply, sample: Sample) -> None:
        self._reply = reply
        self._sample = sample
        self._cache: dict[str, Any] = {}
        self._is_measured = False
        self.entailment: float | NotApplicable = NotApplicable(UNMEASURED)
        """Mean over the evidence of P(entailment) if it should support c1, of P(contradiction) if it should refute c1."""
        self.similarity: float | NotApplicable = NotApplicable(UNMEASURED)
        """Similarity of c1 and the gold claim, from 0 to 1."""
        self.chirality: Chirality | NotApplicable = NotApplicable(UNMEASURED)
        """Distance, overlap and conflict, against frozen reference statistics."""

    async def measure(self) -> None:
        """Call the configured models, once. Raises their errors."""
        if not self._is_measured:
            self.entailment = await self._entailment()
            self.similarity = await self._similarity()
            self.chirality = await self._chirality()
            self._is_measured = True

    def remember(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return a value derived from this judgement, computed once."""
        if name not in self._cache:
            self._cache[name] = compute()
        value: Value = self._cache[name]
        return value

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The sample's metadata."""
        return self._sample.metadata

    @cached_property
    def gold(self) -> Gold:
        return read_gold(self._sample)

    @cached_property
    def extraction(self) -> Extraction:
        return parse(self._reply.text, cut_off=self._reply.finish == "length")

    @cached_property
    def citations(self) -> Citations:
        """The ids that the reply cites in its lines; ids echoed from the prompt do not count."""
        gold = self.gold
        # Without the prompt's documents, those that the author cited are used.
        prompt_documents = frozenset(gold.documents) or frozenset(gold.cited)
        return Citations(frozenset(self.extraction.documents), frozenset(gold.evidence), prompt_documents)

    @property
    def citation_accuracy(self) -> bool | NotApplicable:
        exact = self.citations.exact
        return NOTHING_TO_CITE if exact is None else exact

    @cached_property
    def evidence(self) -> tuple[tuple[tuple[Document, ...], bool], ...]:
        """Documents cited by each claim that relates to c1, and whether the claim supports c1."""
        documents = self.gold.documents
        sources = {claim.id: claim.documents for claim in self.extraction.claims}
        pairs = []
        for relation in self.extraction.relations:
            cited = tuple(documents[name] for name in sources.get(relation.source, ()) if name in documents)
            if relation.target == CENTRAL and relation.label != "contrasts" and cited:
                pairs.append((cited, relation.label == "supports"))
        return tuple(pairs)

    async def _entailment(self) -> float | NotApplicable:
        scorer = entailment_scorer()
        if scorer is None:
            return NotApplicable(NO_ENTAILMENT)
        if problem := self._no_evidence():
            return problem
        premises = [_premises(cited, scorer.premise) for cited, _ in self.evidence]
        probabilities = iter(
            await scorer.score([(text, self.extraction.central) for texts in premises for text in texts])
        )
        sides = ("entailment" if supports else "contradiction" for _, supports in self.evidence)
        scores: list[float] = [
            max(getattr(next(probabilities), side) for _ in texts) for texts, side in zip(premises, sides, strict=True)
        ]
        return sum(scores) / len(scores)

    @cached_property
    def entailment_overlap(self) -> float | NotApplicable:
        """Mean over the evidence of the share of c1's words that it contains; blind to support and refutation."""
        if problem := self._no_evidence():
            return problem
        scores = [overlap(_whole(cited), self.extraction.central) for cited, _ in self.evidence]
        return sum(scores) / len(scores)

    def _no_evidence(self) -> NotApplicable | None:
        if not self.extraction.central:
            return NO_CENTRAL_CLAIM
        return None if self.evidence else NO_EVIDENCE

    @cached_property
    def similarity_tfidf(self) -> float | NotApplicable:
        """Cosine of the weighted words of c1 and the gold claim; blind to synonyms."""
        if not self.extraction.central:
            return NO_CENTRAL_CLAIM
        corpus = [document.text for document in self.gold.documents.values()]
        return tfidf_cosine(self.extraction.central, self.gold.claim, corpus)

    async def _similarity(self) -> float | NotApplicable:
        scorer = similarity_scorer()
        if scorer is None:
            return NotApplicable(NO_SIMILARITY)
        if not self.extraction.central:
            return NO_CENTRAL_CLAIM
        (score,) = await scorer.similarity([(self.extraction.central, self.gold.claim)])
        return min(max(score, 0.0), 1.0)

    @property
    def entailment_pass(self) -> bool | NotApplicable:
        return _reaches(self.entailment, MIN_ENTAILMENT)

    @property
    def similarity_pass(self) -> bool | NotApplicable:
        return _reaches(self.similarity, MIN_SIMILARITY)

    @property
    def overall_pass(self) -> bool | NotApplicable:
        """True if the reply is well formed, cites exactly (if there is anything to cite), is entailed and similar.

        If a model is missing, this never applies, even to replies that fail without it: a rate over these alone would be 0.
        """
        scored = (self.entailment_pass, self.similarity_pass)
        missing = next((score for score in scored if isinstance(score, NotApplicable)), None)
        if missing is not None:
            return missing
        return self.extraction.well_formed and self.citation_accuracy is not False and all(scored)

    @property
    def conflict(self) -> bool:
        return polarity_conflict(self.extraction.relations)

    @property
    def chirality_value(self) -> float | NotApplicable:
        """Distance, missing documents and conflict as one number."""
        return self.chirality if isinstance(self.chirality, NotApplicable) else self.chirality.value

    @property
    def distance(self) -> float | NotApplicable:
        """Distance of c1 from the gold claim, in frozen standard deviations."""
        return self.chirality if isinstance(self.chirality, NotApplicable) else self.chirality.distance

    async def _chirality(self) -> Chirality | NotApplicable:
        scorer = similarity_scorer()
        if scorer is None:
            return NotApplicable(NO_SIMILARITY)
        return await measure_chirality(
            scorer, self.extraction.central, self.gold.claim, overlap=self.citations.recall, conflict=self.conflict
        )


def _whole(cited: tuple[Document, ...]) -> str:
    return " ".join(document.text for document in cited)


def _premises(cited: tuple[Document, ...], kind: Premise) -> tuple[str, ...]:
    """Return the premises for c1: all cited text as one, or each of its sentences."""
    sentences = tuple(sentence for document in cited for sentence in document.sentences)
    return sentences if kind == "sentence" and sentences else (_whole(cited),)


def _reaches(score: float | NotApplicable, threshold: float) -> bool | NotApplicable:
    """Return whether a score reaches a threshold. A missing part of the reply fails; an unmeasurable one does not apply."""
    if isinstance(score, NotApplicable):
        return score if score.reason in UNKNOWN else False
    return score >= threshold


_LAST: ContextVar[tuple[Reply, Sample, Judgement] | None] = ContextVar("crucible_last_judgement", default=None)


def get_judgement(reply: Reply, sample: Sample) -> Judgement:
    """Return the judgement of a reply. Metrics of a sample run one after the other in a task: the last judgement is cached."""
    latest = _LAST.get()
    if latest is None or latest[0] is not reply or latest[1] is not sample:
        latest = (reply, sample, Judgement(reply, sample))
        _LAST.set(latest)
    return latest[2]


async def measure_reply(reply: Reply, sample: Sample) -> Judgement:
    """Return the judgement of a reply after the configured models were called."""
    judgement = get_judgement(reply, sample)
    await judgement.measure()
    return judgement
