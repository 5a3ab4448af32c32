"""Facts that features add to the reports of a run: of its verdicts, and of the run itself.

`hook` is that of pytest's plugin manager, or of the program's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pytest_crucible.records import ReportFact, Run
from pytest_crucible.runs.plugins import installed_extensions
from pytest_crucible.store.runs import RunStore


def add_verdict_facts(run: Run, hook: Any, store: RunStore | None = None) -> Run:
    """Return the run with what features say of its verdicts; unchanged if it is in no store.

    `store` is that of the run, if it is open.
    """
    return _add(run, hook.pytest_crucible_verdict_facts, store) if run.store else run


def add_run_facts(run: Run, hook: Any, store: RunStore | None = None) -> Run:
    """Return the run with what features say of it; unchanged if it is in no store. `store` is as above."""
    return _add(run, hook.pytest_crucible_run_facts, store) if run.store else run


def add_stored_facts(run: Run, store: RunStore | None = None) -> Run:
    """Return a stored run with all that installed features say of it. `store` is as above."""
    hook = installed_extensions().hook
    return add_run_facts(add_verdict_facts(run, hook, store), hook, store)


def _add(run: Run, call: Callable[..., Iterable[Iterable[ReportFact]]], store: RunStore | None) -> Run:
    try:
        with contextlib.nullcontext(store) if store else contextlib.closing(RunStore(run.store)) as opened:
            facts = [fact for of_feature in call(run=run, store=opened) for fact in of_feature]
    # The verdicts are decided: a session must not fail by what is said beside them.
    except Exception as error:
        text = f"facts of {run.id} are missing from this report: {type(error).__name__}: {error}"
        facts = [ReportFact(name="missing_facts", text=text, document=text)]
    return replace(run, facts=(*run.facts, *facts))
