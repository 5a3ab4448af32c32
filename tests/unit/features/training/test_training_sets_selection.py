"""Which replies become rows, and why others stay out."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from pytest_crucible.features.training.set_attempts import Attempt, AttemptSource, SampleFacts
from pytest_crucible.features.training.set_rows import drop_duplicates
from pytest_crucible.features.training.set_selection import Criterion, Selected, make_criterion, select_rows
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError

BINARY = make_criterion("right", MetricFacts(name="right", kind="binary"), is_binary=True)
SCORE = make_criterion("score", MetricFacts(name="score", low=0, high=1), is_binary=False)
ERRORS = make_criterion("errors <= 2", MetricFacts(name="errors", direction="lower", low=0), is_binary=False)


def attempt(reply: str | None = "four", value: float | None = 1.0, **facts: Any) -> Attempt:
    position, expected = facts.pop("position", 0), facts.pop("expected", None)
    sample = SampleFacts("data", position, f"q{position}", facts.pop("group", None), expected, facts.pop("gate", False))
    source = AttemptSource(facts.pop("run", "r1"), "test_x", "v1")
    defaults = {"variant": 0, "repeat": 0, "prompt": f"What is {position}?", "template": None, "own": ""}
    defaults |= {"calls": 1, "state": "answered"}
    return Attempt(source=source, sample=sample, reply=reply, value=value, **{**defaults, **facts})


def select(attempts: list[Attempt], task: Any, criterion: Criterion | None = BINARY, gap: float = 0.0) -> Selected:
    return select_rows(attempts, task, {"test_x": criterion}, gap)


def pairs(selected: Selected) -> list[tuple[str, str | None]]:
    return [(row.completion, row.rejected) for row in selected.rows]


def test_a_gold_answer_is_the_completion_once_a_prompt():
    selected = select([attempt("wrong", 0.0, expected="4"), attempt("4", repeat=1, expected="4")], "sft")

    assert pairs(selected) == [("4", None)]
    assert selected.rows[0].origin["completion"] == "gold"
    assert selected.left_out["the prompt has its gold answer already"] == 1


def test_without_gold_each_passing_reply_is_a_row():
    attempts = [attempt("a"), attempt("b", 0.0, repeat=1), attempt("c", repeat=2), attempt("d", expected=["x"])]
    selected = select(attempts, "sft")

    assert [row.completion for row in selected.rows] == ["a", "c", "d"]
    assert selected.left_out == {"failed, and the sample has no gold answer": 1}


def test_a_preference_has_gold_or_the_best_passing_reply_to_the_same_prompt():
    passed = [attempt("good", 0.6), attempt("better", 0.9, repeat=1), attempt("bad", 0.2, repeat=2)]
    other = [attempt("alone", 0.1, position=1), attempt("gold wins", 0.1, position=2, expected="gold")]
    selected = select([*passed, *other], "dpo", SCORE)

    assert pairs(selected) == [("better", "bad"), ("gold", "gold wins")]
    assert selected.rows[0].origin["chosen"] == {"run": "r1", "variant": 0, "repeat": 1, "score": 0.9}
    assert selected.left_out["failed, and the sample has no chosen reply"] == 1


def test_the_gap_is_in_the_metrics_direction():
    wide = [attempt("many", 7.0), attempt("few", 1.0, repeat=1), attempt("three", 3.0, repeat=2)]
    selected = select(wide, "dpo", ERRORS, gap=3)

    assert pairs(selected) == [("few", "many")]
    assert selected.left_out["closer than the gap of 3"] == 1


def test_lost_replies_are_never_rejected_and_truncated_ones_are():
    attempts = [
        attempt("right"),
        attempt("half an ans", None, state="lost", repeat=1),
        attempt("cut at max_tok", None, state="failed", repeat=2),
        attempt("n/a", None, repeat=3),
        attempt(" ", 0.0, repeat=4),
        attempt("skipped", 0.0, state="skipped", repeat=5),
    ]
    selected = select(attempts, "dpo")

    assert pairs(selected) == [("right", "cut at max_tok")]
    expected = {"lost": 1, "the metric does not apply": 1, "the reply is empty": 1, "skipped": 1}
    assert +selected.left_out == expected


def test_several_calls_and_other_prompts_stay_out_counted():
    selected = select([attempt(calls=2, prompt=None), attempt(prompt=None)], "kto")

    assert selected.rows == []
    assert selected.left_out == {
        "several calls in one sample": 1,
        "the prompt is neither a text nor messages": 1,
    }


def test_kto_rows_have_the_label_of_each_reply():
    selected = select([attempt("a"), attempt("b", 0.0, repeat=1)], "kto")

    assert [(row.completion, row.label) for row in selected.rows] == [("a", True), ("b", False)]


@pytest.mark.parametrize(
    ("on", "facts", "is_binary", "passing", "failing"),
    [
        ("right", {}, True, 1.0, 0.0),
        ("wrong", {"direction": "lower"}, True, 0.0, 1.0),
        ("score", {"low": 0, "high": 1}, False, 0.51, 0.5),
        ("score >= 0.9", {"low": 0, "high": 1}, False, 0.9, 0.89),
        ("errors", {"low": 0, "high": 10, "direction": "lower"}, False, 4.0, 5.0),
    ],
)
def test_replies_pass_by_limit_or_better_half(on, facts, is_binary, passing, failing):
    criterion = make_criterion(on, MetricFacts(name=on.split()[0], **facts), is_binary=is_binary)

    assert (criterion.passes(passing), criterion.passes(failing)) == (True, False)
    assert criterion.gap(passing, failing) > 0
    assert criterion.gap(criterion.best, criterion.worst) > 0


def test_a_score_without_bounds_needs_a_limit():
    with pytest.raises(SpecError, match=r"metric 'length' has scores without declared bounds: .* --on 'length >= 0.5'"):
        make_criterion("length", MetricFacts(name="length"), is_binary=False)
    criterion = make_criterion("length >= 10", MetricFacts(name="length"), is_binary=False)
    # What a failed reply is worth is not known: such a pair keeps no gap.
    attempts = [attempt("long", 12.0), attempt("cut", None, state="failed", repeat=1)]
    assert math.isinf(criterion.worst)
    assert pairs(select(attempts, "dpo", criterion)) == [("long", "cut")]


def test_the_words_of_a_template_are_not_the_samples_own():
    template = "Answer in one word. " * 30
    rows = select(
        [attempt(f"reply {n}", position=n, prompt=template + f"What is {n}?", template=7, own=f"{n}") for n in range(3)]
        + [attempt("reply 0", position=9, prompt=template + "What is 0 !?", template=None)],
        "sft",
    ).rows
    left_out: Counter[str] = Counter()

    assert len(drop_duplicates(rows, left_out)) == 4
    # A template of one sample alone is no template: then nearly all words are equal.
    alone = [rows[0], rows[3]]
    assert len(drop_duplicates(alone, left_out)) == 1
    assert sum(left_out.values()) == 1
