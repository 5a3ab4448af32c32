"""Everything that can be said of one reply, each thing computed once: nothing stops at the first failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, TypeVar

from pytest_crucible.cns3.chirality import Chirality, chirality_of
from pytest_crucible.cns3.citations import Citations
from pytest_crucible.cns3.claims import CENTRAL, Extraction, parse
from pytest_crucible.cns3.gold import Document, Gold, gold_of
from pytest_crucible.cns3.graph import polarity_conflict
from pytest_crucible.cns3.overlap import overlap
from pytest_crucible.cns3.tfidf import tfidf_cosine
from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.records import Reply, Sample
from pytest_crucible.scorers.configured import NO_ENTAILMENT, NO_SIMILARITY, entailment_scorer, similarity_scorer
from pytest_crucible.scorers.protocol import Entailment, Premise

Kept = TypeVar("Kept")
ENTAILED, ALIKE = 0.75, 0.70
"""From here on a score passes."""
NOTHING_TO_CITE = NotApplicable("no document is evidence for or against the claim")
NO_CITATION = NotApplicable("the reply cites no document")
NO_CENTRAL_CLAIM = NotApplicable("the reply has no central claim")
UNMEASURED = "the models were not asked: await the judgement's measure() first"
UNKNOWN = frozenset({NO_ENTAILMENT, NO_SIMILARITY, UNMEASURED})
"""Reasons that say nothing of the reply."""
NO_EVIDENCE = NotApplicable("no claim that cites a document of the prompt relates to c1")


class Judgement:
    """One reply to one sample, under the strict policy. What models say of it applies once `measure` was awaited."""

    def __init__(self, reply: Reply, sample: Sample) -> None:
        self._reply = reply
        self._sample = sample
        self._kept: dict[str, Any] = {}
        self._is_measured = False
        self.entailment: float | NotApplicable = NotApplicable(UNMEASURED)
        """Mean over the evidence of P(entailment) where it is said to support c1, of P(contradiction) where to refute it."""
        self.similarity: float | NotApplicable = NotApplicable(UNMEASURED)
        """How alike c1 and the gold claim are, from 0 to 1."""
        self.chirality: Chirality | NotApplicable = NotApplicable(UNMEASURED)
        """Distance, overlap and conflict in one number, against frozen reference statistics."""

    async def measure(self) -> None:
        """Ask the configured models, once. Raises what they raise."""
        if not self._is_measured:
            self.entailment = await self._entailment()
            self.similarity = await self._similarity()
            self.chirality = await self._chirality()
            self._is_measured = True

    def remember(self, name: str, compute: Callable[[], Kept]) -> Kept:
        """What others conclude from this judgement, computed once."""
        if name not in self._kept:
            self._kept[name] = compute()
        kept: Kept = self._kept[name]
        return kept

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The sample's."""
        return self._sample.metadata

    @cached_property
    def gold(self) -> Gold:
        return gold_of(self._sample)

    @cached_property
    def extraction(self) -> Extraction:
        return parse(self._reply.text, cut_off=self._reply.finish == "length")

    @cached_property
    def citations(self) -> Citations:
        """Ids that the reply cites in its lines; what it echoes of the prompt does not count."""
        gold = self.gold
        shown = frozenset(gold.documents) or frozenset(gold.cited)
        return Citations(frozenset(self.extraction.documents), frozenset(gold.evidence), shown)

    @property
    def citation_accuracy(self) -> bool | NotApplicable:
        exact = self.citations.exact
        return NOTHING_TO_CITE if exact is None else exact

    @cached_property
    def evidence(self) -> tuple[tuple[tuple[Document, ...], bool], ...]:
        """For each claim that relates to c1 and cites: what it cites, and whether it supports."""
        documents = self.gold.documents
        sources = {claim.id: claim.documents for claim in self.extraction.claims}
        found = []
        for one in self.extraction.relations:
            cited = tuple(documents[name] for name in sources.get(one.source, ()) if name in documents)
            if one.target == CENTRAL and one.label != "contrasts" and cited:
                found.append((cited, one.label == "supports"))
        return tuple(found)

    async def _entailment(self) -> float | NotApplicable:
        scorer = entailment_scorer()
        if scorer is None:
            return NotApplicable(NO_ENTAILMENT)
        if problem := self._unrelated():
            return problem
        premises = [_premises(cited, scorer.premise) for cited, _ in self.evidence]
        found = iter(await scorer.score([(text, self.extraction.central) for texts in premises for text in texts]))
        scores = [
            max(_strength(next(found), supports) for _ in texts)
            for texts, (_, supports) in zip(premises, self.evidence, strict=True)
        ]
        return sum(scores) / len(scores)

    @cached_property
    def entailment_overlap(self) -> float | NotApplicable:
        """Mean over the evidence of the share of c1's words that it has. It knows nothing of who supports and who refutes."""
        if problem := self._unrelated():
            return problem
        scores = [overlap(_whole(cited), self.extraction.central) for cited, _ in self.evidence]
        return sum(scores) / len(scores)

    def _unrelated(self) -> NotApplicable | None:
        if not self.extraction.central:
            return NO_CENTRAL_CLAIM
        return None if self.evidence else NO_EVIDENCE

    @cached_property
    def similarity_tfidf(self) -> float | NotApplicable:
        """Cosine of the weighted words of c1 and the gold claim. It knows no synonym."""
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
        return _passes(self.entailment, ENTAILED)

    @property
    def similarity_pass(self) -> bool | NotApplicable:
        return _passes(self.similarity, ALIKE)

    @property
    def overall_pass(self) -> bool | NotApplicable:
        """In form, cites exactly (where there is anything to cite), entailed and alike.

        Where a model is missing nothing is said, also not of replies that fail without it: a rate over these alone is 0.
        """
        scored = (self.entailment_pass, self.similarity_pass)
        missing = next((one for one in scored if isinstance(one, NotApplicable)), None)
        if missing is not None:
            return missing
        return self.extraction.in_form and self.citation_accuracy is not False and all(scored)

    @property
    def conflict(self) -> bool:
        return polarity_conflict(self.extraction.relations)

    async def _chirality(self) -> Chirality | NotApplicable:
        scorer = similarity_scorer()
        if scorer is None:
            return NotApplicable(NO_SIMILARITY)
        return await chirality_of(
            scorer, self.extraction.central, self.gold.claim, overlap=self.citations.recall, conflict=self.conflict
        )


def _whole(cited: tuple[Document, ...]) -> str:
    return " ".join(document.text for document in cited)


def _premises(cited: tuple[Document, ...], kind: Premise) -> tuple[str, ...]:
    """What the central claim is held against: all that is cited as one text, or each sentence of it."""
    sentences = tuple(sentence for document in cited for sentence in document.sentences)
    return sentences if kind == "sentence" and sentences else (_whole(cited),)


def _strength(said: Entailment, supports: bool) -> float:
    return said.entailment if supports else said.contradiction


def _passes(score: float | NotApplicable, threshold: float) -> bool | NotApplicable:
    """What the reply itself left out does not pass; what nobody can measure does not apply."""
    if isinstance(score, NotApplicable):
        return score if score.reason in UNKNOWN else False
    return score >= threshold


_LAST: ContextVar[tuple[Reply, Sample, Judgement] | None] = ContextVar("crucible_last_judgement", default=None)


def judge(reply: Reply, sample: Sample) -> Judgement:
    """The judgement of a reply. A task asks all metrics of one sample one after another: the last judgement is kept for it."""
    last = _LAST.get()
    if last is None or last[0] is not reply or last[1] is not sample:
        last = (reply, sample, Judgement(reply, sample))
        _LAST.set(last)
    return last[2]


async def measured(reply: Reply, sample: Sample) -> Judgement:
    """The judgement of a reply, with what the configured models say of it."""
    judgement = judge(reply, sample)
    await judgement.measure()
    return judgement
