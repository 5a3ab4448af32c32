"""Inputs of the analysis, from a stored run."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.store.experiments import load_experiments
from pytest_crucible.store.runs import RunStore


def stored_inputs(store: RunStore, run: str) -> Iterator[AnalysisInputs]:
    """Yield the inputs of the analysis for each experiment that the run started."""
    for stored in load_experiments(store, run):
        yield analysis_inputs(stored, stored.finished)
