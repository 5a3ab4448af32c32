"""The contract of attacks: edits outside of what is protected, no edit at strength 0, and equal texts in every process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.features.robustness.built_in import ROWS, make_attack
from pytest_crucible.features.robustness.edits import PROTECTED, Source, apply_edits
from pytest_crucible.features.robustness.registry import Attacks
from pytest_crucible.features.robustness.twins import Draw
from pytest_crucible.records import NoTwin, Sample

TEXT = (
    "The teacher asked about 3 apples because the children are happy! Dr. Smith wants to buy `x = old` now.\n"
    "However, they do not receive the answer in {place} at https://x.org/abc. It is an important experiment, this other one."
)
FACTS = {"code": "plum harbour", "secret": "ABC234"}
ATTACKS = [
    *(make_attack(name) for name in ROWS),
    make_attack("keyboard_typo", {"layout": "azerty"}, as_name="azerty"),
    make_attack("word_deletion", {"words": "all"}, as_name="deletion of all words"),
    Attacks({"both": {"chain": ["case_noise", "character_swap"]}}).get("both"),
    Attacks(offered={"shout": lambda text: text.upper()}).get("shout"),
]
EDITING = [
    attack
    for attack in ATTACKS
    if attack.kind in ("characters", "words") or (attack.kind == "obfuscation" and attack.has_strength)
]
LETTERS = st.text(st.sampled_from("abc ABC\n.,!'09{}<>`$é"), max_size=60) | st.just(TEXT)
FEW = settings(max_examples=choose_examples(25))


def by_name(attacks):
    return pytest.mark.parametrize("attack", attacks, ids=lambda attack: attack.name)


def perturb(attack, text, strength=0.1, seed=1):
    return attack.perturb(Source(text, facts=FACTS), Random(seed), strength)


@by_name(EDITING)
@FEW
@given(text=LETTERS, strength=st.sampled_from([0.0, 0.01, 0.05, 0.5, 1.0]), seed=st.integers(0, 9))
def test_edits_lead_to_the_text_and_touch_nothing_protected(attack, text, strength, seed):
    result = perturb(attack, text, strength, seed)

    assert apply_edits(text, result.edits).text == result.text
    assert result.text.count("\n") == text.count("\n")
    for start, end in Source(text).places.spans:
        assert all(edit.end <= start or edit.start >= end for edit in result.edits)
    assert all(match[0] in result.text for match in PROTECTED.finditer(text))
    assert perturb(attack, text, strength, seed) == result


@by_name([*EDITING, *(attack for attack in ATTACKS if attack.kind == "meaning" or attack.name == "both")])
@FEW
@given(text=LETTERS)
def test_strength_0_changes_nothing(attack, text):
    assert perturb(attack, text, strength=0.0).text == text


@by_name(ATTACKS)
def test_an_attack_has_a_description_and_returns_a_text(attack):
    result = perturb(attack, TEXT)

    assert attack.summary
    assert attack.name in attack.key
    assert isinstance(result.text, str)
    assert bool(attack.asks_for) == (attack.kind == "injection")
    assert (result.text == TEXT) == bool(attack.needs_model)
    assert attack.needs_model or perturb(attack, "") is not None


SCRIPT = """
import sys; sys.path.insert(0, {folder!r})
from test_attack import digest
print(digest())
"""


def digest():
    """A hash of all attacks on some samples, in an order that depends on the process."""
    samples = {Sample(id=f"q{k}", input=f"{TEXT} {k}").id: k for k in range(5)}
    texts = {}
    for name in {attack.name for attack in ATTACKS} - {"shout"}:
        attack = next(attack for attack in ATTACKS if attack.name == name)
        for sample in set(samples):
            twin = Draw(attack=attack, strength=0.1, number=0, seed=3).twin(Sample(id=sample, input=TEXT))
            texts[name, sample] = twin.reason if isinstance(twin, NoTwin) else twin.input
    return hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()


@pytest.mark.slow
def test_texts_are_equal_in_every_process():
    """Sets have another order in a process with another seed of its hashes."""
    script = SCRIPT.format(folder=os.path.dirname(__file__))
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == digest(), done.stderr
