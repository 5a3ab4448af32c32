"""A local dashboard of the run store, `crucible view`: runs, samples and time lines in a browser. It never imports pytest."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature("view")
