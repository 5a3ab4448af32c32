"""The process that collects a suite for its gate."""

from __future__ import annotations

import pytest

from pytest_crucible.records.errors import SpecError
from pytest_crucible.registry.promote import clean_environment, collect_suite


def test_only_variables_that_programs_need_and_those_that_are_named_are_passed_on():
    environment = {
        "PATH": "p",
        "LC_ALL": "C",
        "HF_HOME": "h",
        "FAST": "1",
        "PYTEST_ADDOPTS": "-k x",
        "CRUCIBLE_STORE": "s",
        "MORE": "2",
    }

    assert clean_environment(environment, ["MORE", "ABSENT"]) == {
        "PATH": "p",
        "LC_ALL": "C",
        "HF_HOME": "h",
        "MORE": "2",
    }


@pytest.mark.slow
def test_a_suite_that_is_not_there_cannot_be_collected(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    with pytest.raises(SpecError, match=r"the suite \(nowhere.py\) cannot be collected for its gate: .*nowhere.py"):
        collect_suite(["nowhere.py"], [], tmp_path)
