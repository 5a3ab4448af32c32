"""Gives the suite its adapters, through the plugin's own hook."""

import humaneval_data
import pytest

from pytest_crucible import SpecError
from pytest_crucible.backends import recorded_rows


@pytest.hookimpl(optionalhook=True)
def pytest_crucible_backend(adapter):
    """`backend = "humaneval"` answers with solutions that were saved."""
    if adapter.backend != "humaneval":
        return None
    if "solutions" not in adapter.options:
        raise SpecError(f"adapter {adapter.name!r} needs solutions = the name of a run, such as 'gpt-4_runB'")
    return recorded_rows(humaneval_data.answers(adapter.options["solutions"]), name=adapter.name)
