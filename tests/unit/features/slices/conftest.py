"""Runs as report formats get them, and an empty run store."""

from experiment_builders import store  # noqa: F401 - a fixture
from report_builders import analysis, plan, run  # noqa: F401 - fixtures
