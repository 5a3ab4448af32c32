"""Prompts that announce their answer, and prompts of multiple choice that do not."""

from __future__ import annotations

import itertools

import pytest

from pytest_crucible.datasets.checks import check_samples, expect_answer_not_in_prompt
from pytest_crucible.features.data_checks.answers import find_announcements
from pytest_crucible.records import Sample

LEAKS = [
    "Correct option: ({})", "Answer is {}", "Correct answer - {}", "The right choice is ({low})", "Ans. {}", "answer:{}",
    "The answer to this question is {}.", "**Answer:** {}", "({}) is the correct answer", "Option {} is correct.",
    "The correct answer would be option {}", "Answer key: {}", "correct={}", "[Correct: {}]", "The correct one is {}",
    "expected_output: {}", "Ground truth: {}", "Answer -> {}", "Answer \u2192 {}", "Right answer: {low})",
    'Correct answer letter: "{}"', "Best answer: {}, because", "<answer>{}</answer>", "{} is the answer", "Solution\n{}",
    "Hint: {}", "gold label = {}", "The answer is: [{}]", "Answer: {}) it is said",
]  # fmt: skip
CHOICES = {
    "lines": "{q}\nA. {0}\nB. {1}\nC. {2}\nD. {3}\nAnswer:",
    "brackets": "Question: {q}\n(A) {0}\n(B) {1}\n(C) {2}\n(D) {3}\nAnswer with A, B, C or D.",
    "one line": "Select the correct answer: A) {0} B) {1} C) {2} D) {3} {q}",
    "names": "{q}\nA: {0}\nB: {1}\nC: {2}\nD: {3}\nAnswer (A, B, C or D):",
    "heads": "{q} Which is correct?\nA. {0}\nB. {1}\nC. {2}\nD. {3}\nThe answer is one of A/B/C/D. Correct option:",
    "instruction": "Answer A, B, C, or D. If B is the correct answer, write B.\n{q}\nA. {0}\nB. {1}\nC. {2}\nD. {3}",
    "ends": "{q}\nA. {0} is correct\nB. {1} is the answer\nC. {2} is the key\nD. {3}",
}
WORDS = ("Rome", "Paris", "a cat", "B cells")
RIGHT = [letter for letter in "ABCD" for _ in range(5)]


def prompts(form: str) -> list[str]:
    orders = itertools.cycle(itertools.permutations(WORDS))
    return [CHOICES[form].format(*next(orders), q=f"Hint: A triangle has {k} sides. What is it?") for k in range(20)]


def failing(texts, right=RIGHT) -> int:
    samples = [
        Sample(id=f"{k}", input=text, expected=answer)
        for k, (text, answer) in enumerate(zip(texts, right, strict=True))
    ]
    [result] = check_samples(samples, [expect_answer_not_in_prompt()])
    return result.failing


@pytest.mark.parametrize("form", CHOICES)
def test_choices_announce_nothing(form):
    assert failing(prompts(form)) == 0


@pytest.mark.parametrize("shots", [1, 2, 5])
def test_examples_announce_nothing(shots):
    """Each has the answers of the same examples before its question."""
    examples = "".join(f"{text} {answer}\n\n" for text, answer in zip(prompts("lines")[:shots], "CABDA", strict=False))

    assert failing([examples + text for text in prompts("lines")]) == 0


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("form", ["lines", "one line"])
@pytest.mark.parametrize("is_first", [True, False])
def test_announcements_are_found(leak, form, is_first):
    announcements = [leak.format(answer, low=answer.lower()) for answer in RIGHT]
    texts = [
        f"{a}\n{text}" if is_first else f"{text}\n{a}\nAnswer:"
        for a, text in zip(announcements, prompts(form), strict=True)
    ]

    assert failing(texts) == 20
    # One leak in a dataset, and a leak beside examples.
    assert failing([texts[0], *prompts(form)[1:]]) == 1
    examples = "".join(f"{text} {answer}\n\n" for text, answer in zip(prompts("lines"), "CABDA", strict=False))
    if "answer" not in leak.lower():
        assert failing([examples + text for text in texts]) == 20


@pytest.mark.parametrize(
    ("answer", "prompt"),
    [
        ("B", "A) Rome\nB) Paris (correct)\nC) Oslo"), ("B", "A) Rome\n\u2713 B) Paris"), ("B", "- [ ] A\n- [x] B"),
        ("-5", "Answer: -5"), ("(B)", "Answer: B"), ("4", "The solution is 4."), ("New York", "Answer: new  york"),
    ],
)  # fmt: skip
def test_other_answers_are_announced(answer, prompt):
    assert list(find_announcements(answer, prompt))


@pytest.mark.parametrize(
    ("answer", "prompt"),
    [
        ("4", "Answer: 4.5"), ("4", "Answer: 42"), ("yes", "Answer yes or no."), ("A", "Is it correct? A cat"),
        ("B", "monkey: B"), ("no", "Answer yes/no"), ("A", "The answer is a compound."), ("5", "The answer matters. 5 cows"),
    ],
)  # fmt: skip
def test_other_words_announce_nothing(answer, prompt):
    assert not list(find_announcements(answer, prompt, ["yes", "no"]))


def test_an_answer_among_the_choices_is_not_given_away():
    answers = [f"the capital of country number {k}" for k in range(20)]

    assert failing([f"Which?\nA. {answer}\nB. the sea" for answer in answers], answers) == 0
    assert failing([f"It is {answer}. Which?\nA. {answer}\nB. the sea" for answer in answers], answers) == 20


def test_long_prompts_take_linear_time():
    text = "answer is a correct (a) A. " * 20_000

    assert isinstance(list(find_announcements("A", text, ["B", "C", "D"])), list)
