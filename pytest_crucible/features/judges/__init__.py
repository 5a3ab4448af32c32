"""Metrics by an LLM judge, and how good the judge is."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature("judges")
