"""SciFact and FEVER rows as prompts, samples and training records, and the scores of SciFact's official evaluator."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from pytest_crucible.datasets import load_rows
from pytest_crucible.datasets.benchmarks import evidence_of
from pytest_crucible.features.cns3 import fever
from pytest_crucible.features.cns3.claims import parse
from pytest_crucible.features.cns3.fever import evidence_pages, page_number, read_pages
from pytest_crucible.features.cns3.judgement import read_gold
from pytest_crucible.features.cns3.scifact import Score, evaluate, samples, training_records
from pytest_crucible.records.errors import DatasetError

CLAIM = {
    "id": 1001,
    "claim": "Vitamin C supplementation reduces cold duration.",
    "evidence": {"1": [{"sentences": [0, 1], "label": "SUPPORTS"}]},
    "cited_doc_ids": [1],
}
CORPUS = {
    "1": {
        "title": "Effects of Vitamin C on Colds",
        "abstract": [
            "Vitamin C supplementation can reduce the duration of common cold symptoms.",
            "Several randomized trials report mild benefits.",
        ],
    },
    "2": {"title": "Green Tea", "abstract": ["It is green."]},
}
DATA = Path(os.environ.get("CRUCIBLE_DATA", "")) / "scifact"


def test_a_training_record_equals_that_of_thinker():
    (record,) = training_records([CLAIM], CORPUS)

    assert record == {
        "prompt": "You are extracting atomic claims and their logical relations from scientific abstracts.\n\n"
        "Passage:\nDocument 1: Effects of Vitamin C on Colds\n\n"
        "Vitamin C supplementation can reduce the duration of common cold symptoms. "
        "Several randomized trials report mild benefits.\n\nTask:\n"
        "1. Restate the passage's central hypothesis verbatim (or with minimal edits) as CLAIM[c1].\n"
        "2. Continue listing distinct factual claims as CLAIM[c#] (Document <doc_id>): <text> using precise language "
        "from the passage.\n"
        "3. Use RELATION: <source_id> <supports|refutes> <target_id> to link evidence claims to the main hypothesis.\n\n",
        "completion": "CLAIM[c1]: Vitamin C supplementation reduces cold duration.\n"
        "CLAIM[c2] (Document 1): Vitamin C supplementation can reduce the duration of common cold symptoms. "
        "Several randomized trials report mild benefits.\nRELATION: c2 supports c1",
        "metadata": {"source": "SciFact", "claim_id": 1001, "doc_ids": ["1"], "license": "CC-BY-4.0"},
    }


def test_a_sample_shows_cited_documents_in_order_and_has_their_evidence():
    row = {**CLAIM, "cited_doc_ids": [2, 1]}
    (sample,) = load_rows(samples([row], CORPUS), name="scifact", fields={})
    gold = read_gold(sample)

    assert sample.input.index("Document 2") < sample.input.index("Document 1")
    assert (gold.cited, dict(gold.evidence), gold.label) == (("2", "1"), {"1": (0, 1)}, "SUPPORT")
    assert gold.documents["2"].text == "Green Tea It is green."


def test_claims_that_share_a_document_are_a_group():
    rows = [{**CLAIM, "id": k, "cited_doc_ids": cited} for k, cited in enumerate([[1], [2], [1, 2], [3]])]
    corpus = {**CORPUS, "3": CORPUS["2"]}
    groups = [sample["group"] for sample in samples(rows, corpus)]

    assert groups[0] == groups[1] == groups[2] != groups[3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cited_doc_ids": [9]}, "claim 1001 cites document 9, which is not in the corpus"),
        ({"evidence": {"1": [{"sentences": [0], "label": "NOT ENOUGH INFO"}]}}, "label 'NOT ENOUGH INFO'"),
    ],
)
def test_a_missing_document_or_an_unknown_label_is_an_error(changes, message):
    with pytest.raises(DatasetError, match=message):
        list(samples([{**CLAIM, **changes}], CORPUS))


@pytest.mark.skipif(not DATA.is_dir(), reason="CRUCIBLE_DATA has no scifact")
def test_the_real_dev_claims_are_complete():
    rows = [json.loads(line) for line in (DATA / "claims_dev.jsonl").read_text().splitlines()]
    with gzip.open(DATA / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        corpus = {str(row["doc_id"]): row for row in map(json.loads, lines)}
    converted = list(samples(rows, corpus))

    assert Counter(sample["label"] for sample in converted) == {"SUPPORT": 124, "CONTRADICT": 64, "NEI": 112}
    assert len(converted) == 300
    records = list(training_records(rows, corpus))
    assert len(records) == 188
    assert all(parse(record["completion"]).well_formed for record in records)
    assert 1 < len({sample["group"] for sample in converted}) < 300


ROW = {
    "id": 137334,
    "label": "SUPPORTS",
    "claim": "Fox 2000 Pictures released the film Soul Food.",
    "evidence": [
        [[1, 2, "Soul_Food_-LRB-film-RRB-", 1], [1, 3, "Fox_2000", 0]],
        [[2, 4, "Soul_Food_-LRB-film-RRB-", 1]],
        [[3, 5, "Soul_Food_-LRB-film-RRB-", 0]],
    ],
}
UNKNOWN = {"id": 91198, "label": "NOT ENOUGH INFO", "claim": "He is a vegan.", "evidence": [[[9, None, None, None]]]}
PAGES = [
    {
        "id": "Soul_Food_-LRB-film-RRB-",
        "text": "...",
        "lines": "0\tIt is a film .\tfilm\n1\tFox released it .\tFox\tfilm\n2\t\n",
    },
    {"id": "Fox_2000", "text": "...", "lines": "0\tA studio .\n"},
    {"id": "Tea", "text": "...", "lines": "0\tA drink .\n"},
]


@pytest.fixture
def pages(tmp_path):
    path = tmp_path / "wiki-001.jsonl"
    path.write_text("".join(f"{json.dumps(page)}\n" for page in PAGES))
    return read_pages([path], evidence_pages([ROW, UNKNOWN]))


def test_the_requested_pages_are_read_sentence_by_sentence(pages):
    assert pages == {
        "Soul_Food_-LRB-film-RRB-": {
            "title": "Soul Food (film)",
            "abstract": ["It is a film .", "Fox released it .", ""],
        },
        "Fox_2000": {"title": "Fox 2000", "abstract": ["A studio ."]},
    }


def test_a_training_record_has_each_piece_of_evidence_once(pages):
    [record] = fever.training_records([UNKNOWN, ROW], pages)

    film, fox = page_number("Soul_Food_-LRB-film-RRB-"), page_number("Fox_2000")
    assert record["metadata"]["source"] == "FEVER"
    assert record["metadata"]["license"] == "CC-BY-SA-3.0"
    assert set(record["metadata"]["doc_ids"]) == {film, fox}
    assert "Document " + film + ": Soul Food (film)\n\nIt is a film . Fox released it ." in record["prompt"]
    sentences = [line.partition("): ")[2] for line in record["completion"].splitlines() if "Document" in line]
    assert sorted(sentences) == ["A studio .", "Fox released it .", "It is a film ."]
    assert record["completion"].count("supports c1") == 3
    assert parse(record["completion"]).well_formed
    [refuted] = fever.training_records([{**ROW, "label": "REFUTES"}], pages)
    assert "RELATION: c2 refutes c1" in refuted["completion"]


def test_the_metrics_can_read_the_gold_answer_of_a_sample(pages):
    [sample] = load_rows(fever.samples([ROW, UNKNOWN], pages), name="fever")
    gold = read_gold(sample)
    film, fox = page_number("Soul_Food_-LRB-film-RRB-"), page_number("Fox_2000")

    assert (gold.label, gold.cited) == ("SUPPORT", (film, fox))
    assert gold.evidence == {film: (0, 1), fox: (0,)}
    assert gold.documents[fox].sentences == ("A studio .",)


def test_a_missing_page_or_sentence_is_an_error(pages):
    wrong = {**ROW, "evidence": [[[1, 2, "Fox_2000", 7]]]}

    with pytest.raises(DatasetError, match="claim 137334 cites sentence 7 of Fox_2000, which has only 1"):
        list(fever.samples([wrong], pages))
    with pytest.raises(DatasetError, match="claim 137334 cites page 'Fox_2000', which was not read"):
        list(fever.samples([wrong], {}))


def test_a_line_without_sentences_is_an_error(tmp_path):
    path = tmp_path / "wiki-001.jsonl"
    path.write_text('{"id": "Tea"}\n')

    with pytest.raises(
        DatasetError, match=r"line 1 of .*wiki-001.jsonl has no 'lines'; expected a page of FEVER's wiki-pages"
    ):
        read_pages([path], {"Tea"})


@pytest.mark.skipif("CRUCIBLE_DATA" not in os.environ, reason="CRUCIBLE_DATA is not set: it has FEVER's claims")
def test_a_thousand_real_claims_are_converted():
    lines = (Path(os.environ["CRUCIBLE_DATA"]) / "fever" / "paper_dev_first1000.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    longest = dict.fromkeys(evidence_pages(rows), 0)
    for row in rows:
        for piece in evidence_of(row):
            for page, line in piece:
                longest[page] = max(longest[page], line)
    pages = {page: {"title": page, "abstract": ["A sentence."] * (last + 1)} for page, last in longest.items()}
    records = list(fever.training_records(rows, pages))

    assert len(records) == 670  # all but the 330 of too little information
    assert records == list(fever.training_records(rows, pages))
    assert all(parse(record["completion"]).well_formed for record in records)


HERE = Path(__file__).parent / "official"
PREDICTIONS = Path(__file__).parents[4] / "example_suites" / "scifact" / "predictions"
OFFICIAL_DATA = Path(os.environ.get("CRUCIBLE_DATA", "nowhere"))
REFERENCE = json.loads((HERE / "reference.json").read_text())
RATIONALE = [{"sentences": [0, 1], "label": "SUPPORT"}, {"sentences": [4], "label": "SUPPORT"}]
OFFICIAL_CLAIM = {"id": 1, "evidence": {"7": RATIONALE}}


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def predict(*sentences: int, label: str = "SUPPORT", document: str = "7") -> dict:
    return {"id": 1, "evidence": {document: {"sentences": list(sentences), "label": label}}}


def test_the_official_example_has_its_expected_scores():
    scores = evaluate(rows(HERE / "gold_small.jsonl"), rows(HERE / "predictions_small.jsonl"))

    assert scores.as_mapping() == pytest.approx(
        json.loads((HERE / "expected_metrics_small.json").read_text()), abs=1e-9
    )


@pytest.mark.slow
@pytest.mark.skipif(not (OFFICIAL_DATA / "scifact").is_dir(), reason="CRUCIBLE_DATA has no scifact")
@pytest.mark.parametrize("name", [key.partition(":")[2] for key in REFERENCE if key.startswith("dev:")])
def test_real_predictions_have_the_scores_of_the_official_evaluator(name):
    path = OFFICIAL_DATA / "scifact_multivers_preds" / f"{name}_dev.jsonl"
    if not path.is_file():
        pytest.skip(f"CRUCIBLE_DATA has no {path.name}")
    scores = evaluate(rows(OFFICIAL_DATA / "scifact" / "claims_dev.jsonl"), rows(path))

    assert scores.as_mapping() == pytest.approx(REFERENCE[f"dev:{name}"], abs=1e-9)


@pytest.mark.parametrize(
    ("sentences", "label", "right", "count"),
    [
        ([0], "SUPPORT", (1, 0, 0, 0), 1),  # part of a rationale
        ([0, 1], "SUPPORT", (1, 1, 2, 2), 2),
        ([2, 3, 5, 4], "SUPPORT", (1, 0, 1, 1), 4),  # an abstract's rationale are its first three sentences
        ([0, 1, 4, 4, 4, 1], "SUPPORT", (1, 1, 3, 3), 3),  # a sentence that is predicted twice counts once
        ([4], "CONTRADICT", (0, 0, 1, 0), 1),
    ],
)
def test_whole_rationales_and_labels_are_right(sentences, label, right, count):
    scores = evaluate([OFFICIAL_CLAIM], [predict(*sentences, label=label)])

    assert (scores.abstract_label_only, scores.abstract_rationalized) == (Score(right[0], 1, 1), Score(right[1], 1, 1))
    assert (scores.sentence_selection, scores.sentence_label) == (Score(right[2], count, 3), Score(right[3], count, 3))


def test_empty_predictions_score_0():
    score = evaluate([OFFICIAL_CLAIM], []).abstract_label_only

    assert (score, score.precision, score.recall, score.f1) == (Score(0, 0, 1), 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ([{"id": 2, "evidence": {}}], "claim 2 is not among the claims"),
        ([predict(0)] * 2, "claim 1 is predicted twice"),
        (
            [predict(0, label="NOT_ENOUGH_INFO")],
            "claim 1 has the label 'NOT_ENOUGH_INFO' for document 7: write one of SUPPORT",
        ),
        ([predict(0, label="SUPPORTS", document="9")], "claim 1 has the label 'SUPPORTS' for document 9: write one of"),
    ],
)
def test_invalid_predictions_are_errors(predictions, message):
    with pytest.raises(DatasetError, match=message):
        evaluate([OFFICIAL_CLAIM], predictions)
