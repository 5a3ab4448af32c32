"""The CNS3 metrics by name: strict ones, and Thinker's own under `thinker.`.

Their versions contain the identities of the scorers and rules that they use, as known when a session plans: with other scorers
or rules they are other metrics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from pytest_crucible.features.cns3 import claims, thinker
from pytest_crucible.features.cns3.antagonist import METRIC as FINDINGS
from pytest_crucible.features.cns3.antagonist import findings_in, rules, severity_counts, to_text
from pytest_crucible.features.cns3.chirality import find_reference
from pytest_crucible.features.cns3.claims import mentioned_ids
from pytest_crucible.features.cns3.judgement import (
    NO_CITATION,
    NOTHING_TO_CITE,
    Gold,
    Judgement,
    get_judgement,
    measure_reply,
)
from pytest_crucible.features.cns3.plugin import THINKER
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.models.scorers import NO_ENTAILMENT, NO_SIMILARITY, entailment_scorer, similarity_scorer
from pytest_crucible.records import Reply, Sample

# Part of the metrics' fingerprints: raise it when a definition changes, so that stored scores are computed again.
VERSION = "1"
Measure = Callable[[Judgement], Any]
Table = Mapping[str, tuple[str, Measure]]
"""Description and measure of each metric, by name."""


def _or_reason(name: str, otherwise: NotApplicable) -> Measure:
    """Return the measure of a property of the citations, or of why it does not apply."""

    def measure(judgement: Judgement) -> Any:
        value = getattr(judgement.citations, name)
        return otherwise if value is None else value

    return measure


BINARY: Table = {
    "schema_compliance": (
        "Every line is a claim or a relation, and none has a flaw.",
        attrgetter("extraction.well_formed"),
    ),
    "citation_accuracy": ("A gold document is cited, and nothing else is.", attrgetter("citation_accuracy")),
    "citation_any": ("A gold document is cited.", _or_reason("any", NOTHING_TO_CITE)),
    "citation_complete": (
        "Something is cited, and no gold document is left out.",
        lambda judgement: judgement.citations.complete if judgement.gold.evidence else NOTHING_TO_CITE,
    ),
    "entailment_pass": ("Entailment of 0.75 or more.", attrgetter("entailment_pass")),
    "similarity_pass": ("Similarity of 0.70 or more.", attrgetter("similarity_pass")),
    "overall_pass": ("Well formed, exactly cited, entailed and similar.", attrgetter("overall_pass")),
}
SHARES: Table = {
    "citation_precision": ("Share of the cited documents that are gold.", _or_reason("precision", NO_CITATION)),
    "citation_recall": ("Share of the gold documents that are cited.", _or_reason("recall", NOTHING_TO_CITE)),
    "citation_exists": ("Share of the cited documents that the prompt shows.", _or_reason("exists", NO_CITATION)),
    "entailment": (
        "Probability that the cited documents support or refute c1 as the reply states.",
        attrgetter("entailment"),
    ),
    "entailment_overlap": ("Share of c1's words that occur in the cited documents.", attrgetter("entailment_overlap")),
    "similarity": ("Similarity of c1 and the gold claim, by their embeddings.", attrgetter("similarity")),
    "similarity_tfidf": ("Similarity of c1 and the gold claim, by their words.", attrgetter("similarity_tfidf")),
}
LOWER: Table = {"chirality": ("Distance, missing documents and conflict as one number.", attrgetter("chirality_value"))}
COUNTS: Table = {
    "high_flags": ("Findings of high severity.", lambda judgement: severity_counts(findings_in(judgement))["HIGH"]),
    "medium_flags": (
        "Findings of medium severity.",
        lambda judgement: severity_counts(findings_in(judgement))["MEDIUM"],
    ),
    "beta1": (
        "Holes in the graph of claims.",
        lambda judgement: claims.beta1(judgement.extraction.claims, judgement.extraction.relations),
    ),
    "fisher_rao": ("Distance of c1 from the gold claim, in frozen standard deviations.", attrgetter("distance")),
    "flaws": ("Number of flaws in the form.", lambda judgement: len(judgement.extraction.flaws)),
}
TEXTS: Table = {
    FINDINGS: (
        "Findings of the rules and their evidence, as JSON, with the sample's gold flags.",
        lambda judgement: to_text(findings_in(judgement), judgement.metadata),
    )
}
FLAGS = ("high_flags", "medium_flags", FINDINGS)
BY_ENTAILMENT = {"entailment", "entailment_pass", "overall_pass", *FLAGS}
BY_REFERENCE = {"chirality", "fisher_rao", *FLAGS}
BY_SIMILARITY = {"similarity", "similarity_pass", "overall_pass", *BY_REFERENCE}
OF_SOME_REPLIES = {
    "entailment", "entailment_pass", "entailment_overlap", "similarity", "similarity_pass", "similarity_tfidf", "overall_pass",
    "citation_precision", "citation_exists", "chirality", "fisher_rao",
}  # fmt: skip
"""Metrics of what a reply may lack: a central claim, evidence for it, a citation."""


def strict_metric(name: str) -> Metric:
    """Return the metric with this name under the policy `strict`. Raises KeyError for an unknown name."""
    description, measure = {**BINARY, **SHARES, **LOWER, **COUNTS, **TEXTS}[name]

    async def ask(reply: Reply, sample: Sample) -> Any:
        return measure(await measure_reply(reply, sample))

    def read(reply: Reply, sample: Sample) -> Any:
        return measure(get_judgement(reply, sample))

    # Metrics without models stay plain functions, which cost no task.
    score = ask if name in BY_ENTAILMENT | BY_SIMILARITY else read
    score.__doc__ = description
    return metric(name=name, version=_version(name), **_facts(name))(score)


def _facts(name: str) -> dict[str, Any]:
    if name in TEXTS:
        return {"kind": "text"}
    applies = {"applies": "reply"} if name in OF_SOME_REPLIES else {}
    if name in BINARY:
        return {"kind": "binary", **applies}
    if name in COUNTS:
        kind = "positive" if name == "fisher_rao" else "count"
        return {"kind": kind, "direction": "lower", **applies}
    return {"bounds": (0, 1), "direction": "lower" if name in LOWER else "higher", **applies}


def _version(name: str) -> str:
    parts = [VERSION]
    if name in BY_ENTAILMENT:
        scorer = entailment_scorer()
        parts.append(scorer.identity if scorer else "no entailment scorer")
    alike = similarity_scorer()
    if name in BY_SIMILARITY:
        parts.append(alike.identity if alike else "no similarity scorer")
    if alike is not None and name in BY_REFERENCE:
        reference = find_reference(alike.identity)
        parts.append(reference.sha256[:12] if reference else "no reference statistics")
    if name in FLAGS:
        # Other rules are another metric: stored counts must not be compared.
        parts.append(hashlib.sha256(repr(rules()).encode()).hexdigest()[:12])
    return ":".join(parts)


def thinker_metric(name: str) -> Metric:
    """Return Thinker's metric with this name, called `thinker.NAME`. Raises KeyError for an unknown name."""
    if name not in THINKER:
        raise KeyError(name)

    def score(reply: Reply, sample: Sample) -> Any:
        return _thinker(name, reply, sample)

    score.__doc__ = f"Thinker's own {name}."
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
        return thinker.evidence_overlap(reply.text, get_judgement(reply, sample).gold)
    if name in ("beta1", "polarity_conflict"):
        holes, conflict = thinker.shape(reply.text)
        return holes if name == "beta1" else conflict
    if name == "schema_compliance":
        return thinker.schema_valid(reply.text)
    if name == "citation_accuracy":
        return thinker.citation_valid(reply.text, get_judgement(reply, sample).gold)
    return _model_value(name, reply.text, get_judgement(reply, sample).gold)


async def _model_value(name: str, reply: str, gold: Gold) -> Any:
    """Return a value that needs models."""
    nli, alike = entailment_scorer(), similarity_scorer()
    if nli is None:
        return NotApplicable(NO_ENTAILMENT)
    if alike is None and name.startswith("similarity"):
        return NotApplicable(NO_SIMILARITY)
    central = thinker.central(reply)
    premise = " ".join(
        gold.documents[judgement].text for judgement in sorted(mentioned_ids(reply)) if judgement in gold.documents
    )

    async def neutral() -> float:
        return (await nli.score([(premise, central)]))[0].neutral if premise and central else 0.0

    async def likeness() -> float:
        if alike is None or not central:
            return 0.0
        return min(max((await alike.similarity([(central, gold.claim)]))[0], 0.0), 1.0)

    stages = await thinker.stages(
        schema=thinker.schema_valid(reply),
        citation=thinker.citation_valid(reply, gold),
        entailment=neutral,
        similarity=likeness,
    )
    return getattr(stages, _FIELDS.get(name, name))


def __getattr__(name: str) -> Metric:
    """Make a metric when it is accessed: its version follows the session's configuration."""
    try:
        return thinker_metric(name.removeprefix("thinker_")) if name.startswith("thinker_") else strict_metric(name)
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
