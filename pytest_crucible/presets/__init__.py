"""Presets: metrics, targets and datasets of one project, built on the public hooks."""

from __future__ import annotations

from collections.abc import Mapping

EXPORTS: Mapping[str, str] = {"findings": "pytest_crucible.presets.cns3.antagonist.export:findings"}
"""Tables of `crucible export`: name -> function of a run store and a run."""
