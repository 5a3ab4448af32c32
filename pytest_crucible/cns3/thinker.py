"""The policy `thinker-compat`: Thinker's numbers as Thinker computes them, for comparison with what was published.

What it calls entailment is the probability that its NLI model gives to *neutral* (index 2 of contradiction, entailment,
neutral); zeros stand where nothing was measured; and similarity never decides `overall_pass`. Nothing here is advice.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pytest_crucible.cns3.citations import mentioned
from pytest_crucible.cns3.claims import CENTRAL, Claim, Relation
from pytest_crucible.cns3.gold import Gold
from pytest_crucible.cns3.graph import beta1, polarity_conflict

ENTAILED, ALIKE = 0.75, 0.70
_CLAIM = re.compile(r"^CLAIM\[(?P<id>[^\]]+)\]\s*(?:\(Document\s+\d+\))?\s*:\s*(?P<body>.*)$", re.IGNORECASE)
_RELATION = re.compile(
    r"^RELATION\s*[:\-]?\s*(?P<source>\S+)\s+(?P<label>supports|refutes|contrasts)\s+(?P<target>\S+)", re.IGNORECASE
)
_ANY_CLAIM = re.compile(r"CLAIM\[c\d+\]")


@dataclass(frozen=True, slots=True)
class Stages:
    """What Thinker writes for one sample: a stage that fails leaves zeros behind it."""

    schema_valid: bool
    citation_valid: bool
    entailment_score: float
    entailment_pass: bool
    semantic_similarity: float
    similarity_pass: bool
    paraphrase_accepted: bool
    overall_pass: bool


def schema_valid(reply: str) -> bool:
    """A claim with a number, a c1 and the word RELATION occur somewhere; whether a line can be read does not matter.

    >>> schema_valid("I will write CLAIM[c1] and a relation")
    True
    """
    return bool(_ANY_CLAIM.search(reply)) and "CLAIM[c1]" in reply and "RELATION" in reply.upper()


def citation_valid(reply: str, gold: Gold) -> bool:
    """Some document is mentioned, and no document that the author cited is left out; invented ones do no harm."""
    cited = mentioned(reply)
    return bool(cited) and set(gold.cited) <= cited


def evidence_overlap(reply: str, gold: Gold) -> float:
    """Recall of the documents that the author cited; 0 where there are none."""
    return len(mentioned(reply) & set(gold.cited)) / len(gold.cited) if gold.cited else 0.0


@lru_cache(maxsize=1)
def read(reply: str) -> tuple[tuple[Claim, ...], tuple[Relation, ...]]:
    """Claims and relations by Thinker's expressions: the last claim of an id counts, `c1.` is another id than `c1`."""
    claims: dict[str, Claim] = {}
    relations = []
    for line in map(str.strip, reply.splitlines()):
        if match := _CLAIM.match(line):
            claims[match["id"].lower()] = Claim(match["id"].lower(), match["body"].strip())
        elif match := _RELATION.match(line):
            label = match["label"].lower()
            relations.append(Relation(match["source"].lower(), label, match["target"].lower()))  # type: ignore[arg-type]  # the expression takes no other label
    return tuple(claims.values()), tuple(relations)


def central(reply: str) -> str:
    """The text of c1; empty where no line can be read as it."""
    return next((claim.text for claim in read(reply)[0] if claim.id == CENTRAL), "")


def shape(reply: str) -> tuple[int, bool]:
    """beta1 of the simple graph, and whether c1 is both supported and refuted."""
    claims, relations = read(reply)
    return beta1(claims, relations, multigraph=False), polarity_conflict(relations)


async def stages(
    *,
    schema: bool,
    citation: bool,
    entailment: Callable[[], Awaitable[float]],
    similarity: Callable[[], Awaitable[float]],
) -> Stages:
    """Measure until something fails, and write zeros for the rest."""
    entailed = await entailment() if citation else 0.0
    entailment_pass = citation and entailed >= ENTAILED
    alike = await similarity() if entailment_pass else 0.0
    return Stages(
        schema_valid=schema,
        citation_valid=citation,
        entailment_score=entailed,
        entailment_pass=entailment_pass,
        semantic_similarity=alike,
        similarity_pass=entailment_pass and alike >= ALIKE,
        paraphrase_accepted=entailment_pass,
        overall_pass=entailment_pass,  # (similarity or paraphrase) is implied by what precedes it
    )


def aggregate(several: Sequence[Stages]) -> Mapping[str, float]:
    """Rates and means under Thinker's names, over all samples, zeros included. Raises ValueError for none."""
    if not several:
        raise ValueError("there are no samples to aggregate")
    rates = {
        "schema_compliance_rate": "schema_valid",
        "citation_accuracy_rate": "citation_valid",
        "entailment_pass_rate": "entailment_pass",
        "semantic_similarity_rate": "similarity_pass",
        "paraphrase_acceptance_rate": "paraphrase_accepted",
        "overall_pass_rate": "overall_pass",
        "mean_entailment_score": "entailment_score",
        "mean_semantic_similarity": "semantic_similarity",
    }
    means = {name: statistics.fmean(getattr(one, field) for one in several) for name, field in rates.items()}
    spreads = {
        "std_entailment_score": statistics.pstdev(one.entailment_score for one in several),
        "std_semantic_similarity": statistics.pstdev(one.semantic_similarity for one in several),
    }
    return {**means, **spreads}
