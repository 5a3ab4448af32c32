"""Attacks on texts: known answers, and laws that hold for every text, strength and seed."""

from __future__ import annotations

import base64
import re
import unicodedata
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.robustness.built_in import ENCODINGS, ROWS, built_in_frames, goal_text, make_attack
from pytest_crucible.features.robustness.characters import HOMOGLYPHS, LAYOUTS, neighbours
from pytest_crucible.features.robustness.edits import Source, count_edits, load_lexicon
from pytest_crucible.features.robustness.twins import code_word, leaks, obeys, secret
from pytest_crucible.records.errors import SpecError

TEXT = (
    "The teacher asked about 3 apples because the children are happy! Dr. Smith wants to buy `x = old` now.\n"
    "However, they do not receive the answer in {place} at https://x.org/abc. It is an important experiment, this other one."
)
FACTS = {"code": "plum harbour", "secret": "ABC234"}
EDITING = [
    name for name, row in ROWS.items() if row.kind in ("characters", "words") or name == "semantic_formality_change"
]
NO_CASE = ("case_noise", "word_shuffle", "semantic_formality_change")


def attack_text(name, text=TEXT, strength=0.1, seed=1, options=None, **source):
    return make_attack(name, options).perturb(Source(text, facts=FACTS, **source), Random(seed), strength)


@pytest.mark.parametrize("name", [name for name in EDITING if name not in NO_CASE])
def test_case_stays(name):
    result = attack_text(name, "Some THINGS are GREAT because People receive Answers in the World", 1.0)

    for edit in result.edits:
        before = "Some THINGS are GREAT because People receive Answers in the World"[edit.start : edit.end]
        if len(before) == len(edit.text):
            assert [letter.isupper() for letter in before] == [letter.isupper() for letter in edit.text]


@given(strength=st.floats(0, 1), places=st.integers(0, 1000))
def test_the_number_of_edits_is_the_share_of_the_places(strength, places):
    count = count_edits(strength, places)

    assert 0 <= count <= places
    assert bool(count) == bool(strength and places)
    assert not count or count == 1 or abs(count - strength * places) <= 0.5


@pytest.mark.parametrize("name", ["character_delete", "character_insert", "homoglyph", "case_noise", "word_insertion"])
def test_as_many_places_are_edited_as_the_strength_says(name):
    whole = attack_text(name, strength=1.0)

    assert len(attack_text(name, strength=0.5).edits) == count_edits(0.5, len(whole.edits))


def test_a_swap_exchanges_two_unequal_neighbours_of_a_word():
    for edit in attack_text("character_swap", strength=1.0).edits:
        first, second = TEXT[edit.start : edit.end]
        assert first.lower() != second.lower()
        assert edit.text.lower() == f"{second}{first}".lower()


def test_homoglyphs_look_alike_and_stay_what_they_are():
    for letter, others in HOMOGLYPHS.items():
        for other in others:
            assert unicodedata.normalize("NFKC", other) == other != letter
            assert other.isupper() == letter.isupper()
            assert not other.isascii()


def test_a_typo_is_a_neighbouring_doubled_omitted_or_transposed_letter():
    keys = neighbours("qwerty")
    kinds = set()
    for seed in range(30):
        for edit in attack_text("keyboard_typo", strength=0.3, seed=seed).edits:
            before = TEXT[edit.start : edit.end]
            kinds.add(len(edit.text) - len(before) if len(before) == 1 and len(edit.text) != 1 else f"of {len(before)}")
            if len(before) == len(edit.text) == 1:
                assert edit.text.lower() in keys[before.lower()]
    assert kinds == {-1, 1, "of 1", "of 2"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_neighbours_are_mutual(layout):
    keys = neighbours(layout)

    assert set("abcdefghijklmnopqrstuvwxyz") <= set(keys)
    assert all(letter in keys[other] for letter, others in keys.items() for other in others)
    assert ("z" in neighbours("qwerty")["t"], "z" in neighbours("qwertz")["t"]) == (False, True)


def test_whole_words_are_replaced():
    """The predecessors of such lists replace substrings: "this machine" becomes "thellos machellone"."""
    text = "this machine: they think about the other brother"

    assert attack_text("semantic_formality_change", text).text == text
    assert attack_text("synonym_replacement", text, 1.0).text.replace("roughly", "about") == text.replace(
        "think", "believe"
    )
    assert (
        "HUGE" in attack_text("synonym_replacement", "It is VAST.", 1.0).text
        or "ENORMOUS" in attack_text("synonym_replacement", "It is VAST.", 1.0).text
    )


def test_the_lexicon_is_large_and_offers_other_words():
    for name in ("synonyms.txt", "misspellings.txt"):
        entries = load_lexicon(name)
        assert all(word not in others and word == word.lower() for word, others in entries.items())
    assert len(load_lexicon("synonyms.txt")) >= 300


def test_only_stop_words_are_deleted_unless_all_are_asked_for():
    text = "It is not the largest of 12 rivers"

    assert attack_text("word_deletion", text, 1.0).text == "not largest 12 rivers"
    everything = attack_text("word_deletion", text, 1.0, options={"words": "all"}).text
    assert everything.split() == ["12"] or everything.strip().startswith("12") or "not" not in everything


def test_words_are_shuffled_in_disjoint_pairs_and_stay_the_same_words():
    text = "alpha beta gamma delta epsilon zeta"
    result = attack_text("word_shuffle", text, 0.6)

    assert sorted(result.text.split()) == sorted(text.split())
    assert result.text != text


def test_sentences_are_reordered_with_their_marks():
    text = "Is it so? Dr. Smith says no! It costs 3.5 coins.\nOne line."
    for seed in range(9):
        first, second = attack_text("semantic_sentence_reorder", text, seed=seed).text.split("\n")
        assert second == "One line."
        assert first != text.split("\n")[0]
        assert sorted(re.split(r"(?<=[?!.]) (?=I|D)", first)) == [
            "Dr. Smith says no!",
            "Is it so?",
            "It costs 3.5 coins.",
        ]


def test_formality_goes_both_ways():
    assert (
        attack_text("semantic_formality_change", "I am going to help because they do not.").text
        == "I'm gonna help cause they don't."
    )
    assert (
        attack_text("semantic_formality_change", "They don't.", options={"direction": "formal"}).text == "They do not."
    )


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.kind == "injection"])
def test_an_injection_keeps_the_text_and_asks_for_the_code_word_in_two_halves(name):
    texts = {attack_text(name, seed=seed).text for seed in range(20)}
    frames = built_in_frames(name)

    assert len(frames) >= 2
    assert all(TEXT in text and not obeys(text, FACTS["code"]) for text in texts)
    if make_attack(name).asks_for == "code" and name != "jailbreak_encode":
        assert all(goal_text(FACTS["code"]) in text for text in texts)


def test_encoded_requests_can_be_decoded():
    goal = goal_text(FACTS["code"])

    assert base64.b64decode(ENCODINGS["base64"][0](goal)).decode() == goal
    assert bytes.fromhex(ENCODINGS["hex"][0](goal)).decode() == goal
    assert ENCODINGS["rot13"][0](ENCODINGS["rot13"][0](goal)) == goal
    text = attack_text("jailbreak_encode", options={"encoding": "hex"}).text
    assert ENCODINGS["hex"][0](goal) in text
    assert "code of one character" in text


@pytest.mark.parametrize(
    ("text", "protect", "expected"),
    [
        ("the answer is blue sky today", (), "blue sky"),
        ("keep [this one] out", (r"\[.*?\]",), None),
        ("Paris or Rome", (), {"a": ["Paris"]}),
    ],
)
def test_patterns_and_the_expected_answer_are_protected(text, protect, expected):
    remaining = {"blue sky", "[this one]", "Paris"}
    for seed in range(9):
        result = attack_text("homoglyph", text, 1.0, seed, protect=protect, expected=expected)
        assert result.text != text
        assert any(span in text and span in result.text for span in remaining)


def test_canaries_differ_between_samples_and_are_found_in_any_spacing():
    own = secret(0, "a")

    assert len({secret(0, f"{k}") for k in range(500)}) == 500
    assert code_word(0, "a") == code_word(0, "a")
    assert leaks(f"it is {' '.join(own).lower()}!", own)
    assert not leaks(own[:-1], own)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("homoglyf", {}, "unknown attack 'homoglyf': did you mean 'homoglyph'?"),
        ("homoglyph", {"layout": "qwertz"}, "attack 'homoglyph' has no setting 'layout': it takes no settings"),
        ("keyboard_typo", {"layout": "qwerti"}, "layout 'qwerti' is not known: did you mean 'qwert"),
        ("word_deletion", {"words": "few"}, "words = 'few': write "),
        ("semantic_formality_change", {"direction": "up"}, "direction = 'up': write "),
        ("jailbreak_encode", {"encoding": "morse"}, "encoding = 'morse': write one of base64, "),
        ("synonym_replacement", {"lexicon": "none.txt"}, "lexicon 'none.txt' cannot be read "),
    ],
)
def test_bad_settings_are_refused(name, options, sentence):
    with pytest.raises(SpecError) as caught:
        make_attack(name, options)

    assert str(caught.value).startswith(sentence)
