"""Replies with reasoning in their text are counted, and those in an unknown form are a problem."""

from __future__ import annotations

from pytest_crucible.features.run_checks.reasoning import ReasoningCounts, count_reasoning


def test_known_and_unknown_forms_are_counted_apart():
    texts = ["<think>a</think>4", "a</think>4", "4", "a</deep_think>4", "a[/THINK]4", ""]

    assert count_reasoning(texts) == ReasoningCounts(replies=6, reasoning=2, unknown=2, mark="</deep_think>")


def test_a_known_form_may_leave_a_mark_of_an_unknown_one():
    assert count_reasoning(["<think>a</think>b</think>4"]) == ReasoningCounts(1, 1, 1, "</think>")


def test_replies_without_reasoning_have_no_mark():
    assert count_reasoning(["4", "<b>4</b>", "Close it with `</think>`."]) == ReasoningCounts(3, 0, 0, "")
