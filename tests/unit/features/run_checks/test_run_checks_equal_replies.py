"""Arms that are one are called one, and honest arms that agree never are."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
from arm_columns import arm_columns, check_inputs, ensemble_columns

from pytest_crucible.features.run_checks.equal_replies import check_equal_replies
from pytest_crucible.features.run_checks.finding import Finding
from pytest_crucible.records import Draws

SERVER = {"base_url": "http://host/v1"}
WORDS = [f"word{number}" for number in range(3_000)]


def prose(random: random.Random, words: int = 40) -> str:
    return " ".join(random.choices(WORDS, k=words))


def compare(
    ours: list[str], theirs: list[str], *, models=("v2", "v1"), named=("", ""), inputs=(), wrong=0.0, **both
) -> Finding:
    """Return the finding on two arms; `wrong` is the share of samples on which the candidate is wrong."""
    arms = [
        arm_columns(f"v{2 - number}", texts, model=named[number], settings={**SERVER, "model": models[number]}, **both)
        for number, texts in enumerate((ours, theirs))
    ]
    values = (np.arange(1_000) >= 1_000 * wrong).astype(float)
    scores = {"ok": (SimpleNamespace(values=values), SimpleNamespace(values=values))}
    facts = {"ok": SimpleNamespace(kind="binary", direction="higher")}
    draws = Draws(repeats=both.get("repeats", 1))
    (finding,) = check_equal_replies(check_inputs(*arms, inputs=inputs, scores=scores, facts=facts, draws=draws))
    return finding


def test_one_model_behind_two_names_fails():
    texts = [str(number % 7) for number in range(200)]
    finding = compare(texts, texts, named=("base", "base"))
    assert (finding.severity, finding.differs) == ("fail", "one model")
    assert finding.problem == (
        "200 of 200 replies of v2 and v1 are equal, and the server names one model for both, base: they are one"
    )


@pytest.mark.parametrize(("samples", "wrong", "severity"), [(20, 0.5, "fail"), (20, 0.3, "warn"), (199, 0.0, "warn")])
def test_few_equal_replies_show_one_model_where_many_of_them_are_wrong(samples, wrong, severity):
    texts = [str(number % 7) for number in range(samples)]
    assert compare(texts, texts, named=("base", "base"), wrong=wrong).severity == severity


def test_arms_that_are_all_right_and_alike_are_no_problem_however_many():
    texts = [str(number % 7) for number in range(5_000)]
    assert not compare(texts, texts, named=("v2", "v1")).problem
    assert compare(texts, texts, named=("v2", "v1"), wrong=0.1).severity == "warn"


def test_honest_arms_behind_one_name_are_hardly_ever_called_one():
    """At 99 % accuracy, where a server names all models alike: in at most 2 % of runs, at any number of samples."""
    drawn = random.Random(5)
    for samples in (20, 100, 200, 300):
        failing = 0
        for _ in range(300):
            ours, theirs = ([str(k % 4) if drawn.random() < 0.99 else "?" for k in range(samples)] for _ in range(2))
            share = sum(text == "?" for text in ours) / samples
            failing += compare(ours, theirs, named=("base", "base"), wrong=share).severity == "fail"
        assert failing <= 0.02 * 300 + 4 * (300 * 0.02 * 0.98) ** 0.5, samples


def test_a_server_with_one_name_for_models_that_differ_is_a_warning():
    finding = compare(["1", "2", "3"] * 20, ["1", "2", "4"] * 20, named=("base", "base"))
    assert finding.severity == "warn"
    assert finding.problem == "the server names one model for v2 and v1, base, although their settings name two"


def test_a_server_with_one_name_for_models_that_mostly_differ_is_a_note():
    assert compare(["1", "2", "3"] * 20, ["1", "5", "4"] * 20, named=("base", "base")).severity == "note"


def test_equal_free_text_shows_one_model_without_any_name():
    drawn = random.Random(1)
    texts = [prose(drawn) for _ in range(200)]
    finding = compare(texts, texts)
    assert finding.severity == "fail"
    assert "word for word in free text" in finding.problem


def test_one_model_at_temperature_1_is_recognised_by_what_it_does_with_itself():
    drawn = random.Random(2)
    base = [prose(drawn) for _ in range(300)]

    def draw(share: float) -> list[str]:
        return [text if drawn.random() > share else prose(drawn) for text in base for _ in range(2)]

    assert compare(draw(0.1), draw(0.1), repeats=2).severity == "fail"
    assert compare(draw(0.02), [text + " end" for text in draw(0.1)], repeats=2).severity is None


@pytest.mark.parametrize("names", [("v2", "v2"), ("v2", "v1")])
def test_equal_free_text_is_no_problem_where_the_same_weights_are_declared(names):
    drawn = random.Random(3)
    texts = [prose(drawn) for _ in range(100)]
    assert bool(compare(texts, texts, models=names).problem) == (names == ("v2", "v1"))


def test_a_text_that_is_copied_from_the_input_shows_nothing():
    drawn = random.Random(4)
    texts = [prose(drawn) for _ in range(200)]
    assert compare(texts, texts, inputs=texts).severity != "fail"


@pytest.mark.parametrize("named", [("base", "v1", "base"), ("v2", "base", "base"), ("base", "base", "base")])
def test_of_three_arms_each_pair_that_is_one_fails(named):
    texts = {"base": [str(k % 7) for k in range(300)]}
    arms = [
        arm_columns(f"v{3 - k}", texts.get(name, [name] * 300), model=name, settings={**SERVER, "model": f"m{k}"})
        for k, name in enumerate(named)
    ]
    failing = [finding for finding in check_equal_replies(check_inputs(*arms)) if finding.severity == "fail"]
    pairs = {
        (ours, theirs) for ours in range(3) for theirs in range(ours + 1, 3) if named[ours] == named[theirs] == "base"
    }
    assert {finding.problem.partition(" replies of ")[2].partition(" are ")[0] for finding in failing} == {
        f"v{3 - ours} and v{3 - theirs}" for ours, theirs in pairs
    }
    cell = ("", "", "300 of 300 samples with v2")
    assert ((1, 2) in pairs) == (cell in {finding.cells for finding in failing})


def test_members_of_an_ensemble_that_reply_as_one_are_a_warning():
    """Two models would not agree on so many wrong replies."""

    def check(theirs: str, wrong: float, model: str = "tuned") -> list[Finding]:
        trio = ensemble_columns("trio", {"m1": "1" * 60, "m2": theirs}, model={"m1": "base", "m2": model})
        scores = {"ok": (SimpleNamespace(values=(np.arange(60) >= 60 * wrong).astype(float)),)}
        facts = {"ok": SimpleNamespace(kind="binary", direction="higher")}
        return list(check_equal_replies(check_inputs(trio, scores=scores, facts=facts)))

    (finding,) = check("1" * 60, 0.5)
    assert (finding.severity, finding.cells) == ("warn", ("m1 and m2 in all",))
    assert finding.problem.startswith(
        "members of trio gave equal replies to all samples that both answered (m1 and m2): their votes are those of one"
    )
    assert not check("1" * 60, 0.0)
    assert not check("1" * 60, 0.0, "base")
    assert not check("1" * 59 + "2", 0.5)


def test_more_arms_need_more_equal_replies_so_that_their_pairs_share_one_error_rate():
    def severity(arms: int) -> str | None:
        settings = [{**SERVER, "model": f"m{number}"} for number in range(arms)]
        columns = [arm_columns(f"v{k}", ["1"] * 210, model="base", settings=own) for k, own in enumerate(settings)]
        return next(iter(check_equal_replies(check_inputs(*columns)))).severity

    assert (severity(2), severity(3)) == ("fail", "warn")


def test_a_metric_that_no_verdict_is_about_says_nothing_of_wrong_replies():
    values = np.zeros(40)
    arms = [arm_columns(f"v{k}", ["1"] * 40, model=f"m{k}", settings={**SERVER, "model": f"m{k}"}) for k in (2, 1)]
    scores = {"refused": (SimpleNamespace(values=values), SimpleNamespace(values=values))}
    facts = {"refused": SimpleNamespace(kind="binary", direction="higher")}
    inputs = check_inputs(*arms, scores=scores, facts=facts)
    assert next(iter(check_equal_replies(inputs))).severity == "warn"
    inputs.plan.targets.clear()
    assert not next(iter(check_equal_replies(inputs))).problem


def test_two_tables_without_texts_whose_scores_are_all_equal_are_a_warning():
    values = np.random.default_rng(1).random(40)
    arms = [arm_columns(name, []) for name in ("v2", "v1")]

    def check(theirs):
        scores = {"quality": (SimpleNamespace(values=values), SimpleNamespace(values=theirs))}
        return list(check_equal_replies(check_inputs(*arms, scores=scores)))

    (finding,) = check(values.copy())
    assert finding.severity == "warn"
    assert finding.problem == (
        "all scores of v2 and v1 are equal on 40 samples, 40 of them no round numbers: check that the two are not one table"
    )
    assert not check(values[::-1])


def test_tables_of_round_scores_may_be_equal():
    values = np.repeat([0.0, 0.5, 1.0], 20)
    scores = {"ok": (SimpleNamespace(values=values), SimpleNamespace(values=values))}
    arms = [arm_columns(name, []) for name in ("v2", "v1")]
    assert not list(check_equal_replies(check_inputs(*arms, scores=scores)))


def test_weights_that_change_nothing_fail():
    arms = (
        arm_columns("v2", ["1"], without_effect="one factor of each of its LoRA pairs is 0"),
        arm_columns("v1", ["2"]),
    )
    first = next(iter(check_equal_replies(check_inputs(*arms))))
    assert first.problem == "the weights of v2 change no reply of their base: one factor of each of its LoRA pairs is 0"
    (alone,) = check_equal_replies(check_inputs(arms[0]))
    assert (first.severity, alone.severity) == (None, "warn")


@pytest.mark.parametrize("samples", [5, 20, 200, 1_000, 5_000])
@pytest.mark.parametrize("accuracy", [0.99, 0.999, 1.0])
def test_honest_arms_with_short_replies_are_never_called_one(samples, accuracy):
    drawn = random.Random(samples)
    for _ in range(200 if samples < 1_000 else 20):
        ours, theirs = (
            [str(number % 4) if drawn.random() < accuracy else "?" for number in range(samples)] for _ in range(2)
        )
        finding = compare(ours, theirs, named=("v2", "v1"))
        assert finding.severity != "fail", finding.problem
        assert "one" not in finding.problem.split()


@pytest.mark.parametrize("samples", [5, 50, 500])
def test_honest_arms_that_differ_at_one_word_in_a_hundred_are_never_called_one(samples):
    drawn = random.Random(samples)
    for _ in range(20):
        ours = [prose(drawn, 30) for _ in range(samples)]
        theirs = [" ".join(w if drawn.random() > 0.01 else "other" for w in text.split()) for text in ours]
        assert compare(ours, theirs).severity != "fail" or ours == theirs
