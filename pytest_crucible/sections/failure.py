"""The view of a section that raised: one sentence in its place, its traceback with -v, its exception in JSON."""

from __future__ import annotations

import traceback

from pytest_crucible.records import Note, SectionOutcome, View

# Lines of the traceback that are shown, the innermost ones: a recursion has a thousand frames.
MOST_LINES = 12


def failed_outcome(error: BaseException) -> SectionOutcome:
    """Return the outcome of a section that raised an exception."""
    lines = "".join(traceback.format_tb(error.__traceback__)).splitlines()
    return SectionOutcome(error=f"{type(error).__name__}: {error}", traceback=tuple(lines[-MOST_LINES:]))


def failure_view(name: str, outcome: SectionOutcome) -> View:
    """Return the view of a section that raised. Where its claims are unknown, their verdict has the sentence already."""
    sentence = f"the section {name!r} could not be shown: {outcome.error}; no verdict depends on it"
    details = Note(text=f"the section {name!r} raised {outcome.error}", details=outcome.traceback, verbosity=1)
    return View(
        title=name,
        notes=(details,) if outcome.hides_claims else (Note(text=sentence), details),
        document={"error": outcome.error},
    )
