"""Contamination: samples that an arm was trained on, without which each verdict is decided again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.datasets.contamination.view import METHOD, match_tables, overlap_table, overlap_text
from pytest_crucible.records import Claim, Note, Statement, View
from pytest_crucible.records.contamination import ArmOverlap
from pytest_crucible.sections.inputs import SectionInputs

decides = False  # no claim of it can fail the session


def compute(inputs: SectionInputs) -> tuple[ArmOverlap, ...] | None:
    """Return the overlaps of the arms with their training files; None without a known training file."""
    return inputs.plan.overlaps or None


def claims(overlaps: Sequence[ArmOverlap]) -> Sequence[Claim]:
    """Return nothing: verdicts are decided again without the matched samples."""
    return ()


def view(overlaps: Sequence[ArmOverlap], claims: Sequence[Claim]) -> View:
    """Return a note for each arm, and tables of files and matched samples."""
    files = {overlap.file: overlap for arm in overlaps for overlap in arm.files}
    tables = (replace(overlap_table(list(files.values())), verbosity=2), *match_tables(list(files.values())))
    return View(
        title="Contamination",
        tables=(tables[0], *(replace(table, verbosity=3) for table in tables[1:])),
        notes=tuple(_note(arm) for arm in overlaps),
        methods=(Statement(text=METHOD + " Verdicts are decided with and without the matched samples."),),
        document=[{"arm": arm.arm, "files": list(arm.files)} for arm in overlaps],
    )


def _note(arm: ArmOverlap) -> Note:
    texts = [overlap_text(overlap) for overlap in arm.files]
    matters = any(overlap.matches or overlap.problem for overlap in arm.files)
    return Note(text=f"training data of {arm.arm}: {'; '.join(texts)}", verbosity=0 if matters else 1)
