"""Names of items: those of verdicts as arguments, and the ids, arms and functions of the items of joined tests."""

from __future__ import annotations

import pytest
from experiment_builders import collect_items

from pytest_crucible.records import Contrast
from pytest_crucible.session.items import (
    JoinedTest,
    arm_name,
    function_nodeid,
    group_by_function,
    sample_id,
    unique_ids,
    uses_crucible,
)
from pytest_crucible.session.markers import resolve_argument

JOINED = """
    import pytest

    @pytest.mark.parametrize("question", ["a", "b"])
    @pytest.mark.ab_compare("right")
    def test_it(question, crucible):
        pass
"""
ARMS = ("--crucible-adapter=v2", "--compare=v1")


def test_each_parameter_is_one_sample_of_every_arm(pytester):
    items = collect_items(pytester, JOINED, *ARMS)

    assert [(sample_id(item), arm_name(item)) for item in items] == [("a", "v2"), ("a", "v1"), ("b", "v2"), ("b", "v1")]
    assert unique_ids(items) == ["a", "b"]


def test_without_a_baseline_items_have_no_arm(pytester):
    items = collect_items(pytester, JOINED, "--crucible-adapter=v2")

    assert [(sample_id(item), arm_name(item)) for item in items] == [("a", None), ("b", None)]


def test_a_parameter_that_ends_like_the_arm_keeps_its_end(pytester):
    items = collect_items(pytester, JOINED.replace('["a", "b"]', '["a-v1", "v1"]'), *ARMS)

    assert unique_ids(items) == ["a-v1", "v1"]


def test_an_arm_whose_name_pytest_escapes_is_cut_off_all_the_same(pytester):
    items = collect_items(pytester, JOINED, "--crucible-adapter=größer", "--compare=v1")

    assert unique_ids(items) == ["a", "b"]


@pytest.mark.parametrize("arms", [("--crucible-adapter=v2",), ARMS], ids=["one arm", "two arms"])
def test_a_test_without_parameters_is_one_sample_of_every_arm(pytester, arms):
    source = JOINED.replace('@pytest.mark.parametrize("question", ["a", "b"])', "").replace("question, ", "")

    assert unique_ids(collect_items(pytester, source, *arms)) == ["test_it"]


def test_a_function_is_named_without_parameters_also_in_a_folder_with_a_bracket(pytester):
    path = pytester.mkdir("evals[1]") / "test_joined.py"
    path.write_text("import pytest\n@pytest.mark.parametrize('k', [1])\ndef test_it(k, crucible):\n    pass\n")
    (item,), _ = pytester.inline_genitems("-p", "no:asyncio")

    assert function_nodeid(item) == "evals[1]/test_joined.py::test_it"


def test_only_items_that_request_the_fixture_are_joined(pytester):
    module = pytester.getmodulecol(
        "def test_a(crucible):\n    pass\ndef test_b():\n    pass\n", configargs=["-p", "no:asyncio"]
    )
    first, second = pytester.genitems([module])

    assert (uses_crucible(first), uses_crucible(second)) == (True, False)
    assert list(group_by_function([first, second])) == [first.nodeid]


@pytest.mark.parametrize(("contrasts", "has"), [((), False), ((Contrast(metric="exact", baseline="v1"),), True)])
def test_a_verdict_follows_only_where_something_is_asked(plan, contrasts, has):
    assert JoinedTest(plan(targets=(), contrasts=contrasts), {}).has_verdicts is has


# -- names of verdicts as arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argument",
    [
        "test_x.py::test_y",
        "test_x.py::TestA::test_y[0]",
        "test_x.py::test_y[a@b]",
        "at@home/test_x.py::test_y",
        "cases.yaml::user@host",
        "test_x.py",
    ],
)
def test_other_arguments_stay_as_they_are(argument):
    assert resolve_argument(argument) == argument


@pytest.mark.parametrize("test", ["test_x.py::test_y", "a b/test_x.py::TestA::test_y", "test_x.py::test_y[a@b c]"])
@pytest.mark.parametrize("group", ["", "@g", "@model server", "@a_b"])
@pytest.mark.parametrize("verdict", ["exact_match >= 0.8", "recall@5: v2 vs v1", "rate(seconds <= 2) >= 0.9"])
def test_a_verdict_in_a_group_stands_for_its_test(test, group, verdict):
    assert resolve_argument(f"{test}{group}::{verdict}") == test


@pytest.mark.parametrize("test", ["test_x.py::test_y", "at@home/test_x.py::TestA::test_y", "test_x.py::test_y[a@b c]"])
def test_a_test_in_a_group_stands_for_itself(test):
    assert resolve_argument(f"{test}@g") == test
