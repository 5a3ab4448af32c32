"""The settings of all calls, and differences without a declaration."""

from __future__ import annotations

import pytest
from arm_columns import arm_columns, check_inputs

from pytest_crucible.features.run_checks.sent import check_sent


def test_a_parameter_that_the_test_passes_to_one_arm_alone_is_a_problem():
    arms = (
        arm_columns(
            "v2", ["a"] * 3, parameters={"temperature": 0}, own=[{"temperature": 0, "reasoning_effort": "high"}] * 3
        ),
        arm_columns("v1", ["a"] * 3, parameters={"temperature": 0}),
    )
    (finding,) = check_sent(check_inputs(*arms))
    assert finding.cells == ("temperature 0, reasoning_effort high", "temperature 0")
    assert finding.differs == "differs: reasoning_effort"
    assert finding.problem.startswith(
        "the test sent different reasoning_effort (reasoning_effort: v2 high, v1 none), and no adapter declares it"
    )


def test_a_difference_of_the_adapters_tables_is_declared():
    arms = (
        arm_columns("v2", ["a"], parameters={"temperature": 0}, settings={"model": "a", "system": "Be brief."}),
        arm_columns("v1", ["a"], parameters={"temperature": 1}, settings={"model": "b"}),
    )
    (finding,) = check_sent(check_inputs(*arms))
    assert (finding.differs, finding.problem) == ("differs: system, temperature", "")


def test_values_that_change_within_an_arm_are_counted():
    own = [{"max_tokens": 8}, {"max_tokens": 8}, {"max_tokens": 64}]
    (finding,) = check_sent(check_inputs(arm_columns("v2", ["a"] * 3, own=own)))
    assert finding.cells == ("max_tokens 8 and 64",)
    assert finding.document == [{"max_tokens": {"8": 2, "64": 1}}]


def test_the_model_and_its_address_are_not_among_the_settings_that_must_be_equal():
    arms = (
        arm_columns(name, ["a"], settings={"model": name, "base_url": f"http://{name}"}, parameters={"temperature": 0})
        for name in ("v2", "v1")
    )
    (finding,) = check_sent(check_inputs(*arms))
    assert (finding.cells, finding.differs) == (("temperature 0", "temperature 0"), "")


def test_an_arm_without_calls_has_no_line():
    assert not list(check_sent(check_inputs(arm_columns("v2", []))))


def test_settings_of_files_are_not_declared_by_their_arms():
    """They are what was sent. A file may have them without the requests."""
    arms = [arm_columns(name, [], parameters={"temperature": heat}) for name, heat in (("v2", 0), ("v1", 1))]
    (finding,) = check_sent(check_inputs(*arms, is_imported=True))
    assert (finding.cells, finding.differs) == (("temperature 0", "temperature 1"), "differs: temperature")
    assert finding.problem == (
        "the arms were sent different temperature (temperature: v2 0, v1 1): a difference of the arms may come from "
        "that; if it is what you compare, add --arms-differ-in=temperature"
    )


def test_long_values_are_shown_where_they_differ():
    system = "You are an assistant who answers every question about {} in one word."
    arms = [
        arm_columns(f"v{k}", ["a"], settings={"system": system.format(topic)})
        for k, topic in ((2, "birds"), (1, "fish"))
    ]
    (line,) = check_sent(check_inputs(*arms))
    assert line.cells == (
        "system ...very question about birds in one word.",
        "system ...very question about fish in one word.",
    )


def test_parameters_of_each_sample_are_counted_and_a_lost_sample_is_no_difference():
    own = [{"choices": [f"a{k}", f"b{k}"]} for k in range(20)]
    arms = arm_columns("v2", ["a"] * 20, own=own), arm_columns("v1", ["a"] * 18, own=own[:18])
    (finding,) = check_sent(check_inputs(*arms))
    assert (finding.cells, finding.differs, finding.problem) == (
        ("choices (20 different values)", "choices (18 different values)"),
        "",
        "",
    )
    changed = arm_columns("v1", ["a"] * 20, own=[*own[:-1], {"choices": ["a", "z"]}])
    (finding,) = check_sent(check_inputs(arms[0], changed))
    assert finding.differs == "differs: choices"


def test_another_seed_is_another_draw_and_no_difference():
    arms = (arm_columns(name, ["a"], own=[{"seed": seed}]) for name, seed in (("v2", 1), ("v1", 2)))
    (finding,) = check_sent(check_inputs(*arms))
    assert (finding.differs, finding.problem) == ("", "")


@pytest.mark.parametrize(
    ("temperatures", "cell", "differs"),
    [
        ((0, 0), 'ensemble ["m1","m2"], temperature 0', "differs: ensemble"),
        ((0, 1), 'ensemble ["m1","m2"], temperature 0 and 1', "differs: ensemble, temperature"),
    ],
)
def test_the_members_of_an_ensemble_are_sent_what_their_tables_say(temperatures, cell, differs):
    tables = {f"m{k}": {"model": f"m{k}", "temperature": value} for k, value in enumerate(temperatures, start=1)}
    trio = arm_columns("trio", ["a"], members=("m1", "m2"), settings={"ensemble": ["m1", "m2"]}, member_settings=tables)
    m1 = arm_columns("m1", ["a"], parameters={"temperature": 0}, settings={"model": "m1"})

    (line,) = check_sent(check_inputs(trio, m1))

    assert (sorted(line.cells[0].split(", ")), line.differs, line.problem) == (sorted(cell.split(", ")), differs, "")


def test_what_an_ensemble_leaves_to_its_members_is_not_known_to_differ():
    """Earlier versions did not record their tables: both may have the baseline's temperature there."""
    for of_ensemble, differs in (({}, "differs: ensemble"), ({"temperature": 1}, "differs: ensemble, temperature")):
        trio = arm_columns(
            "trio", ["a"], members=("m1", "m2"), settings={"ensemble": ["m1", "m2"]}, parameters=of_ensemble
        )
        (line,) = check_sent(
            check_inputs(trio, arm_columns("m1", ["a"], parameters={"temperature": 0}, settings={"model": "m"}))
        )
        assert line.differs == differs
