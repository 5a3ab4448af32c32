"""Runs as report formats get them."""

from report_builders import analysis, plan, run  # noqa: F401 - fixtures
