"""SciFact rows become prompts, samples and training records, the same in every run."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from pytest_crucible.datasets import load_rows
from pytest_crucible.presets.cns3.claims import parse
from pytest_crucible.presets.cns3.judgement import read_gold
from pytest_crucible.presets.cns3.scifact import label, samples, training_records
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


def test_a_training_record_is_the_one_that_thinker_trains_on():
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


def test_a_right_answer_is_in_form():
    (record,) = training_records([CLAIM], CORPUS)

    assert parse(record["completion"]).well_formed


def test_a_sample_shows_what_the_author_cited_and_knows_what_is_evidence():
    row = {**CLAIM, "cited_doc_ids": [2, 1]}
    (sample,) = load_rows(samples([row], CORPUS), name="scifact", fields={})
    gold = read_gold(sample)

    assert sample.input.index("Document 2") < sample.input.index("Document 1")
    assert (gold.cited, dict(gold.evidence), gold.label) == (("2", "1"), {"1": (0, 1)}, "SUPPORT")
    assert gold.documents["2"].text == "Green Tea It is green."


def test_claims_that_share_a_document_are_a_group():
    rows = [{**CLAIM, "id": k, "cited_doc_ids": cited} for k, cited in enumerate([[1], [2], [1, 2], [3]])]
    corpus = {**CORPUS, "3": CORPUS["2"]}
    groups = [one["group"] for one in samples(rows, corpus)]

    assert groups[0] == groups[1] == groups[2] != groups[3]


def test_a_document_that_the_corpus_lacks_is_named():
    with pytest.raises(DatasetError, match="claim 1001 cites document 9, which is not in the corpus"):
        list(samples([{**CLAIM, "cited_doc_ids": [9]}], CORPUS))


def test_an_unknown_label_is_no_support():
    row = {**CLAIM, "evidence": {"1": [{"sentences": [0], "label": "NOT ENOUGH INFO"}]}}

    with pytest.raises(DatasetError, match="label 'NOT ENOUGH INFO'"):
        label(row)


@pytest.mark.skipif(not DATA.is_dir(), reason="CRUCIBLE_DATA has no scifact")
def test_the_real_dev_claims_are_complete():
    rows = [json.loads(line) for line in (DATA / "claims_dev.jsonl").read_text().splitlines()]
    with gzip.open(DATA / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        corpus = {str(row["doc_id"]): row for row in map(json.loads, lines)}
    made = list(samples(rows, corpus))

    assert Counter(one["label"] for one in made) == {"SUPPORT": 124, "CONTRADICT": 64, "NEI": 112}
    assert len(made) == 300
    records = list(training_records(rows, corpus))
    assert len(records) == 188
    assert all(parse(record["completion"]).well_formed for record in records)
    assert 1 < len({one["group"] for one in made}) < 300
