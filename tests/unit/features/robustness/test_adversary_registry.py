"""Attacks of a project: chains, packs and functions, and twins that are the same in every order."""

from __future__ import annotations

import pytest

from pytest_crucible.features.robustness.registry import Attacks
from pytest_crucible.features.robustness.twins import Draw, Limits, find_text, with_text
from pytest_crucible.records import UNCHANGED, NoTwin, Sample, Twin
from pytest_crucible.records.errors import SpecError

TEXT = "The children receive the important answer from the teacher. It is their best experiment."


def draw(attack, **facts):
    return Draw(**{"attack": attack, "strength": 0.1, "number": 0, "seed": 0, **facts})


def sample(name="a", input=TEXT, **facts):
    return Sample(id=name, input=input, **facts)


def attack(name="homoglyph", **tables):
    return Attacks(tables).get(name)


def negate(text, sample):
    return Twin(input=f"Not: {text}", expected=not sample.expected)


def test_twins_do_not_depend_on_order_and_differ_by_sample_draw_and_seed():
    attack_ = attack()
    names = [f"q{k}" for k in range(20)]
    item = {name: draw(attack_).twin(sample(name)) for name in names}
    other = {name: draw(attack_).twin(sample(name)) for name in reversed(names)}

    assert item == other
    assert len({twin.input for twin in item.values()}) == len(names)
    assert draw(attack_, number=1).twin(sample()).input != draw(attack_).twin(sample()).input
    assert draw(attack_, seed=1).twin(sample()).input != draw(attack_).twin(sample()).input


def test_the_last_message_of_the_user_is_attacked():
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": "Yes."},
    ]
    twin = draw(attack()).twin(sample(input=messages))

    assert twin.input[0] == messages[0]
    assert twin.input[2] == messages[2]
    assert twin.input[1]["content"] != TEXT
    assert find_text(with_text(messages, "x")) == "x"
    assert draw(attack()).twin(sample(input={"claim": TEXT})) == NoTwin(
        "its input is neither a text nor a list of messages with one of the user"
    )


def test_a_text_without_an_eligible_place_has_no_twin():
    assert draw(attack()).twin(sample(input="12 + 30")) == NoTwin("there is nothing to change")


def test_a_text_beyond_the_limits_is_drawn_again_and_then_left():
    limits = Limits(max_edit_share=0.02)
    assert draw(attack(), strength=1.0, limits=limits).twin(sample()) == NoTwin(
        "more than 0.02 of the text would change"
    )
    recorded = []
    alike = Limits(
        min_similarity=0.9,
        similarity=lambda item, other: recorded.append(other) or (0.95 if len(recorded) == 3 else 0.1),
    )
    twin = draw(attack(), limits=alike).twin(sample())
    assert len(set(recorded)) == 3
    assert twin.input == recorded[-1]
    assert draw(attack("prompt_injection_basic"), limits=limits).twin(sample()).input.count(TEXT) == 1


def test_a_chain_runs_one_attack_after_the_other():
    both = attack("both", both={"chain": ["case_noise", "de"]}, de={"attack": "keyboard_typo", "layout": "qwertz"})
    twin = draw(both).twin(sample())

    assert twin.input.lower() != TEXT.lower()
    assert twin.input.swapcase() != TEXT
    assert attack("both", both={"chain": ["case_noise", "homoglyph"]}).key != both.key


def test_a_function_may_change_the_expected_answer(tmp_path, monkeypatch):
    (tmp_path / "my_attacks.py").write_text(
        "from pytest_crucible import Twin\n"
        "def negate(text, sample):\n    return Twin(input='Not: ' + text, expected=not sample.expected)\n"
        "def never(text):\n    return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    twin = draw(attack("negate", negate={"function": "my_attacks:negate"})).twin(sample(expected=True))

    assert (twin.input, twin.expected) == (f"Not: {TEXT}", False)
    assert draw(attack("never", never={"function": "my_attacks:never"})).twin(sample()) == NoTwin(
        "the function of never returned None"
    )
    assert draw(attack()).twin(sample()).expected is UNCHANGED
    offered = Attacks(offered={"negate": negate}).get("negate")
    assert draw(offered).twin(sample(expected=1)).expected is False


def test_a_pack_is_a_file_of_frames(tmp_path):
    (tmp_path / "frames.jsonl").write_text(
        '{"id": "a", "text": "{input}\\nNow {goal}", "licence": "MIT"}\n\n{"id": "b", "text": "Hi. {input}", "licence": "MIT"}\n'
    )
    pack = Attacks({"frames": {"pack": "frames.jsonl"}}, root=tmp_path).get("frames")

    assert (pack.asks_for, pack.kind, pack.summary) == ("code", "injection", "2 frames of frames.jsonl")
    assert {draw(pack, number=k).twin(sample()).input.replace(TEXT, "")[:3] for k in range(9)} == {"\nNo", "Hi."}


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            '{"id": "a", "text": "{input}", "licence": "x"}\n\n{"id": "b", "text": "no", "licence": "x"}',
            "frames.jsonl, line 3: add {input} where the sample's text belongs",
        ),
        (
            '{"id": "a", "text": "{input}"}',
            "frames.jsonl, line 1: add 'licence', a text: a frame has id, text and licence",
        ),
        ("nonsense", "frames.jsonl, line 1: this is not JSON"),
        ("[1]", "frames.jsonl, line 1: add 'id', a text"),
        ("", "frames.jsonl has no frames"),
    ],
)
def test_a_bad_pack_is_named_by_its_line(tmp_path, lines, sentence):
    (tmp_path / "frames.jsonl").write_text(lines)
    with pytest.raises(SpecError) as caught:
        Attacks({"frames": {"pack": "frames.jsonl"}}, root=tmp_path).get("frames")

    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            {"a": {"chain": ["b", "homoglyph"]}, "b": {"chain": ["a", "homoglyph"]}},
            "[attacks.a] contains itself: a -> b -> a; remove one of them",
        ),
        (
            {"a": {"chain": ["homoglyph"]}},
            "[attacks.a] has chain = ['homoglyph']: write a list of two or more names of attacks",
        ),
        ({"a": {"chain": ["semantic_paraphrase", "homoglyph"]}}, "[attacks.a] has 'semantic_paraphrase' in its chain"),
        ({"a": {"layout": "qwertz"}}, "[attacks.a] must have exactly one of attack, chain, pack, function"),
        ({"a": {"attack": "homoglyph", "pack": "x"}}, "[attacks.a] must have exactly one of"),
        (
            {"a": {"function": "m:f", "layout": "x"}},
            "[attacks.a] has 'layout' beside function: only attack = takes settings",
        ),
        ({"homoglyph": {"attack": "homoglyph"}}, "[attacks.homoglyph] has the name of an attack of the package"),
        ({"control": {"attack": "homoglyph"}}, "[attacks.control] has the name of an attack of the package"),
        ({"a": "homoglyph"}, "[attacks.a] must have exactly one of"),
    ],
)
def test_bad_tables_are_refused(tables, sentence):
    with pytest.raises(SpecError) as caught:
        Attacks(tables).get("a")

    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("function", [3, lambda: "x", lambda text, other: "x"])
def test_functions_that_take_no_text_are_refused(function):
    with pytest.raises(SpecError, match="attack 'a'"):
        Attacks(offered={"a": function}).get("a")


def test_a_function_that_returns_something_else_is_named():
    with pytest.raises(SpecError, match="attack 'a' returned a number: return a text, a Twin, or None"):
        draw(Attacks(offered={"a": lambda text: 3}).get("a")).twin(sample())
