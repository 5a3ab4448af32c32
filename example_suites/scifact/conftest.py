"""Gives the suite its adapters, through the plugin's own hook."""

import multivers
import pytest

from pytest_crucible import SpecError
from pytest_crucible.backends import recorded_rows


@pytest.hookimpl(optionalhook=True)
def pytest_crucible_backend(adapter):
    """`backend = "multivers"` answers with what a checkpoint of MultiVerS predicted."""
    if adapter.backend != "multivers":
        return None
    if adapter.options.get("weights") not in multivers.checkpoints():
        raise SpecError(f"adapter {adapter.name!r} needs weights = one of {', '.join(multivers.checkpoints())}")
    return recorded_rows(multivers.replies(adapter.options["weights"]), name=adapter.name)
