"""The section on agents: the calls that each arm received over the endpoint. It changes no verdict."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.features.agents.sent_calls import SentCalls, few_calls, load_sent_calls
from pytest_crucible.records import Claim, Note, Row, Table, View
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.store.calls import unknown_calls
from pytest_crucible.store.experiments import StoredExperiment

decides = False  # no claim of it can fail the session
_NUMBERS = ("replies", "calls", "a reply", "parallel")


def compute(inputs: SectionInputs) -> tuple[SentCalls, ...] | None:
    """Return the calls of all arms; None where they are not stored, and for an experiment put together from several runs."""
    stored = inputs.stored
    if not isinstance(stored, StoredExperiment) or unknown_calls(stored.store, stored.run):
        return None
    arms = [arm.name for arm in inputs.plan.arms]
    return load_sent_calls(stored.store, stored.key, arms, [len(answers.positions) for answers in inputs.answers])


def claims(sent: Sequence[SentCalls]) -> Sequence[Claim]:
    """Return none: the section tests nothing."""
    return ()


def view(sent: Sequence[SentCalls], claims: Sequence[Claim]) -> View:
    """Return a table of the arms and their roles, and a note on each arm that was asked too little."""
    rows = tuple(Row(cells=_cells(each)) for each in sent)
    table = Table(title="Agents", heads=("arm", *_NUMBERS, "model named"), rows=rows, numbers=_NUMBERS, verbosity=1)
    return View(
        title="Agents",
        tables=(table,),
        notes=tuple(Note(text=sentence) for sentence in few_calls(sent)),
        document={"calls": [to_plain(each) for each in sent]},
    )


def _cells(sent: SentCalls) -> tuple[str, ...]:
    name = f"{sent.arm}, role {sent.role}" if sent.role else sent.arm
    counts = (f"{sent.replies:,}", f"{sent.calls:,}", f"{sent.per_reply:.1f}", f"{sent.parallel:,}")
    return (name, *counts, ", ".join(sent.models))
