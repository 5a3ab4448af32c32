"""The policy `thinker-compat`: Thinker's numbers as Thinker computes them, to compare with published ones.

Its entailment is the probability that its NLI model gives to *neutral* (index 2 of contradiction, entailment, neutral); its
zeros stand for values that were not measured; and similarity never decides `overall_pass`. None of this is recommended.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache

from pytest_crucible.features.cns3.claims import CENTRAL, Claim, Relation, beta1, mentioned_ids, polarity_conflict
from pytest_crucible.features.cns3.judgement import Gold
from pytest_crucible.quick_dataclass import dataclass

MIN_ENTAILMENT, MIN_SIMILARITY = 0.75, 0.70
# Thinker's patterns, with possessive repetitions (\s*+): they match the same lines, in linear time.
_CLAIM = re.compile(r"^CLAIM\[(?P<id>[^\]]+)\]\s*+(?:\(Document\s+\d+\)\s*+)?:\s*+(?P<body>.*)$", re.IGNORECASE)
_RELATION = re.compile(
    r"^RELATION\s*+(?:[:\-]\s*+)?(?P<source>\S+)\s+(?P<label>supports|refutes|contrasts)\s+(?P<target>\S+)",
    re.IGNORECASE,
)
_ANY_CLAIM = re.compile(r"CLAIM\[c\d+\]")


@dataclass(frozen=True, slots=True)
class Stages:
    """Thinker's results for one sample: a stage that fails leaves zeros behind it."""

    schema_valid: bool
    citation_valid: bool
    entailment_score: float
    entailment_pass: bool
    semantic_similarity: float
    similarity_pass: bool
    paraphrase_accepted: bool
    overall_pass: bool


def schema_valid(reply: str) -> bool:
    """Return whether a numbered claim, c1 and the word RELATION occur anywhere, even if no line can be parsed.

    >>> schema_valid("I will write CLAIM[c1] and a relation")
    True
    """
    return bool(_ANY_CLAIM.search(reply)) and "CLAIM[c1]" in reply and "RELATION" in reply.upper()


def citation_valid(reply: str, gold: Gold) -> bool:
    """Return whether a document is mentioned and none that the author cited is left out; invented ones do not count."""
    cited = mentioned_ids(reply)
    return bool(cited) and set(gold.cited) <= cited


def evidence_overlap(reply: str, gold: Gold) -> float:
    """Return the recall of the documents that the author cited; 0 if there are none."""
    return len(mentioned_ids(reply) & set(gold.cited)) / len(gold.cited) if gold.cited else 0.0


@lru_cache(maxsize=1)
def read(reply: str) -> tuple[tuple[Claim, ...], tuple[Relation, ...]]:
    """Read claims and relations by Thinker's patterns: the last claim with an id counts, and `c1.` is another id than `c1`."""
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
    """Return the text of c1; empty if no line is one."""
    return next((claim.text for claim in read(reply)[0] if claim.id == CENTRAL), "")


def shape(reply: str) -> tuple[int, bool]:
    """Return beta1 of the simple graph, and whether c1 is both supported and refuted."""
    claims, relations = read(reply)
    return beta1(claims, relations, multigraph=False), polarity_conflict(relations)


async def stages(
    *,
    schema: bool,
    citation: bool,
    entailment: Callable[[], Awaitable[float]],
    similarity: Callable[[], Awaitable[float]],
) -> Stages:
    """Measure until a stage fails, and write zeros for the rest."""
    entailed = await entailment() if citation else 0.0
    entailment_pass = citation and entailed >= MIN_ENTAILMENT
    alike = await similarity() if entailment_pass else 0.0
    return Stages(
        schema_valid=schema,
        citation_valid=citation,
        entailment_score=entailed,
        entailment_pass=entailment_pass,
        semantic_similarity=alike,
        similarity_pass=entailment_pass and alike >= MIN_SIMILARITY,
        paraphrase_accepted=entailment_pass,
        # Thinker's (similarity or paraphrase) is implied by the stages before it.
        overall_pass=entailment_pass,
    )
