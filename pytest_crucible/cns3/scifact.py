"""SciFact rows as claim-extraction samples, prompts and training records.

An evaluation prompt shows the documents that the claim's author cited, in the author's order; a training prompt only those that
are evidence, in the order of their ids (Thinker's order is that of a set, which differs from run to run).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.cns3.claims import CENTRAL, Claim, Label, Relation, render
from pytest_crucible.errors import DatasetError

Row = Mapping[str, Any]
LICENCE = "CC-BY-4.0"
_TASK = """\
You are extracting atomic claims and their logical relations from scientific abstracts.

Passage:
{passage}

Task:
1. Restate the passage's central hypothesis verbatim (or with minimal edits) as CLAIM[c1].
2. Continue listing distinct factual claims as CLAIM[c#] (Document <doc_id>): <text> using precise language from the passage.
3. Use RELATION: <source_id> <supports|refutes> <target_id> to link evidence claims to the main hypothesis.

"""


def prompt(documents: Mapping[str, Row]) -> str:
    """The question about some documents, in their order."""
    passage = "\n\n".join(
        f"Document {name}: {one['title']}\n\n{' '.join(one['abstract'])}" for name, one in documents.items()
    )
    return _TASK.format(passage=passage)


def completion(claim: str, evidence: Sequence[tuple[str, str, Label]]) -> str:
    """The right answer: the claim, and for every piece of evidence (document, text, label) a claim and a relation.

    Runs of white space become one blank: some sentences of the corpus have line ends in them, which would end the claim.
    """
    claims = [Claim(CENTRAL, _one_line(claim))]
    relations = []
    for place, (document, text, label) in enumerate(evidence, start=2):
        claims.append(Claim(f"c{place}", _one_line(text), (document,)))
        relations.append(Relation(f"c{place}", label, CENTRAL))
    return render(claims, relations)


def samples(claims: Iterable[Row], corpus: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """One sample for each claim, whatever its label; claims that share a document, directly or through others, are a group.

    `corpus` maps a document's id to its row (title, abstract). Raises DatasetError for a document that it lacks.
    """
    rows = list(claims)
    groups = _groups([_cited(row) for row in rows])
    for row, group in zip(rows, groups, strict=True):
        documents = {name: _document(corpus, name, row) for name in _cited(row)}
        evidence = {str(name): _lines(sets) for name, sets in row["evidence"].items()}
        yield {
            "id": str(row["id"]),
            "input": prompt(documents),
            "expected": {"claim": row["claim"], "label": label(row), "cited": list(documents), "evidence": evidence},
            "group": group,
            "documents": documents,
            "label": label(row),
        }


def training_records(
    claims: Iterable[Row], corpus: Mapping[str, Row], *, source: str = "SciFact", licence: str = LICENCE
) -> Iterator[dict[str, Any]]:
    """Prompt and completion of every claim that has evidence, with its source: a line of evidence for each rationale."""
    for row in claims:
        names = sorted(map(str, row["evidence"]), key=lambda name: (len(name), name))
        if not names:
            continue
        documents = {name: _document(corpus, name, row) for name in names}
        evidence = [
            (name, " ".join(documents[name]["abstract"][line] for line in one["sentences"]), relation_of(one["label"]))
            for name in names
            for one in row["evidence"][name]
        ]
        yield {
            "prompt": prompt(documents),
            "completion": completion(row["claim"], evidence),
            "metadata": {"source": source, "claim_id": row["id"], "doc_ids": names, "license": licence},
        }


def label(row: Row) -> str:
    """SUPPORT or CONTRADICT as the evidence says, NEI where there is none. No claim of SciFact has both."""
    labels = {relation_of(one["label"]) for sets in row["evidence"].values() for one in sets}
    return "NEI" if not labels else "SUPPORT" if "supports" in labels else "CONTRADICT"


def relation_of(given: str) -> Label:
    """The relation that a label of a dataset stands for. Raises DatasetError for an unknown one: Thinker reads it as support.

    >>> relation_of("SUPPORTS"), relation_of("CONTRADICT"), relation_of("REFUTES")
    ('supports', 'refutes', 'refutes')
    """
    said = given.upper()
    if "SUPPORT" in said:
        return "supports"
    if "REFUT" in said or "CONTRADICT" in said:
        return "refutes"
    raise DatasetError(f"evidence has the label {given!r}: wanted SUPPORT(S), CONTRADICT or REFUTE(S)")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cited(row: Row) -> list[str]:
    """The documents that the author cited; where a file does not say, those that are evidence."""
    return list(dict.fromkeys(map(str, row.get("cited_doc_ids") or row["evidence"])))


def _document(corpus: Mapping[str, Row], name: str, row: Row) -> dict[str, Any]:
    if name not in corpus:
        raise DatasetError(f"claim {row['id']} cites document {name}, which the corpus does not have")
    return {"title": corpus[name]["title"], "abstract": list(corpus[name]["abstract"])}


def _lines(sets: Iterable[Row]) -> list[int]:
    return sorted({line for one in sets for line in one["sentences"]})


def _groups(cited: Sequence[Sequence[str]]) -> list[str]:
    """For each claim the first document of all that hang together with its own."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = name = parent[parent[name]]
        return name

    for names in cited:
        for other in names[1:]:
            one, two = sorted((root(names[0]), root(other)))
            parent[two] = one
    return [root(names[0]) if names else f"claim {place}" for place, names in enumerate(cited)]
