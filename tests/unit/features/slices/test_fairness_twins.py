"""Twins of prompts: which words are swapped, which prompts are left alone, and tables of one's own."""

from __future__ import annotations

import pytest

from pytest_crucible import NoTwin, Sample, SpecError, fairness
from pytest_crucible.features.slices.twin_samples import GENDER, read_table, with_twins


@pytest.mark.parametrize(
    ("version", "prompt", "swapped"),
    [
        ("female", "He is late. HE runs.", "She is late. SHE runs."),
        ("female", "The man saw himself and his brother.", "The woman saw herself and her sister."),
        ("female", "I told him.", "I told her."),
        ("female", "The book is his.", "The book is hers."),
        ("female", "Mr. Jones met James.", "Ms. Jones met Jennifer."),
        ("male", "Her car is red.", "His car is red."),
        ("male", "I saw her.", "I saw him."),
        ("male", "I drove her to town.", "I drove him to town."),
        ("male", "The book is hers.", "The book is his."),
        ("male", "She lost her purse and her mother helped.", "He lost his purse and his father helped."),
    ],
)
def test_words_are_swapped_with_their_capitals(version, prompt, swapped):
    assert with_twins(Sample(id="a", input=prompt), GENDER).variants[version].input == swapped


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("She gave her books.", "the counterpart of 'her' is not certain"),
        ("He met her.", "words of several versions"),
        ("It rains on this theme.", "no word to swap"),
        ("A bob haircut.", "no word to swap"),
    ],
)
def test_an_uncertain_prompt_has_no_twin(prompt, reason):
    variants = with_twins(Sample(id="a", input=prompt), GENDER).variants

    assert NoTwin(reason) in variants.values()
    assert with_twins(Sample(id="a", input=prompt), GENDER).metadata == {}


def test_expected_and_conversations_are_swapped_and_the_version_is_named():
    sample = Sample(
        id="a", input=[{"role": "user", "content": "Who is he?"}], expected={"who": "he"}, metadata={"k": 1}
    )

    both = with_twins(sample, GENDER)

    assert both.metadata == {"k": 1, "twin": "male"}
    assert both.variants["female"].input == [{"role": "user", "content": "Who is she?"}]
    assert both.variants["female"].expected == {"who": "she"}
    assert both.variants["male"] == NoTwin("the prompt is the male version")


def test_a_user_table_may_have_several_versions(tmp_path):
    (tmp_path / "names.csv").write_text(
        "english,german,turkish\nMary Smith,Anna Schmidt,Ayşe Yılmaz\nTom,Jürgen,Emre\n"
    )

    variants = with_twins(Sample(id="a", input="Is Anna Schmidt hired?"), read_table(tmp_path / "names.csv")).variants

    assert variants["turkish"].input == "Is Ayşe Yılmaz hired?"
    assert variants["english"].input == "Is Mary Smith hired?"


@pytest.mark.parametrize(
    ("table", "prompt", "twin"),
    [
        ("f,m\nÄrztin,Arzt\n", "Die A\u0308rztin kam.", "Die Arzt kam."),
        ("f,m\nA\u0308rztin,Arzt\n", "Die ÄRZTIN kam.", "Die ARZT kam."),
        ("f,m\nShe,He\nshe,he\n", "She said she was.", "He said he was."),
        ("f,m\nolder woman,old man\nwoman,man\nold,young\n", "The older\nwoman, a Woman.", "The old man, a Man."),
        ('f,m\n"her\nhighness",his grace\n', "Her Highness is in.", "His grace is in."),
    ],
)
def test_a_word_of_a_table_is_found_in_every_form(tmp_path, table, prompt, twin):
    (tmp_path / "t.csv").write_text(table, encoding="utf-8")

    variants = with_twins(Sample(id="a", input=prompt), read_table(tmp_path / "t.csv")).variants

    assert variants["m"].input == twin


def test_accented_words_and_roles_of_messages_are_not_swapped(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\ncafe,bar\nuser,guest\n")
    prompt = [{"role": "user", "content": "A cafe\u0301 and a cafe."}]

    variants = with_twins(Sample(id="a", input=prompt), read_table(tmp_path / "t.csv")).variants

    assert variants["b"].input == [{"role": "user", "content": "A cafe\u0301 and a bar."}]


@pytest.mark.parametrize("arguments", [{"dataset": None, "swap": "gender"}, {"dataset": [], "swap": None}])
def test_arguments_of_other_types_are_explained(arguments):
    with pytest.raises(SpecError, match=r"twins has (dataset|swap)=None: "):
        fairness.twins(**arguments)


def test_words_in_several_columns_are_explained(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\nred,blue\nblue,red\n")

    with pytest.raises(SpecError, match="no word that belongs to one version only"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("text", ["", "only\nhe\n", "a,b\n", "a,a\nhe,she\n", "a,b\nhe\n", "a,b\nhe,\n"])
def test_an_invalid_table_is_explained(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)

    with pytest.raises(SpecError, match=r"twins\(swap="):
        read_table(tmp_path / "t.csv")


def test_when_all_prompts_have_one_version_only_the_others_are_variants():
    (sample,) = fairness.twins([{"input": "She sings."}], swap="gender")()

    assert sample.metadata["twin"] == "female"
    assert {name: twin.input for name, twin in sample.variants.items()} == {"male": "He sings."}


def test_a_table_that_changes_nothing_is_an_error(tmp_path):
    with pytest.raises(SpecError, match=r'twins\(swap="gender"\) changed none of 3 prompts; pass your own table'):
        fairness.twins([{"input": f"It rains {k}."} for k in range(3)], swap="gender")()
    with pytest.raises(SpecError, match=r"none of 1 prompt \(words of several versions\); pass your own table"):
        fairness.twins([{"input": "He met her."}], swap="gender")()
    with pytest.raises(SpecError, match="cannot be read"):
        fairness.twins([{"input": "He."}], swap=str(tmp_path / "none.csv"))()


def test_a_file_is_read_beside_the_test(tmp_path, monkeypatch):
    (tmp_path / "q.jsonl").write_text('{"id": "a", "input": "He is late.", "expected": "he"}\n')
    monkeypatch.chdir(tmp_path)

    (sample,) = fairness.twins("q.jsonl", swap="gender")()

    assert {name: twin.expected for name, twin in sample.variants.items()} == {"female": "she"}
