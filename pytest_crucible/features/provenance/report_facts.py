"""Facts that reports show of verdicts beside their numbers."""

from __future__ import annotations

from typing import Any

from pytest_crucible.features.provenance.fragility import MOST_SETS_OF_REPORTS
from pytest_crucible.features.provenance.load_verdict_facts import load_verdict_facts
from pytest_crucible.features.provenance.run_rows import run_root
from pytest_crucible.features.provenance.verdict_facts import Flip, Fragility
from pytest_crucible.features.provenance.verdict_lines import fragility_text
from pytest_crucible.records import ReportFact, Run
from pytest_crucible.records.serialize import pick
from pytest_crucible.runs.run_store import store_of


def fragility_facts(run: Run) -> list[ReportFact]:
    """Return the fragility of each verdict of a run as a fact of its reports."""
    with store_of(run) as store:
        facts = load_verdict_facts(store, run, most_sets=MOST_SETS_OF_REPORTS)
    return [
        ReportFact(
            name="fragility",
            text=fragility_text(each),
            document=fragility_document(each.fragility),
            nodeid=nodeid,
            subject=subject,
        )
        for (nodeid, subject), each in facts.items()
    ]


def root_facts(run: Run) -> list[ReportFact]:
    """Return the root of a run as a fact of its reports; none for a run without seals."""
    with store_of(run) as store, store.connect() as connection, connection.snapshot():
        root = run_root(connection, run.id)
    return [ReportFact(name="root", text=f"root of run {run.id}: {root}", document=root)] if root else []


def fragility_document(fragility: Fragility) -> dict[str, Any]:
    """Return a fragility as plain data."""
    lost = fragility.lost
    return {
        "change": _flip(fragility.change),
        "change_of_state": _flip(fragility.change_of_state),
        "is_exact": fragility.is_exact,
        "lost": None if lost is None else pick(lost, "samples is_exact of is_better state proven"),
        "undefined": fragility.undefined,
    }


def _flip(flip: Flip | None) -> dict[str, Any] | None:
    return None if flip is None else pick(flip, "answers is_exact arm is_better state proven")
