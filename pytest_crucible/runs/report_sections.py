"""The sections that every report has: those of the package and of its presets."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_crucible import presets, sections

BUILT_IN: Mapping[str, sections.Section | str] = {**sections.BUILT_IN, **presets.SECTIONS}
"""Name -> module, in the order in which reports show them."""
