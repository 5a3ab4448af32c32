"""Names of the models that answered, and an arm whose model changed while it was measured."""

from __future__ import annotations

from arm_columns import arm_columns, check_inputs, ensemble_columns

from pytest_crucible.features.run_checks.answered import check_answered


def test_the_models_own_names_are_shown_by_arm():
    arms = arm_columns("v2", ["a"], model="qwen-lora"), arm_columns("v1", ["a"], model="qwen")
    (finding,) = check_answered(check_inputs(*arms))
    assert (finding.cells, finding.problem) == (("qwen-lora", "qwen"), "")


def test_a_model_that_changes_in_the_middle_of_an_arm_is_named_with_its_counts():
    arms = arm_columns("v2", ["a"] * 3, model=["old", "new", "new"]), arm_columns("v1", ["a"], model="other")
    line, change = check_answered(check_inputs(*arms))
    assert line.cells == ("new (2), old (1)", "other")
    assert (change.differs, change.severity) == ("model changed", "warn")
    assert change.problem == (
        "v2 was answered by 2 models: new (2 replies), old (1 reply); its replies are not those of one model"
    )


def test_replies_without_any_name_have_no_line():
    assert not list(check_answered(check_inputs(arm_columns("v2", ["a"]))))


def test_a_name_that_stands_for_another_model_than_before_is_a_problem():
    """A provider's alias, measured against a stored run of it."""
    settings = {"model": "alias", "base_url": "http://host/v1"}
    arms = [
        arm_columns("now", ["a"], model="m-2", settings=settings),
        arm_columns("then", ["a"], model="m-1", settings=settings),
    ]
    (line,) = check_answered(check_inputs(*arms))
    assert line.problem == (
        "now and then name one model and server, but m-2 answered now, and m-1 answered then: the server's model has changed"
    )


def test_arms_of_two_models_and_an_arm_without_replies_have_no_problem():
    settings = {"model": "alias", "base_url": "http://host/v1"}
    now = arm_columns("now", ["a"], model="m-2", settings=settings)
    other = arm_columns("then", ["a"], model="m-1", settings={**settings, "model": "other"})
    empty = arm_columns("then", [], settings=settings)
    for baseline in (other, empty):
        assert [line.problem for line in check_answered(check_inputs(now, baseline))] == [""]


def test_an_ensemble_is_answered_by_the_models_of_its_members():
    """Not by its own name, which no server gave, and members are not one model that changed."""
    trio = ensemble_columns("trio", {"m1": "ab", "m2": "ac"}, model={"m1": "base", "m2": "tuned"})
    (line,) = check_answered(check_inputs(trio, arm_columns("v1", "ab", model="v1")))
    assert (line.cells, line.problem) == (("base (2), tuned (2)", "v1"), "")


def test_a_member_whose_model_changes_is_named():
    trio = ensemble_columns("trio", {"m1": "ab", "m2": "ac"}, model={"m1": ["old", "new"], "m2": "tuned"})
    _, change = check_answered(check_inputs(trio))
    assert change.problem.startswith("m1 of trio was answered by 2 models: old (1 reply), new (1 reply)")
