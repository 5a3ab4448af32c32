"""Near duplicates, and samples that rows of a training file match."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.datasets import checks, identify, load_file
from pytest_crucible.datasets.check import CheckContext, drop_failing
from pytest_crucible.datasets.checks import check_samples
from pytest_crucible.datasets.similar import Duplicate, SimilarSets, Vocabulary, find_duplicates, is_near, split_words
from pytest_crucible.features.contamination.compare import compare_with_file, compare_with_rows, find_similar_embeddings
from pytest_crucible.features.contamination.matching import SampleText, read_training_rows, training_rows
from pytest_crucible.features.contamination.section import overlap_text, overlap_view
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError


def words(count: int, *, changed: int = 0, start: int = 0) -> str:
    """A text of so many different words, the last of which are others."""
    return " ".join([f"w{number + start}" for number in range(count - changed)] + [f"x{n}" for n in range(changed)])


@pytest.mark.parametrize(
    ("count", "changed", "is_duplicate"),
    [(19, 1, False), (20, 1, True), (20, 2, False), (100, 5, True), (100, 6, False), (39, 1, True), (40, 2, True)],
)
def test_one_word_in_twenty_may_differ(count, changed, is_duplicate):
    duplicates = find_duplicates([(words(count), "yes"), (words(count, changed=changed), "yes")])

    assert duplicates == [None, Duplicate(0, False) if is_duplicate else None]


def test_every_field_has_to_be_near_and_an_inserted_word_is_one_difference():
    rows = [(words(100), "82"), (words(100, changed=1), "91"), (words(100, changed=1), " 82 ")]
    text = words(40).split()

    assert find_duplicates(rows) == [None, None, Duplicate(0, False)]
    assert is_near(text, ["first", *text])
    assert not is_near([*text[20:], *text[:20]], text)


def test_19_words_are_near_20_and_only_rows_near_the_first_of_a_chain_are_duplicates():
    assert find_duplicates([(words(20),), (words(19),)])[1] == Duplicate(0, False)
    chain = [(words(40, changed=changed),) for changed in (0, 2, 4)]
    # The second repeats the first; the third differs from the first in four words.
    assert find_duplicates(chain) == [None, Duplicate(0, False), None]
    assert find_duplicates([]) == []


@pytest.mark.parametrize(
    ("vocabulary", "lengths"),
    [(40, (60, 61)), (2, (19, 22)), (4, (37, 43)), (30, (30, 42)), (200, (36, 44)), (60, (95, 105))],
    ids=["long", "two words", "four words", "pairs of rare words", "both kinds of key", "longer"],
)
def test_the_index_of_rare_words_finds_all_near_pairs(vocabulary, lengths):
    draw = random.Random(0)

    def word() -> str:
        return f"w{draw.randrange(vocabulary)}"

    rows = []
    for _ in range(12):
        text = [word() for _ in range(draw.randrange(*lengths))]
        for edits in (0, 1, 2, 3, 5):
            edited = list(text)
            for _ in range(edits):
                place = draw.randrange(len(edited))
                edited[place : place + draw.randrange(2)] = [word()] * draw.randrange(2)
            rows.append((" ".join(edited),))
    draw.shuffle(rows)
    firsts: list[tuple[int, list[str]]] = []
    expected = []
    for (text,) in rows:
        near = next((index for index, other in firsts if is_near(text.split(), other)), None)
        expected.append(near)
        if near is None:
            firsts.append((len(expected) - 1, text.split()))

    assert [duplicate and duplicate.of for duplicate in find_duplicates(rows)] == expected
    assert 0 < sum(of is not None for of in expected) < len(rows)


def edit_distance(first: list[str], second: list[str]) -> int:
    row = list(range(len(second) + 1))
    for number, word in enumerate(first, 1):
        row, before = [number], row
        for place, other in enumerate(second, 1):
            row.append(min(row[-1] + 1, before[place] + 1, before[place - 1] + (word != other)))
    return row[-1]


@given(
    st.lists(st.sampled_from("abc"), min_size=18, max_size=42),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from("abc")), max_size=3),
    st.integers(0, 2),
)
def test_near_texts_differ_in_at_most_5_percent_of_the_words(words, replaced, shift):
    others = words[shift:]
    for place, word in replaced:
        others[place % len(others)] = word

    assert is_near(words, others) == (edit_distance(words, others) <= max(len(words), len(others)) // 20)


DATA = Path(os.environ.get("CRUCIBLE_DATA", "")) / "scifact"
CLAIMS = Path(__file__).parents[4] / "example_suites" / "claims"
NINE = "one two three four five six seven eight nine"
LONG = " ".join(f"w{k}" for k in range(26))
REFUTED = {"completion": "REFUTE"}


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
def test_each_kind_of_match_is_found(text, row, how):
    matches = overlap_of([sample(text)], [row]).matches

    assert [match.how for match in matches] == ([how] if how else [])


def test_groups_similarity_answers_and_strength_of_matches():
    of_group, near = [{"input": "other", "group": "p1"}], [{"input": "one two three five"}]
    equal, refuted, supported = ({"prompt": "q", **answer} for answer in ({}, REFUTED, {"completion": "support"}))
    labelled = [sample("q", expected="SUPPORT")]

    assert [match.how for match in overlap_of([sample("one", group="p1")], of_group).matches] == ["group"]
    assert not overlap_of([sample("one", group="p2")], of_group).matches
    assert overlap_of([sample("one two three four")], near, near=0.6).matches[0].similarity == 0.6
    assert not overlap_of([sample("one two three four")], near, near=0.61).matches
    other_answers = [
        overlap_of(labelled, rows).matches[0].other_answer for rows in ([refuted], [refuted, supported], [equal])
    ]
    assert other_answers == [True, False, False]
    strongest = overlap_of([sample(NINE)], [{"input": NINE.replace("nine", "ten")}, {"input": NINE}]).matches[0]
    assert (strongest.how, strongest.row, strongest.similarity) == ("exact", 2, 1.0)


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
def test_the_index_finds_all_similar_pairs(texts, others, least):
    words = [split_words(text) for text in texts]
    vocabulary = Vocabulary(words)
    index = SimilarSets(words, vocabulary, least)
    result = {
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

    assert result == pairs


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


@pytest.mark.parametrize(
    ("content", "sha256", "problem"),
    [(None, "", "it does not exist"), ('{"prompt": "z"}', "0" * 64, "it has changed since"), ("{", "", "line 1 of ")],
)
def test_a_missing_changed_or_broken_file_is_a_problem(tmp_path, content, sha256, problem):
    path = tmp_path / "a.jsonl"
    if content is not None:
        path.write_text(content)
    overlap = compare_with_file([sample("q")], path, dataset_sha256="d", name="a.jsonl", sha256=sha256)

    assert overlap_text(overlap).startswith(f"a.jsonl cannot be checked: {problem}")


def test_results_are_cached_by_the_hashes_of_both_datasets(tmp_path):
    samples, path, cache = [sample("q")], write(tmp_path / "t.jsonl", "q"), tmp_path / "cache"
    first = compare_with_file(samples, path, dataset_sha256="d", name="t.jsonl", cache=cache)
    [entry] = cache.glob("*.json")
    entry.write_text(entry.read_text().replace('"rows": 1', '"rows": 77'))

    assert compare_with_file(samples, path, dataset_sha256="d", name="u.jsonl", cache=cache).rows == 77
    assert compare_with_file(samples, path, dataset_sha256="e", name="t.jsonl", cache=cache) == first
    entry.write_text("{")
    assert compare_with_file(samples, path, dataset_sha256="d", name="t.jsonl", cache=cache) == first


def test_the_contamination_check_fails_drops_or_reports_a_problem(tmp_path):
    write(tmp_path / "t.jsonl", "q1")
    samples = [Sample(id="a", input="q1"), Sample(id="b", input="q2")]
    context = CheckContext(folder=tmp_path)
    [failed, missing] = check_samples(
        samples, [checks.expect_not_contaminated(against=name) for name in ("t.jsonl", "u.jsonl")], context=context
    )
    remaining, [dropped] = drop_failing(samples, [checks.expect_not_contaminated("t.jsonl", drop=True)], context)

    assert (failed.state, failed.samples) == ("failed", ("a",))
    assert missing.message == "u.jsonl cannot be checked: it does not exist; correct against="
    assert [item.id for item in remaining] == ["b"]
    assert dropped.message == "1 of 2 match a row of t.jsonl (0.5): a; they are not sent"
    with pytest.raises(DatasetError, match="so that none is left"):
        drop_failing(samples[:1], [checks.expect_not_contaminated("t.jsonl", drop=True)], context)
    assert identify("", remaining).sha256 != identify("", samples).sha256


def test_similar_embeddings_are_listed_the_nearest_first():
    texts = ["a b c d", "x y", "a b c e"]
    samples = [SampleText(f"s{k}", text, None, None) for k, text in enumerate(texts)]
    rows = [{"input": "q r"}, {"input": "a b c d"}]

    def embed(inputs):
        every = sorted({word for text in [*texts, "q r"] for word in text.split()})
        vectors = np.array([[float(word in text.split()) for word in every] for text in inputs])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    similar = find_similar_embeddings(samples, training_rows(rows), embed, least=0.7)
    table = overlap_view("claims", [], similar=[("train.jsonl", entry) for entry in similar]).tables[0]

    assert [(entry.sample, entry.row, entry.cosine) for entry in similar] == [("s0", 2, 1.0), ("s2", 2, 0.75)]
    assert table.rows[1].cells == ("s2", "0.750", "train.jsonl", "2")
