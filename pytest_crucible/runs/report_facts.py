"""Facts that features add to the reports of a run: of its verdicts, and of the run itself.

`hook` is that of pytest's plugin manager, or of the program's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pytest_crucible.records import ReportFact, Run
from pytest_crucible.runs.plugins import installed_extensions


def add_verdict_facts(run: Run, hook: Any) -> Run:
    """Return the run with what features say of its verdicts; unchanged if it is in no store."""
    return _add(run, hook.pytest_crucible_verdict_facts) if run.store else run


def add_run_facts(run: Run, hook: Any) -> Run:
    """Return the run with what features say of it; unchanged if it is in no store."""
    return _add(run, hook.pytest_crucible_run_facts) if run.store else run


def add_stored_facts(run: Run) -> Run:
    """Return a stored run with all that installed features say of it."""
    hook = installed_extensions().hook
    return add_run_facts(add_verdict_facts(run, hook), hook)


def _add(run: Run, call: Callable[..., Iterable[Iterable[ReportFact]]]) -> Run:
    try:
        facts = [fact for of_feature in call(run=run) for fact in of_feature]
    # The verdicts are decided: a session must not fail by what is said beside them.
    except Exception as error:
        text = f"facts of {run.id} are missing from this report: {type(error).__name__}: {error}"
        facts = [ReportFact(name="missing_facts", text=text, document=text)]
    return replace(run, facts=(*run.facts, *facts))
