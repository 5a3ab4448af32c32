"""Point out stored baselines that served many sessions: the chance error of their replies is in every verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_crucible.records import Claim, Note, View
from pytest_crucible.sections.inputs import SectionInputs

decides = False  # no claim of it can fail the session

MANY = 10
"""Sessions after which a note appears: 15 % of series without any difference then have a proven regression
(docs/reference/error-rates.md)."""
RISK = "if they were lucky ones, a candidate that is no worse fails too often"
"""After the luckiest 5 % of stored baselines, 21 % of sessions at 40 samples and 32 % at 200 instead of 2.5 %: simulated by
tests/truth/rerun_evals.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseline:
    """A baseline with the replies of an earlier session."""

    arm: str
    sessions: int
    """How many sessions, this one included, have compared with the same replies."""


def compute(inputs: SectionInputs) -> tuple[StoredBaseline, ...] | None:
    """Return the baselines that have served many sessions, and whose model could be called again.

    Not those that the user chose by the name of a run.
    """
    baselines = (
        StoredBaseline(arm=arm.name, sessions=inputs.stored.sessions_with_same_replies(number))
        for number, arm in enumerate(inputs.plan.arms)
        if arm.role == "baseline" and arm.stored_run is None and not arm.recorded
    )
    return tuple(baseline for baseline in baselines if baseline.sessions >= MANY) or None


def claims(baselines: Sequence[StoredBaseline]) -> Sequence[Claim]:
    """Return nothing: a suggestion is not a claim."""
    return ()


def view(baselines: Sequence[StoredBaseline], claims: Sequence[Claim]) -> View:
    """Return a suggestion for each baseline."""
    return View(
        title="Stored baselines",
        notes=tuple(Note(text=_sentence(baseline)) for baseline in baselines),
        document=list(baselines),
    )


def _sentence(baseline: StoredBaseline) -> str:
    return (
        f"{baseline.arm}: {baseline.sessions:,} sessions have compared with the same stored replies of it; {RISK}: "
        "--crucible-fresh calls its model again"
    )
