"""Runs as report formats get them."""

# What runs in process must not import these again: numpy refuses to be loaded twice.
import scipy.optimize
import scipy.special
import scipy.stats  # noqa: F401
from report_builders import analysis, plan, run  # noqa: F401 - fixtures

import pytest_crucible.runs.evaluate
import pytest_crucible.session.finish
import pytest_crucible.session.session  # noqa: F401
