import pytest

from pytest_crucible.session.markers import resolve_argument


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
