"""How good an extraction is: form, citations, quotes and verbs of one completion, against the passage and the right answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

_CLAIM = re.compile(r"CLAIM\[(c\d+)\](?: \(Document (\d+)\))?: (\S.*)")
_RELATION = re.compile(r"RELATION: (c\d+) (supports|refutes) (c\d+)")
_DOCUMENT = re.compile(r"Document (\d+): .*\n(.*)")


@dataclass(frozen=True, slots=True)
class Judgement:
    """Shares of one completion. `verb` is None where nothing was quoted that a verb could be right about."""

    schema: bool
    """Every line is a claim or a relation, c1 is the first, and each later claim has a document and one relation to c1."""
    citation: float
    """Share of cited claims whose document holds the sentence of the passage most like the claim; 0 where none is cited."""
    quotation: float
    """Share of cited claims that are evidence of the right answer, word by word."""
    verb: float | None
    """Share of rightly quoted claims with the right verb."""
    whole: bool
    """Whether the completion is the right answer."""


def judge(prompt: str, expected: str, completion: str) -> Judgement:
    """Judge one completion.

    >>> answer = "CLAIM[c1]: A cuts b.\\nCLAIM[c2] (Document 7): B fell.\\nRELATION: c2 supports c1"
    >>> judge("Document 7: On b\\nB fell. So it goes.\\n\\n", answer, answer.replace("supports", "refutes"))
    Judgement(schema=True, citation=1.0, quotation=1.0, verb=0.0, whole=False)
    """
    claims, relations = _parsed(completion)
    right_claims, right_relations = _parsed(expected)
    right = {text: right_relations.get(name) for name, (number, text) in right_claims.items() if number}
    cited = {name: (number, text) for name, (number, text) in claims.items() if number}
    held = [_holds(prompt, number, text) for number, text in cited.values()]
    quoted = {name: text for name, (_, text) in cited.items() if text in right}
    verbs = [relations.get(name) == right[text] for name, text in quoted.items()]
    return Judgement(
        schema=_is_schema(completion, claims, relations),
        citation=sum(held) / len(held) if held else 0.0,
        quotation=len(quoted) / len(cited) if cited else 0.0,
        verb=sum(verbs) / len(verbs) if verbs else None,
        whole=completion.strip() == expected.strip(),
    )


def _holds(prompt: str, number: str, claim: str) -> bool:
    likeness = {found[1]: _likeness(found[2], claim) for found in _DOCUMENT.finditer(prompt)}
    return bool(likeness) and likeness.get(number, 0.0) == max(likeness.values()) > 0.5


def _likeness(abstract: str, claim: str) -> float:
    """Of the abstract's sentence most like the claim: 1 when it is the same, 0 when nothing is shared."""
    return max(SequenceMatcher(None, claim, sentence + ".", False).ratio() for sentence in abstract.split("."))


def _parsed(completion: str) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    lines = completion.strip().split("\n")
    claims = {match[1]: (match[2] or "", match[3]) for line in lines if (match := _CLAIM.fullmatch(line))}
    relations = {match[1]: match[2] for line in lines if (match := _RELATION.fullmatch(line)) and match[3] == "c1"}
    return claims, relations


def _is_schema(completion: str, claims: dict[str, tuple[str, str]], relations: dict[str, str]) -> bool:
    lines = completion.strip().split("\n")
    evidence = [name for name, (number, _) in claims.items() if number]
    in_order = list(claims) == [f"c{place + 1}" for place in range(len(claims))]
    whole = len(lines) == len(claims) + len(relations) == 2 * len(evidence) + 1
    return whole and in_order and evidence == list(claims)[1:] == list(relations) and bool(evidence)
