"""SciFact rows as claim-extraction samples, prompts and training records.

An evaluation prompt shows the documents that the claim's author cited, in the author's order; a training prompt shows only
those that are evidence, in the order of their ids (Thinker's order is that of a set, which differs between runs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pytest_crucible.datasets.release import OfficialFile, Release
from pytest_crucible.features.cns3.claims import CENTRAL, Claim, Label, Relation, find_roots, render
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.row_files import read_rows

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
        evidence = {
            str(name): sorted({line for rationale in sets for line in rationale["sentences"]})
            for name, sets in row["evidence"].items()
        }
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


def _groups(cited: Sequence[Sequence[str]]) -> list[str]:
    """Return for each claim the first document of its connected component."""
    edges = [(names[0], other) for names in cited for other in names[1:]]
    roots = find_roots((name for names in cited for name in names), edges)
    return [roots[names[0]] if names else f"claim {place}" for place, names in enumerate(cited)]


RELEASE = "https://scifact.s3-us-west-2.amazonaws.com/release/latest/data.tar.gz"
SHA256 = {
    "claims_dev.jsonl": "86f0435d08fdb65d1aa41d1472684f57e6e71930626497bdf4d7a9ec1a632217",
    "claims_train.jsonl": "f4c8fa82d8bd0653a9cc8d61a6ea48c25eacea64e90af5dbf390ebb1b74372f0",
    "corpus.jsonl": "b8d6c89624cb2ed74dee8938effc4f5d8bd2086887880af8110d64be4ceade62",
}
DATASETS = {"scifact-dev": ("claims_dev.jsonl", 300), "scifact-train": ("claims_train.jsonl", 809)}


def release(name: str) -> Release:
    """Return the release `scifact-dev` or `scifact-train`. Raises KeyError."""
    file, count = DATASETS[name]
    return Release(
        name=name,
        says="claims to extract from the abstracts that their authors cited; expected label SUPPORT, CONTRADICT or NEI",
        samples=count,
        licence="CC BY 4.0; abstracts ODC-By 1.0",
        source="https://github.com/allenai/scifact",
        files=(_file(file), _file("corpus.jsonl")),
        read=lambda paths: samples(claims(name), corpus()),
    )


def claims(name: str) -> list[dict[str, Any]]:
    """Return the rows of a split as released."""
    return _split_rows(DATASETS[name][0])


@cache
def corpus() -> Mapping[str, Mapping[str, Any]]:
    """Return all 5,183 abstracts by id; read once per process."""
    return {str(row["doc_id"]): row for row in _split_rows("corpus.jsonl")}


def _split_rows(file: str) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(_file(file).path())]


def _file(name: str) -> OfficialFile:
    return OfficialFile(name=f"scifact/{name}", url=RELEASE, sha256=SHA256[name], member=f"data/{name}")


# Number of predicted sentences per abstract that count as its rationale: the first ones.
MAX_SENTENCES = 3
# The labels of evidence. An abstract without evidence is not predicted, so the third label of claims is not among them.
LABELS = ("SUPPORT", "CONTRADICT")


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of right, predicted and gold items."""

    right: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """0 if nothing was predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if nothing is right."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Scores:
    """SciFact's four scores."""

    abstract_label_only: Score
    """The abstract is evidence, and its label is right."""
    abstract_rationalized: Score
    """The abstract is evidence with the right label, and its first three predicted sentences contain a whole gold rationale."""
    sentence_selection: Score
    """The sentence belongs to a gold rationale all of whose sentences were predicted."""
    sentence_label: Score
    """The sentence is right as in `sentence_selection`, and the abstract's label is right."""

    def as_mapping(self) -> dict[str, float]:
        """Return the twelve numbers under the official evaluator's names."""
        return {
            f"{question}_{part}": getattr(getattr(self, question), part)
            for question in self.__slots__
            for part in ("precision", "recall", "f1")
        }


def evaluate(gold: Iterable[Row], predicted: Iterable[Row]) -> Scores:
    """Score predictions (`id`, `evidence`: document to `sentences` and `label`) against claims in SciFact's form.

    Claims without a prediction count as empty predictions. A sentence that is predicted twice counts once. Raises DatasetError
    for a prediction of an unknown claim, for two predictions of one claim, and for a label other than LABELS.
    """
    claims = {row["id"]: row["evidence"] for row in gold}
    predictions: dict[Any, Row] = {}
    for row in predicted:
        if row["id"] not in claims or row["id"] in predictions:
            problem = "is predicted twice" if row["id"] in predictions else "is not among the claims"
            raise DatasetError(f"claim {row['id']} {problem}: give one prediction for each claim of the gold file")
        _check_labels(row)
        predictions[row["id"]] = row["evidence"]
    counts = (_counts(evidence, predictions.get(name, {})) for name, evidence in claims.items())
    abstracts, sentences, gold_abstracts, gold_sentences, *right = map(sum, zip([0] * 8, *counts, strict=True))
    return Scores(
        Score(right[0], abstracts, gold_abstracts),
        Score(right[1], abstracts, gold_abstracts),
        Score(right[2], sentences, gold_sentences),
        Score(right[3], sentences, gold_sentences),
    )


def _check_labels(row: Row) -> None:
    for document, prediction in row["evidence"].items():
        if prediction["label"] not in LABELS:
            raise DatasetError(
                f"claim {row['id']} has the label {prediction['label']!r} for document {document}: write one of "
                f"{', '.join(LABELS)}, and leave out documents that are not evidence"
            )


def _counts(gold: Row, predicted: Row) -> tuple[int, ...]:
    """Count, for one claim: predicted abstracts and sentences, gold ones, and right ones by each of the four scores."""
    rationales = {document: [set(prediction["sentences"]) for prediction in sets] for document, sets in gold.items()}
    labelled = rationalized = selected = selected_and_labelled = 0
    for document, prediction in predicted.items():
        sets, chosen = rationales.get(document, []), prediction["sentences"]
        right = bool(sets) and gold[document][0]["label"] == prediction["label"]
        # Chosen sentences, each counted once, of rationales that were chosen as a whole.
        whole = len(set().union(*(each for each in sets if each <= set(chosen))))
        labelled += right
        rationalized += right and any(each <= set(chosen[:MAX_SENTENCES]) for each in sets)
        selected += whole
        selected_and_labelled += whole if right else 0
    return (
        len(predicted),
        sum(len(set(prediction["sentences"])) for prediction in predicted.values()),
        len(gold),
        sum(len(set().union(*sets)) for sets in rationales.values()),
        labelled,
        rationalized,
        selected,
        selected_and_labelled,
    )
