"""Losses are counted by reason, failures by kind, and the first message of each reason is kept."""

from __future__ import annotations

from answer_builders import arm, inputs_of

from pytest_crucible.sections.replies import LOSSES


def test_losses_are_counted_by_reason_and_the_never_asked_among_them():
    inputs = inputs_of(arm(a=[True, "lost", True], b=["lost", "lost", 1.0]), arm(a=[True, True, True]), n=5)

    assert LOSSES.compute(inputs).lost == {"v2": {"error": 1, "scorer": 1, "not_run": 2}, "v1": {"not_run": 2}}


def test_what_was_not_selected_is_said_to_be_deselected():
    inputs = inputs_of(arm(a=[True, True, True]), n=5, selected=3)

    assert LOSSES.compute(inputs).lost == {"v2": {"deselected": 2}}


def test_failures_are_counted_by_kind():
    inputs = inputs_of(arm(failures={0: "timeout", 1: "truncated"}, a=[None, None]))

    assert LOSSES.compute(inputs).failures == {"v2": {"timeout": 1, "truncated": 1}}


def test_the_methods_say_what_proven_means_where_something_is_lost():
    whole, lossy = (LOSSES.compute(inputs_of(arm(a=values))) for values in ([True, True], [True, "lost"]))

    assert LOSSES.view(whole, ()).methods == ()
    assert [method.text for method in LOSSES.view(lossy, ()).methods] == [
        "A verdict is called proven only where it holds whatever the lost values were."
    ]
