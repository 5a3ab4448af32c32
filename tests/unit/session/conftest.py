"""Runs as report formats get them, and the resources of a session."""

from collections.abc import Iterator

import pytest

# What runs in process must not import these again: numpy refuses to be loaded twice.
import scipy.optimize
import scipy.special
import scipy.stats  # noqa: F401
from experiment_builders import make_resources
from report_builders import analysis, plan, run  # noqa: F401 - fixtures

import pytest_crucible.runs.evaluate
import pytest_crucible.session.finish
import pytest_crucible.session.session  # noqa: F401
from pytest_crucible.session.resources import Resources


@pytest.fixture
def resources(pytester: pytest.Pytester) -> Iterator[Resources]:
    """Those of a session in an empty folder, without a reply cache."""
    opened = make_resources(pytester)
    yield opened
    opened.close()
