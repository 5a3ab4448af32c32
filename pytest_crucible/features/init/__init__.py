"""A first suite, `crucible init`: adapters, data, a test and a CI workflow, and its first five samples."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature("init")
