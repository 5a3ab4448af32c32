"""Imports of what only verdicts and reports need, while the requests of an experiment are in flight."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import pytest

from pytest_crucible.builtin import registered_sections
from pytest_crucible.records import Plan
from pytest_crucible.sections.run import load_sections, sections_of


def import_analysis(config: pytest.Config, plans: Sequence[Plan]) -> None:
    """Import the analysis of these plans, with the sections that concern them. Raises what a module raises.

    Half of a session's imports are for its end: before the first request they would delay it, and after the last reply the
    verdicts. The main thread, which waits for replies, makes them at its first tick. A session whose replies come sooner
    makes them when it ends. Later calls cost nothing.
    """
    compared = ("stats.comparing",) if any(plan.contrasts for plan in plans) else ()
    for needed in ("session.finish", "measures.means", "stats.choose", *compared):
        import_module(f"pytest_crucible.{needed}")
    sections = load_sections(registered_sections(config))
    for plan in plans:
        sections_of(sections, plan)
