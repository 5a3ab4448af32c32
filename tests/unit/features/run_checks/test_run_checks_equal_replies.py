"""Arms that are one are called one, and honest arms that agree never are."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from arm_columns import arm_columns, check_inputs, ensemble_columns
from run_sizes import choose_runs
from scipy.stats import binom

from pytest_crucible.features.run_checks.agreement import Agreement, agreement_by_chance
from pytest_crucible.features.run_checks.equal_replies import RARE, check_equal_replies
from pytest_crucible.features.run_checks.finding import Finding
from pytest_crucible.records import Draws

SERVER = {"base_url": "http://host/v1"}
WORDS = [f"word{number}" for number in range(3_000)]


def half_wrong(samples: int, arms: int) -> dict[str, Any]:
    """Return the scores of arms of which each is wrong on the first half of the samples."""
    values = (np.arange(samples) >= samples / 2).astype(float)
    scores = {"ok": (SimpleNamespace(values=values),) * arms}
    return {"scores": scores, "facts": {"ok": SimpleNamespace(kind="binary", direction="higher")}}


def prose(random: random.Random, words: int = 40) -> str:
    return " ".join(random.choices(WORDS, k=words))


def compare(
    ours: list[str],
    theirs: list[str],
    *,
    models=("v2", "v1"),
    named=("", ""),
    inputs=(),
    wrong=0.0,
    groups=None,
    **both,
) -> Finding:
    """Return the finding on two arms; `wrong` is the share of samples on which the candidate is wrong."""
    arms = [
        arm_columns(f"v{2 - number}", texts, model=named[number], settings={**SERVER, "model": models[number]}, **both)
        for number, texts in enumerate((ours, theirs))
    ]
    samples = len(ours) // both.get("repeats", 1)
    values = (np.arange(samples) >= samples * wrong).astype(float)
    scores = {"ok": (SimpleNamespace(values=values), SimpleNamespace(values=values))}
    facts = {"ok": SimpleNamespace(kind="binary", direction="higher")}
    draws = Draws(repeats=both.get("repeats", 1))
    section = {"scores": scores, "facts": facts, **({"groups": groups} if groups else {})}
    (finding,) = check_equal_replies(check_inputs(*arms, inputs=inputs, draws=draws, **section))
    return finding


def test_one_model_behind_two_names_fails():
    texts = [str(number % 7) for number in range(200)]
    finding = compare(texts, texts, named=("base", "base"), wrong=0.11)
    assert (finding.severity, finding.differs) == ("fail", "one model")
    assert finding.problem == (
        "200 of 200 replies of v2 and v1 are equal, and the server names one model for both, base: they are one"
    )


@pytest.mark.parametrize(
    ("samples", "wrong", "severity"),
    [
        *((20, 0.5, "fail"), (20, 0.3, "warn"), (24, 0.5, "fail"), (40, 0.3, "fail")),
        *((200, 0.2, "fail"), (200, 0.05, "warn"), (1_000, 0.07, "fail"), (5_000, 0.05, "warn")),
    ],
)
def test_few_equal_replies_show_one_model_where_many_of_them_are_wrong(samples, wrong, severity):
    texts = [str(number % 7) for number in range(samples)]
    assert compare(texts, texts, named=("base", "base"), wrong=wrong).severity == severity


@pytest.mark.parametrize("samples", [199, 200, 5_000])
def test_equal_replies_that_are_all_right_never_show_one_model(samples):
    texts = [str(number % 7) for number in range(samples)]
    finding = compare(texts, texts, named=("base", "base"))
    assert finding.severity == "warn"
    assert finding.problem == (
        "the server names one model for v2 and v1, base, although their settings name two, "
        f"and {samples:,} of {samples:,} replies are equal"
    )


def test_a_metric_that_nothing_passes_shows_nothing():
    """Short answers cite no source: all replies are wrong by such a metric."""
    texts = [str(number % 7) for number in range(200)]
    assert compare(texts, texts, named=("base", "base"), wrong=1.0).severity == "warn"
    assert compare(texts, texts, named=("base", "base"), wrong=0.95).severity == "warn"


def test_wrong_replies_that_are_all_alike_show_nothing():
    texts = ["unknown"] * 60 + [str(number % 7) for number in range(140)]
    assert compare(texts, texts, named=("base", "base"), wrong=0.3).severity == "warn"


def test_one_question_under_many_ids_counts_once():
    texts = [str(number % 7) for number in range(200)]
    groups = [f"g{number // 20}" for number in range(200)]
    assert compare(texts, texts, named=("base", "base"), wrong=0.3, groups=groups).severity == "warn"


@pytest.mark.parametrize(("first_is_wrong", "severity"), [(True, "fail"), (False, "warn")])
def test_the_first_sample_of_a_group_stands_for_it(first_is_wrong, severity):
    texts = [str(number % 7) for number in range(200)]
    # Of 40 groups of two, one sample is wrong; the rest is right.
    groups = [f"g{number // 2}" if number < 80 else None for number in range(200)]
    arms = [arm_columns(f"v{k}", texts, model="base", settings={"model": f"m{k}"}) for k in range(2)]
    values = np.array([number % 2 == first_is_wrong if number < 80 else 1.0 for number in range(200)], float)
    section = {"scores": {"ok": [SimpleNamespace(values=values)] * 2}, "groups": groups}
    section["facts"] = {"ok": SimpleNamespace(kind="binary", direction="higher")}
    assert [finding.severity for finding in check_equal_replies(check_inputs(*arms, **section))] == [severity]


def test_more_baselines_need_more_wrong_replies():
    arms = [arm_columns(f"v{k}", ["1", "2"] * 20, model="base", settings={"model": f"m{k}"}) for k in range(8)]
    values = (np.arange(40) >= 11).astype(float)
    section = {"scores": {"ok": [SimpleNamespace(values=values)] * 8}}
    section["facts"] = {"ok": SimpleNamespace(kind="binary", direction="higher")}
    assert {finding.severity for finding in check_equal_replies(check_inputs(*arms, **section))} == {"warn"}
    assert [finding.severity for finding in check_equal_replies(check_inputs(*arms[:2], **section))] == ["fail"]


def test_arms_that_are_all_right_and_alike_are_no_problem_however_many():
    texts = [str(number % 7) for number in range(5_000)]
    assert not compare(texts, texts, named=("v2", "v1")).problem
    assert compare(texts, texts, named=("v2", "v1"), wrong=0.1).severity == "warn"


def simulate_honest(drawn: random.Random, samples: int, accuracy: float, shared: float) -> Finding:
    """Return the finding on two models of one accuracy, behind one name, that have this share of their mistakes in common."""
    own = (1 - accuracy) * (1 - shared) / max(accuracy, 1 - accuracy)
    wrong = [drawn.random() >= accuracy for _ in range(samples)]
    ours = [f"typical mistake {k}" if each else str(k % 4) for k, each in enumerate(wrong)]
    theirs = [
        (text if drawn.random() < shared else "right") if each else (text if drawn.random() >= own else "own mistake")
        for text, each in zip(ours, wrong, strict=True)
    ]
    order = sorted(range(samples), key=lambda k: not wrong[k])
    return compare(
        [ours[k] for k in order],
        [theirs[k] for k in order],
        named=("base", "base"),
        wrong=sum(wrong) / samples,
        inputs=[ours[k] for k in order],
    )


def count_called_one(runs: int, samples: int, accuracy: float, shared: float) -> int:
    drawn = random.Random(f"{samples} {accuracy} {shared}")
    return sum(simulate_honest(drawn, samples, accuracy, shared).severity == "fail" for _ in range(runs))


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("accuracy", [0.95, 0.99, 1.0])
def test_honest_arms_behind_one_name_are_hardly_ever_called_one(accuracy, shared):
    """The server names all models alike, and they may have any share of their mistakes in common."""
    for samples in (5, 20, 200):
        assert count_called_one(50, samples, accuracy, shared) <= 50 * 0.01 + 4 * (50 * 0.01 * 0.99) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("accuracy", [0.95, 0.96, 0.97, 0.98, 0.99, 0.995, 0.999, 1.0])
def test_honest_arms_behind_one_name_are_called_one_in_at_most_1_percent_of_runs(accuracy, shared):
    for samples, most in ((5, 1_600), (20, 1_600), (50, 1_600), (200, 1_600), (1_000, 400), (5_000, 80)):
        runs = choose_runs(most)
        assert count_called_one(runs, samples, accuracy, shared) <= runs * 0.01 + 3 * (runs * 0.01 * 0.99) ** 0.5


@pytest.mark.parametrize("accuracy", [0.95, 0.97, 0.99, 1.0])
def test_models_with_all_mistakes_in_common_are_called_one_in_at_most_1_percent_exactly(accuracy):
    """The exact probability that so many replies are wrong as the rule needs, from 5 to 5,000 samples."""
    for samples in (*range(5, 60), 75, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000):
        # Whatever a rule that calls two models one accepts, it must not accept what wrong labels alone explain.
        least = least_wrong_replies(samples)
        assert float(binom.sf(least - 1, samples, 1 - accuracy)) <= 0.01


def least_wrong_replies(samples: int) -> int:
    """Return from how many wrong replies on, all equal, the rule calls two arms one; more than all if never."""
    first, last = 0, samples // 2 + 1
    arm = arm_columns("v2", [str(k) for k in range(samples)])
    while first < last:
        middle = (first + last) // 2
        scores = {"ok": [SimpleNamespace(values=(np.arange(samples) >= middle).astype(float))]}
        section = {"scores": scores, "facts": {"ok": SimpleNamespace(kind="binary", direction="higher")}}
        agreement = Agreement(samples=samples, positions=np.arange(samples), texts=arm.replies.texts)
        is_one = agreement_by_chance(check_inputs(arm, **section), 0, agreement) <= RARE
        first, last = (first, middle) if is_one else (middle + 1, last)
    return first if first <= samples // 2 else samples + 1


def test_the_power_of_the_rule():
    """At 200 samples arms of up to 89.5 % accuracy are called one, at 1,000 of up to 93.1 %."""
    assert [least_wrong_replies(n) for n in (20, 40, 200, 1_000, 5_000)] == [10, 11, 21, 69, 289]


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
    texts = {"base": [str(k % 7) for k in range(60)]}
    arms = [
        arm_columns(f"v{3 - k}", texts.get(name, [name] * 60), model=name, settings={**SERVER, "model": f"m{k}"})
        for k, name in enumerate(named)
    ]
    section = half_wrong(60, len(arms))
    failing = [finding for finding in check_equal_replies(check_inputs(*arms, **section)) if finding.severity == "fail"]
    # That v2 and v1 are one follows where both reply as the candidate.
    pairs = {("base", "v1", "base"): {"v3 and v1"}, ("v2", "base", "base"): {"v2 and v1"}}
    names = {finding.problem.partition(" replies of ")[2].partition(" are ")[0] for finding in failing}
    assert names == pairs.get(named, {"v3 and v2", "v3 and v1"})
    if named[0] != "base":
        assert failing[0].cells == ("", "", "60 of 60 samples with v2")


def test_members_of_an_ensemble_that_reply_as_one_are_a_warning():
    """Two models would not agree on so many wrong replies."""
    texts = [str(k) for k in range(60)]

    def check(theirs: list[str], **section: Any) -> list[Finding]:
        trio = ensemble_columns("trio", {"m1": texts, "m2": theirs}, model={"m1": "base", "m2": "tuned"})
        return list(check_equal_replies(check_inputs(trio, **section)))

    (finding,) = check(texts, **half_wrong(60, 1))
    assert (finding.severity, finding.cells) == ("warn", ("m1 and m2 in all",))
    assert finding.problem.startswith(
        "members of trio gave equal replies to all samples that both answered (m1 and m2): their votes are those of one"
    )
    assert not check(texts)
    assert not check([*texts[:-1], "other"], **half_wrong(60, 1))


@pytest.mark.parametrize(("models", "warnings"), [(("m", "m"), 0), (("m1", "m2"), 1)])
def test_members_that_are_declared_to_be_one_model_may_reply_as_one(models, warnings):
    texts = [str(k) for k in range(60)]
    trio = ensemble_columns("trio", {"m1": texts, "m2": texts}, model={"m1": "base", "m2": "base"})
    tables = {f"m{k}": {"model": model, "temperature": k} for k, model in enumerate(models, start=1)}
    trio = replace(trio, arm=replace(trio.arm, member_settings=tables))

    assert len(list(check_equal_replies(check_inputs(trio, **half_wrong(60, 1))))) == warnings


def test_pairs_of_arms_share_one_error_rate():
    def severity(arms: int) -> str | None:
        names = [{**SERVER, "model": f"m{number}"} for number in range(arms)]
        texts = [str(k) for k in range(20)]
        columns = [arm_columns(f"v{k}", texts, model="base", settings=own) for k, own in enumerate(names)]
        return next(iter(check_equal_replies(check_inputs(*columns, **half_wrong(20, arms))))).severity

    assert (severity(2), severity(3)) == ("fail", "warn")


def test_a_metric_that_no_verdict_is_about_says_nothing_of_wrong_replies():
    texts = [str(k) for k in range(40)]
    arms = [arm_columns(f"v{k}", texts, model=f"m{k}", settings={**SERVER, "model": f"m{k}"}) for k in (2, 1)]
    inputs = check_inputs(*arms, **half_wrong(40, 2))
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
