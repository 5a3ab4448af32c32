"""The model registry: versions of models, from draft to production, with the run that is the proof of each promotion."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature("registry")
