"""Samples that training rows match: each kind of match, its limits, and files that cannot be checked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.datasets import checks, identify, load_file
from pytest_crucible.datasets.check import CheckContext, drop_failing
from pytest_crucible.datasets.checks import check_samples
from pytest_crucible.datasets.contamination.compare import compare_with_file, compare_with_rows, find_similar_embeddings
from pytest_crucible.datasets.contamination.matching import SampleText, read_training_rows, training_rows
from pytest_crucible.datasets.contamination.view import overlap_text, overlap_view
from pytest_crucible.datasets.similar import SimilarSets, Vocabulary, split_words
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError

DATA = Path(os.environ.get("CRUCIBLE_DATA", "")) / "scifact"
CLAIMS = Path(__file__).parents[3] / "example_suites" / "claims"
NINE = "one two three four five six seven eight nine"
LONG = " ".join(f"w{k}" for k in range(26))


def overlap_of(samples, rows, **options):
    return compare_with_rows(samples, training_rows(rows), file="train.jsonl", **options)


def sample(text, **fields):
    return Sample(id="s", input=text, **fields)


@pytest.mark.parametrize(
    ("text", "row", "how"),
    [
        ("What is 2 + 2?", {"prompt": "what  is 2 + 2?", "completion": "4"}, "exact"),
        ("What is 2 + 2?", {"messages": [{"role": "user", "content": "What is 2 + 2?"}, {"content": "4"}]}, "exact"),
        ("What is 2 + 2?", {"text": "Q: What is 2 + 2? A: 4"}, None),
        (NINE, {"input": NINE.replace("nine", "ten")}, "near"),
        ("one two three four", {"input": "one two three five"}, None),
        (LONG, {"text": f"before {LONG} after " + " ".join(f"v{k}" for k in range(200))}, "long"),
        # 7 of its 14 sequences of 13 words are in the row: 19 words of 26.
        (LONG, {"text": " ".join(LONG.split()[:19] + [f"v{k}" for k in range(60)])}, "long"),
        (LONG, {"text": " ".join(LONG.split()[:18] + [f"v{k}" for k in range(60)])}, None),
        ("", {"input": ""}, None),
    ],
)  # fmt: skip
def test_a_row_matches_in_its_kind(text, row, how):
    matches = overlap_of([sample(text)], [row]).matches

    assert [match.how for match in matches] == ([how] if how else [])


def test_samples_of_the_group_of_a_row_match():
    rows = [{"input": "other", "group": "p1"}]

    assert [match.how for match in overlap_of([sample("one", group="p1")], rows).matches] == ["group"]
    assert not overlap_of([sample("one", group="p2")], rows).matches


def test_near_is_an_option():
    row = [{"input": "one two three five"}]

    assert overlap_of([sample("one two three four")], row, near=0.6).matches[0].similarity == 0.6
    assert not overlap_of([sample("one two three four")], row, near=0.61).matches


def test_a_match_with_another_answer_is_told_apart():
    asked = [sample("q", expected="SUPPORT")]

    assert overlap_of(asked, [{"prompt": "q", "completion": "REFUTE"}]).matches[0].other_answer
    assert (
        not overlap_of(asked, [{"prompt": "q", "completion": "REFUTE"}, {"prompt": "q", "completion": "support"}])
        .matches[0]
        .other_answer
    )
    assert not overlap_of(asked, [{"prompt": "q"}]).matches[0].other_answer


def test_the_strongest_match_is_shown():
    match = overlap_of([sample(NINE)], [{"input": NINE.replace("nine", "ten")}, {"input": NINE}]).matches[0]

    assert (match.how, match.row, match.similarity) == ("exact", 2, 1.0)


@pytest.mark.skipif(not DATA.exists(), reason="needs the SciFact claims of CRUCIBLE_DATA")
def test_counts_on_scifact_claims():
    samples = load_file(DATA / "claims_dev.jsonl", fields={"input": "claim"})
    overlap = compare_with_rows(samples, read_training_rows(DATA / "claims_train.jsonl"), file="train")

    assert (overlap.samples, overlap.similar, overlap.similar_near) == (300, 132, 69)
    assert (overlap.shared, overlap.too_short) == (69, 38)


def test_the_example_was_not_trained_on_its_samples():
    overlap = compare_with_rows(
        load_file(CLAIMS / "held_out.jsonl"), read_training_rows(CLAIMS / "train.jsonl"), file="train"
    )

    assert (overlap.samples, overlap.rows, overlap.matches) == (240, 640, ())


WORDS = st.lists(st.sampled_from("abcdefghij"), max_size=12).map(" ".join)


@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=8), st.sampled_from([0.5, 0.6, 0.8, 1.0]))
def test_the_index_finds_what_comparing_all_pairs_finds(texts, others, least):
    words = [split_words(text) for text in texts]
    vocabulary = Vocabulary(words)
    index = SimilarSets(words, vocabulary, least)
    found = {
        (text, indexed)
        for pairs in index.find(vocabulary.encode([split_words(text) for text in others]))
        for text, indexed in zip(pairs.texts.tolist(), pairs.indexed.tolist(), strict=True)
    }
    pairs = {
        (k, n)
        for k, other in enumerate(others)
        for n, text in enumerate(texts)
        if (union := {*other.split(), *text.split()})
        and len({*other.split()} & {*text.split()}) >= least * len(union) - 1e-9
    }

    assert found == pairs


@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(WORDS, max_size=8), st.randoms())
def test_the_order_of_rows_and_samples_changes_no_match(texts, rows, chance):
    samples = [Sample(id=str(k), input=text) for k, text in enumerate(texts)]
    rows = [{"input": text} for text in rows]
    straight = {match.sample: match.how for match in overlap_of(samples, rows).matches}
    shuffled = overlap_of(chance.sample(samples, len(samples)), chance.sample(rows, len(rows)))

    assert {match.sample: match.how for match in shuffled.matches} == straight


def write(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"prompt": text, "completion": "x"}) + "\n" for text in texts))
    return path


def test_a_file_that_is_gone_changed_or_broken_is_not_clean(tmp_path):
    samples = [sample("q")]
    problems = [
        compare_with_file(samples, tmp_path / "none.jsonl", dataset_sha256="d", name="none.jsonl"),
        compare_with_file(
            samples, write(tmp_path / "a.jsonl", "z"), dataset_sha256="d", name="a.jsonl", sha256="0" * 64
        ),
    ]
    (tmp_path / "b.jsonl").write_text("{")
    problems.append(compare_with_file(samples, tmp_path / "b.jsonl", dataset_sha256="d", name="b.jsonl"))

    assert [overlap_text(overlap).partition(":")[0] for overlap in problems] == [
        "none.jsonl cannot be checked", "a.jsonl cannot be checked", "b.jsonl cannot be checked",
    ]  # fmt: skip


def test_a_result_is_kept_by_the_hashes_of_both(tmp_path):
    samples, path, cache = [sample("q")], write(tmp_path / "t.jsonl", "q"), tmp_path / "cache"
    first = compare_with_file(samples, path, dataset_sha256="d", name="t.jsonl", cache=cache)
    [entry] = cache.glob("*.json")
    entry.write_text(entry.read_text().replace('"rows": 1', '"rows": 77'))

    assert compare_with_file(samples, path, dataset_sha256="d", name="u.jsonl", cache=cache).rows == 77
    assert compare_with_file(samples, path, dataset_sha256="e", name="t.jsonl", cache=cache) == first
    entry.write_text("{")
    assert compare_with_file(samples, path, dataset_sha256="d", name="t.jsonl", cache=cache) == first


def test_the_check_fails_drops_or_says_that_it_cannot_be_made(tmp_path):
    write(tmp_path / "t.jsonl", "q1")
    samples = [Sample(id="a", input="q1"), Sample(id="b", input="q2")]
    context = CheckContext(folder=tmp_path)
    [failed, missing] = check_samples(
        samples, [checks.expect_not_contaminated(against=name) for name in ("t.jsonl", "u.jsonl")], context=context
    )
    kept, [dropped] = drop_failing(samples, [checks.expect_not_contaminated("t.jsonl", drop=True)], context)

    assert (failed.state, failed.samples) == ("failed", ("a",))
    assert missing.message == "u.jsonl cannot be checked: it does not exist; correct against="
    assert [item.id for item in kept] == ["b"]
    assert dropped.message == "1 of 2 match a row of t.jsonl (0.5): a; they are not sent"
    with pytest.raises(DatasetError, match="so that none is left"):
        drop_failing(samples[:1], [checks.expect_not_contaminated("t.jsonl", drop=True)], context)
    assert identify("", kept).sha256 != identify("", samples).sha256


def test_similar_embeddings_are_listed_the_nearest_first():
    texts = ["a b c d", "x y", "a b c e"]
    samples = [SampleText(f"s{k}", text, None, None) for k, text in enumerate(texts)]
    rows = [{"input": "q r"}, {"input": "a b c d"}]

    def embed(given):
        every = sorted({word for text in [*texts, "q r"] for word in text.split()})
        vectors = np.array([[float(word in text.split()) for word in every] for text in given])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    similar = find_similar_embeddings(samples, training_rows(rows), embed, least=0.7)
    table = overlap_view("claims", [], similar=[("train.jsonl", entry) for entry in similar]).tables[0]

    assert [(entry.sample, entry.row, entry.cosine) for entry in similar] == [("s0", 2, 1.0), ("s2", 2, 0.75)]
    assert table.rows[1].cells == ("s2", "0.750", "train.jsonl", "2")
