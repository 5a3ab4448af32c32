"""SciFact rows as claim-extraction samples, prompts and training records.

An evaluation prompt shows the documents that the claim's author cited, in the author's order; a training prompt shows only
those that are evidence, in the order of their ids (Thinker's order is that of a set, which differs between runs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.presets.cns3.claims import CENTRAL, Claim, Label, Relation, render
from pytest_crucible.records.errors import DatasetError

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
    """Return the prompt about some documents, in their order."""
    passage = "\n\n".join(
        f"Document {name}: {document['title']}\n\n{' '.join(document['abstract'])}"
        for name, document in documents.items()
    )
    return _TASK.format(passage=passage)


def completion(claim: str, evidence: Sequence[tuple[str, str, Label]]) -> str:
    """Return the right answer: the claim, then for each piece of evidence (document, text, label) a claim and a relation.

    White space is collapsed: some sentences of the corpus contain line ends, which would end the claim.
    """
    claims = [Claim(CENTRAL, _one_line(claim))]
    relations = []
    for place, (document, text, label) in enumerate(evidence, start=2):
        claims.append(Claim(f"c{place}", _one_line(text), (document,)))
        relations.append(Relation(f"c{place}", label, CENTRAL))
    return render(claims, relations)


def samples(claims: Iterable[Row], corpus: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """Yield one sample per claim with any label; claims that share a document, directly or through others, form a group.

    `corpus` maps a document's id to its row (title, abstract). Raises DatasetError for a missing document.
    """
    rows = list(claims)
    groups = _groups([_cited_documents(row) for row in rows])
    for row, group in zip(rows, groups, strict=True):
        documents = {name: _document(corpus, name, row) for name in _cited_documents(row)}
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
    """Yield prompt and completion of each claim with evidence: one line of evidence for each rationale."""
    for row in claims:
        names = sorted(map(str, row["evidence"]), key=lambda name: (len(name), name))
        if not names:
            continue
        documents = {name: _document(corpus, name, row) for name in names}
        evidence = [
            (
                name,
                " ".join(documents[name]["abstract"][line] for line in rationale["sentences"]),
                read_relation(rationale["label"]),
            )
            for name in names
            for rationale in row["evidence"][name]
        ]
        yield {
            "prompt": prompt(documents),
            "completion": completion(row["claim"], evidence),
            "metadata": {"source": source, "claim_id": row["id"], "doc_ids": names, "license": licence},
        }


def label(row: Row) -> str:
    """Return SUPPORT or CONTRADICT by the evidence, NEI without evidence. No claim of SciFact has both."""
    labels = {read_relation(rationale["label"]) for sets in row["evidence"].values() for rationale in sets}
    return "NEI" if not labels else "SUPPORT" if "supports" in labels else "CONTRADICT"


def read_relation(label_text: str) -> Label:
    """Return the relation that a dataset's label means. Raises DatasetError for an unknown label: Thinker takes it for support.

    >>> read_relation("SUPPORTS"), read_relation("CONTRADICT"), read_relation("REFUTES")
    ('supports', 'refutes', 'refutes')
    """
    upper = label_text.upper()
    if "SUPPORT" in upper:
        return "supports"
    if "REFUT" in upper or "CONTRADICT" in upper:
        return "refutes"
    raise DatasetError(f"evidence has the label {label_text!r}; expected SUPPORT(S), CONTRADICT or REFUTE(S)")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cited_documents(row: Row) -> list[str]:
    """Return the documents that the author cited; if the file does not list them, those that are evidence."""
    return list(dict.fromkeys(map(str, row.get("cited_doc_ids") or row["evidence"])))


def _document(corpus: Mapping[str, Row], name: str, row: Row) -> dict[str, Any]:
    if name not in corpus:
        raise DatasetError(
            f"claim {row['id']} cites document {name}, which is not in the corpus: pass the complete corpus"
        )
    return {"title": corpus[name]["title"], "abstract": list(corpus[name]["abstract"])}


def _lines(sets: Iterable[Row]) -> list[int]:
    return sorted({line for rationale in sets for line in rationale["sentences"]})


def _groups(cited: Sequence[Sequence[str]]) -> list[str]:
    """Return for each claim the first document of its connected component."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = name = parent[parent[name]]
        return name

    for names in cited:
        for other in names[1:]:
            # The smaller name becomes the root, so that groups do not depend on the order of the claims.
            first, second = sorted((root(names[0]), root(other)))
            parent[second] = first
    return [root(names[0]) if names else f"claim {place}" for place, names in enumerate(cited)]
