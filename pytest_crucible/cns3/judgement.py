"""Everything that can be said of one reply, each thing computed once: nothing stops at the first failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from pytest_crucible.cns3.chirality import Chirality, chirality_of
from pytest_crucible.cns3.citations import Citations
from pytest_crucible.cns3.claims import CENTRAL, Extraction, parse
from pytest_crucible.cns3.gold import Gold, gold_of
from pytest_crucible.cns3.graph import polarity_conflict
from pytest_crucible.cns3.overlap import overlap
from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.records import Reply, Sample
from pytest_crucible.scorers.configured import NO_ENTAILMENT, NO_SIMILARITY, entailment_scorer, similarity_scorer

Kept = TypeVar("Kept")
ENTAILED, ALIKE = 0.75, 0.70
"""From here on a score passes."""
NOTHING_TO_CITE = NotApplicable("no document is evidence for or against the claim")
NO_CITATION = NotApplicable("the reply cites no document")
NO_CENTRAL_CLAIM = NotApplicable("the reply has no central claim")
NO_EVIDENCE = NotApplicable("no claim that cites a document of the prompt relates to c1")


class Judgement:
    """One reply to one sample, under the strict policy."""

    def __init__(self, reply: Reply, sample: Sample) -> None:
        self._reply = reply
        self._sample = sample
        self._kept: dict[str, Any] = {}

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
    def evidence(self) -> tuple[tuple[str, bool], ...]:
        """For each claim that relates to c1 and cites: the text of what it cites, and whether it supports."""
        documents = self.gold.documents
        sources = {claim.id: claim.documents for claim in self.extraction.claims}
        found = []
        for one in self.extraction.relations:
            texts = [documents[name].text for name in sources.get(one.source, ()) if name in documents]
            if one.target == CENTRAL and one.label != "contrasts" and texts:
                found.append((" ".join(texts), one.label == "supports"))
        return tuple(found)

    @cached_property
    def entailment(self) -> float | NotApplicable:
        """Mean over the evidence of P(entailment) where it is said to support c1, of P(contradiction) where to refute it."""
        scorer = entailment_scorer()
        if scorer is None:
            return NotApplicable(NO_ENTAILMENT)
        if problem := self._unrelated():
            return problem
        pairs = [(premise, self.extraction.central) for premise, _ in self.evidence]
        scores = [
            one.entailment if supports else one.contradiction
            for one, (_, supports) in zip(scorer.score(pairs), self.evidence, strict=True)
        ]
        return sum(scores) / len(scores)

    @cached_property
    def entailment_overlap(self) -> float | NotApplicable:
        """Mean over the evidence of the share of c1's words that it has. It knows nothing of who supports and who refutes."""
        if problem := self._unrelated():
            return problem
        scores = [overlap(premise, self.extraction.central) for premise, _ in self.evidence]
        return sum(scores) / len(scores)

    def _unrelated(self) -> NotApplicable | None:
        if not self.extraction.central:
            return NO_CENTRAL_CLAIM
        return None if self.evidence else NO_EVIDENCE

    @cached_property
    def similarity(self) -> float | NotApplicable:
        """How alike c1 and the gold claim are, from 0 to 1."""
        scorer = similarity_scorer()
        if scorer is None:
            return NotApplicable(NO_SIMILARITY)
        if not self.extraction.central:
            return NO_CENTRAL_CLAIM
        (score,) = scorer.similarity([(self.extraction.central, self.gold.claim)])
        return min(max(score, 0.0), 1.0)

    @property
    def entailment_pass(self) -> bool | NotApplicable:
        return _passes(self.entailment, ENTAILED, NO_ENTAILMENT)

    @property
    def similarity_pass(self) -> bool | NotApplicable:
        return _passes(self.similarity, ALIKE, NO_SIMILARITY)

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

    @cached_property
    def chirality(self) -> Chirality | NotApplicable:
        """Distance, overlap and conflict in one number, against frozen reference statistics."""
        scorer = similarity_scorer()
        if scorer is None:
            return NotApplicable(NO_SIMILARITY)
        return chirality_of(
            scorer, self.extraction.central, self.gold.claim, overlap=self.citations.recall, conflict=self.conflict
        )


def _passes(score: float | NotApplicable, threshold: float, unconfigured: str) -> bool | NotApplicable:
    """What the reply itself left out does not pass; what nobody can measure does not apply."""
    if isinstance(score, NotApplicable):
        return score if score.reason == unconfigured else False
    return score >= threshold


_last: tuple[Reply, Sample, Judgement] | None = None


def judge(reply: Reply, sample: Sample) -> Judgement:
    """The judgement of a reply. All metrics of one sample are asked one after another: the last judgement is kept for them."""
    global _last
    if _last is None or _last[0] is not reply or _last[1] is not sample:
        _last = (reply, sample, Judgement(reply, sample))
    return _last[2]
