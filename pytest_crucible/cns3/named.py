"""The CNS3 metrics by name: strict ones, and Thinker's own under `thinker.`.

Their versions hold the identities of the scorers that they use and the rules that they count by, as far as these are known when
a session plans: a change of either is another metric.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from pytest_crucible.cns3 import graph, thinker
from pytest_crucible.cns3.antagonist import severity_counts
from pytest_crucible.cns3.antagonist.stored import METRIC as FINDINGS
from pytest_crucible.cns3.antagonist.stored import to_text
from pytest_crucible.cns3.citations import mentioned
from pytest_crucible.cns3.gold import Gold
from pytest_crucible.cns3.judgement import NO_CITATION, NOTHING_TO_CITE, Judgement, judge, measured
from pytest_crucible.cns3.reference import reference_of
from pytest_crucible.cns3.values import found, rules
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.records import Reply, Sample
from pytest_crucible.scorers.configured import (
    NO_ENTAILMENT,
    NO_SIMILARITY,
    entailment_scorer,
    similarity_scorer,
)

VERSION = "1"
Reading = Callable[[Judgement], Any]
Table = Mapping[str, tuple[str, Reading]]
"""Name to what it says, in a sentence, and how it is read."""


def _share(value: float | None, otherwise: NotApplicable) -> float | NotApplicable:
    return otherwise if value is None else value


def _chirality(judgement: Judgement) -> float | NotApplicable:
    given = judgement.chirality
    return given if isinstance(given, NotApplicable) else given.value


def _distance(judgement: Judgement) -> float | NotApplicable:
    given = judgement.chirality
    return given if isinstance(given, NotApplicable) else given.distance


BINARY: Table = {
    "schema_compliance": (
        "Every line is a claim or a relation, and none has a flaw.",
        lambda one: one.extraction.in_form,
    ),
    "citation_accuracy": ("A gold document is cited, and nothing else is.", lambda one: one.citation_accuracy),
    "citation_any": ("A gold document is cited.", lambda one: _share(one.citations.any, NOTHING_TO_CITE)),
    "citation_complete": (
        "Something is cited, and no gold document is left out.",
        lambda one: one.citations.complete if one.gold.evidence else NOTHING_TO_CITE,
    ),
    "entailment_pass": ("Entailment of 0.75 or more.", lambda one: one.entailment_pass),
    "similarity_pass": ("Similarity of 0.70 or more.", lambda one: one.similarity_pass),
    "overall_pass": ("In form, exactly cited, entailed and alike.", lambda one: one.overall_pass),
}
SHARES: Table = {
    "citation_precision": (
        "Share of the cited documents that are gold.",
        lambda one: _share(one.citations.precision, NO_CITATION),
    ),
    "citation_recall": (
        "Share of the gold documents that are cited.",
        lambda one: _share(one.citations.recall, NOTHING_TO_CITE),
    ),
    "citation_exists": (
        "Share of the cited documents that the prompt shows.",
        lambda one: _share(one.citations.exists, NO_CITATION),
    ),
    "entailment": ("How probably what is cited says of c1 what the reply says it does.", lambda one: one.entailment),
    "entailment_overlap": ("Share of the words of c1 that what is cited has.", lambda one: one.entailment_overlap),
    "similarity": ("How alike c1 and the gold claim are, by their embeddings.", lambda one: one.similarity),
    "similarity_tfidf": ("How alike c1 and the gold claim are, by their words.", lambda one: one.similarity_tfidf),
}
LOWER: Table = {"chirality": ("Distance, missing documents and conflict in one number.", _chirality)}
COUNTS: Table = {
    "high_flags": ("Findings of high severity.", lambda one: severity_counts(found(one))["HIGH"]),
    "medium_flags": ("Findings of medium severity.", lambda one: severity_counts(found(one))["MEDIUM"]),
    "beta1": (
        "Holes in the graph of claims.",
        lambda one: graph.beta1(one.extraction.claims, one.extraction.relations),
    ),
    "fisher_rao": ("Distance of c1 from the gold claim, in frozen standard deviations.", _distance),
    "flaws": ("What is wrong with the form.", lambda one: len(one.extraction.flaws)),
}
TEXTS: Table = {
    FINDINGS: (
        "What the rules found and what it rests on, as JSON, with the sample's gold flags.",
        lambda one: to_text(found(one), one.metadata),
    ),
}
FLAGS = ("high_flags", "medium_flags", FINDINGS)
BY_ENTAILMENT = {"entailment", "entailment_pass", "overall_pass", *FLAGS}
BY_REFERENCE = {"chirality", "fisher_rao", *FLAGS}
BY_SIMILARITY = {
    "similarity",
    "similarity_pass",
    "overall_pass",
    *BY_REFERENCE,
}
THINKER = (
    "schema_compliance", "citation_accuracy", "entailment", "entailment_pass", "similarity", "similarity_pass",
    "paraphrase_accepted", "overall_pass", "evidence_overlap", "polarity_conflict", "beta1",
)  # fmt: skip


def strict(name: str) -> Metric:
    """The metric of that name under the policy `strict`. Raises KeyError for one that there is not."""
    said, reading = {**BINARY, **SHARES, **LOWER, **COUNTS, **TEXTS}[name]

    async def ask(reply: Reply, sample: Sample) -> Any:
        return reading(await measured(reply, sample))

    def read(reply: Reply, sample: Sample) -> Any:
        return reading(judge(reply, sample))

    score = ask if name in BY_ENTAILMENT | BY_SIMILARITY else read
    score.__doc__ = said
    return metric(name=name, version=_version(name), **_facts(name))(score)


def _facts(name: str) -> dict[str, Any]:
    if name in TEXTS:
        return {"kind": "text"}
    if name in BINARY:
        return {"kind": "binary"}
    if name in COUNTS:
        kind = "positive" if name == "fisher_rao" else "count"
        return {"kind": kind, "direction": "lower"}
    return {"bounds": (0, 1), "direction": "lower" if name in LOWER else "higher"}


def _version(name: str) -> str:
    parts = [VERSION]
    if name in BY_ENTAILMENT:
        scorer = entailment_scorer()
        parts.append(scorer.identity if scorer else "no entailment scorer")
    alike = similarity_scorer()
    if name in BY_SIMILARITY:
        parts.append(alike.identity if alike else "no similarity scorer")
    if alike is not None and name in BY_REFERENCE:
        reference = reference_of(alike.identity)
        parts.append(reference.sha256[:12] if reference else "no reference statistics")
    if name in FLAGS:
        parts.append(hashlib.sha256(repr(rules()).encode()).hexdigest()[:12])
    return ":".join(parts)


def compatible(name: str) -> Metric:
    """Thinker's metric of that name, called `thinker.NAME`. Raises KeyError for one that there is not."""
    if name not in THINKER:
        raise KeyError(name)

    def score(reply: Reply, sample: Sample) -> Any:
        return _thinker(name, reply, sample)

    score.__doc__ = f"What Thinker computes under the name of {name}."
    graded = name in ("entailment", "similarity", "evidence_overlap")
    facts: dict[str, Any] = {"bounds": (0, 1)} if graded else {"kind": "count" if name == "beta1" else "binary"}
    lower = name in ("beta1", "polarity_conflict")
    version = f"thinker-compat:{_version(name)}"
    return metric(name=f"thinker.{name}", version=version, direction="lower" if lower else "higher", **facts)(score)


_FIELDS = {
    "schema_compliance": "schema_valid",
    "citation_accuracy": "citation_valid",
    "entailment": "entailment_score",
    "similarity": "semantic_similarity",
}


def _thinker(name: str, reply: Reply, sample: Sample) -> Any:
    if name == "evidence_overlap":
        return thinker.evidence_overlap(reply.text, judge(reply, sample).gold)
    if name in ("beta1", "polarity_conflict"):
        holes, conflict = thinker.shape(reply.text)
        return holes if name == "beta1" else conflict
    if name == "schema_compliance":
        return thinker.schema_valid(reply.text)
    if name == "citation_accuracy":
        return thinker.citation_valid(reply.text, judge(reply, sample).gold)
    return _staged(name, reply.text, judge(reply, sample).gold)


async def _staged(name: str, reply: str, gold: Gold) -> Any:
    """What needs models."""
    nli, alike = entailment_scorer(), similarity_scorer()
    if nli is None:
        return NotApplicable(NO_ENTAILMENT)
    if alike is None and name.startswith("similarity"):
        return NotApplicable(NO_SIMILARITY)
    said = thinker.central(reply)
    premise = " ".join(gold.documents[one].text for one in sorted(mentioned(reply)) if one in gold.documents)

    async def neutral() -> float:
        return (await nli.score([(premise, said)]))[0].neutral if premise and said else 0.0

    async def likeness() -> float:
        if alike is None or not said:
            return 0.0
        return min(max((await alike.similarity([(said, gold.claim)]))[0], 0.0), 1.0)

    scored = await thinker.stages(
        schema=thinker.schema_valid(reply),
        citation=thinker.citation_valid(reply, gold),
        entailment=neutral,
        similarity=likeness,
    )
    return getattr(scored, _FIELDS.get(name, name))


def __getattr__(name: str) -> Metric:
    """Metrics are made when they are asked for: their versions follow the session's configuration."""
    try:
        return compatible(name.removeprefix("thinker_")) if name.startswith("thinker_") else strict(name)
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
