"""The hooks of provenance."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pytest_crucible.features.row import Command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_crucible.records import Conversation, Plan, ReportFact, Run, View
    from pytest_crucible.store.runs import RunStore

_FOLDER = "pytest_crucible.features.provenance"
_METRICS = ("stated_confidence", "decision_count", "revision_count", "ambiguity_count")


def pytest_crucible_metrics() -> dict[str, str]:
    return {name: f"{_FOLDER}.metrics:{name}" for name in _METRICS}


def pytest_crucible_begin() -> None:
    """Let threads record for the sample that starts them, where a suite records decisions."""
    if f"{_FOLDER}.trace" in sys.modules:
        sys.modules[f"{_FOLDER}.threads"].carry_replies()


def pytest_sessionfinish() -> None:
    """Restore what was replaced for threads."""
    if f"{_FOLDER}.threads" in sys.modules:
        sys.modules[f"{_FOLDER}.threads"].stop_carrying()


def pytest_crucible_verdict_facts(run: Run) -> list[ReportFact]:
    """Return how fragile each verdict is."""
    from pytest_crucible.features.provenance.report_facts import fragility_facts

    return fragility_facts(run)


def pytest_crucible_verdict_views(store: RunStore, run: Run) -> Mapping[tuple[str, str], View]:
    """Return what `crucible why` prints of each verdict."""
    from pytest_crucible.features.provenance.why_lines import why_views

    return why_views(store, run)


def pytest_crucible_run_facts(run: Run) -> list[ReportFact]:
    """Return the root of the run, by which `crucible verify` knows whether it is still the one of the report."""
    from pytest_crucible.features.provenance.report_facts import root_facts

    return root_facts(run)


def pytest_crucible_sample_views(
    store: RunStore, run: str, experiment: int, plan: Plan, position: int, conversations: Sequence[Conversation]
) -> Iterable[View]:
    """Return the time lines of conversations."""
    from pytest_crucible.features.provenance.sample_views import sample_views

    return sample_views(store, run, experiment, plan, position, conversations)


def pytest_crucible_commands() -> dict[str, str]:
    return {
        "why": Command(f"{_FOLDER}.why_command:why", "What a verdict is made of, and what depends on a file."),
        "trace": Command(f"{_FOLDER}.trace_command:print_trace", "What happened to one sample, step by step."),
        "verify": Command(f"{_FOLDER}.verify_command:verify", "Whether the rows of a run are as they were written."),
    }
