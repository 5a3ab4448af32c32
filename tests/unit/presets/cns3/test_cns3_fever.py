"""FEVER rows become prompts, samples and training records, the same in every run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_crucible.datasets import load_rows
from pytest_crucible.datasets.benchmarks import evidence_of
from pytest_crucible.presets.cns3.claims import parse
from pytest_crucible.presets.cns3.fever import evidence_pages, page_number, read_pages, samples, training_records
from pytest_crucible.presets.cns3.judgement import read_gold
from pytest_crucible.records.errors import DatasetError

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
    path.write_text("".join(f"{json.dumps(one)}\n" for one in PAGES))
    return read_pages([path], evidence_pages([ROW, UNKNOWN]))


def test_only_the_wanted_pages_are_kept_sentence_by_sentence(pages):
    assert pages == {
        "Soul_Food_-LRB-film-RRB-": {
            "title": "Soul Food (film)",
            "abstract": ["It is a film .", "Fox released it .", ""],
        },
        "Fox_2000": {"title": "Fox 2000", "abstract": ["A studio ."]},
    }


def test_a_training_record_has_each_piece_of_evidence_once(pages):
    [record] = training_records([UNKNOWN, ROW], pages)

    film, fox = page_number("Soul_Food_-LRB-film-RRB-"), page_number("Fox_2000")
    assert record["metadata"]["source"] == "FEVER"
    assert record["metadata"]["license"] == "CC-BY-SA-3.0"
    assert set(record["metadata"]["doc_ids"]) == {film, fox}
    assert "Document " + film + ": Soul Food (film)\n\nIt is a film . Fox released it ." in record["prompt"]
    said = [line.partition("): ")[2] for line in record["completion"].splitlines() if "Document" in line]
    assert sorted(said) == ["A studio .", "Fox released it .", "It is a film ."]
    assert record["completion"].count("supports c1") == 3
    assert parse(record["completion"]).well_formed


def test_a_refuted_claim_is_refuted(pages):
    [record] = training_records([{**ROW, "label": "REFUTES"}], pages)

    assert "RELATION: c2 refutes c1" in record["completion"]


def test_a_sample_is_one_that_the_metrics_can_judge(pages):
    [sample] = load_rows(samples([ROW, UNKNOWN], pages), name="fever")
    gold = read_gold(sample)
    film, fox = page_number("Soul_Food_-LRB-film-RRB-"), page_number("Fox_2000")

    assert (gold.label, gold.cited) == ("SUPPORT", (film, fox))
    assert gold.evidence == {film: (0, 1), fox: (0,)}
    assert gold.documents[fox].sentences == ("A studio .",)


def test_what_the_pages_lack_is_named(pages):
    wrong = {**ROW, "evidence": [[[1, 2, "Fox_2000", 7]]]}

    with pytest.raises(DatasetError, match="claim 137334 cites sentence 7 of Fox_2000, which has only 1"):
        list(samples([wrong], pages))
    with pytest.raises(DatasetError, match="claim 137334 cites page 'Fox_2000', which was not read"):
        list(samples([wrong], {}))


def test_a_line_that_is_no_page(tmp_path):
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
        for one in evidence_of(row):
            for page, line in one:
                longest[page] = max(longest[page], line)
    pages = {page: {"title": page, "abstract": ["A sentence."] * (last + 1)} for page, last in longest.items()}
    records = list(training_records(rows, pages))

    assert len(records) == 670  # all but the 330 of too little information
    assert records == list(training_records(rows, pages))
    assert all(parse(record["completion"]).well_formed for record in records)
