"""A run's report for GitHub Actions: the job summary, and an annotation at each experiment with a verdict that is not met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_crucible.records import Run
from pytest_crucible.report.printable import printable
from pytest_crucible.report.verdict_text import sentence

# GitHub takes 1 MiB from a step and shows nothing of a longer summary; the rest is room for what others write.
A_SUMMARY = 1_000_000


def add_summary(run: Run, environment: Mapping[str, str]) -> str:
    """Append the report to the job's summary, if there is one.

    Returns a sentence when that could not be done, else an empty text.
    """
    path = environment.get("GITHUB_STEP_SUMMARY")
    if not path:
        return ""
    # Imported here because most runs are not in GitHub Actions.
    from pytest_crucible.report.markdown import render_markdown

    text = render_markdown(run, most=A_SUMMARY).encode("utf-8", "backslashreplace")
    if len(text) > A_SUMMARY:
        return f"the job's summary was not written: {len(text):,} bytes are more than GitHub shows"
    try:
        with Path(path).open("ab") as file:
            file.write(text)
    except OSError as error:
        return f"the job's summary was not written: {error}"
    return ""


def annotation_lines(run: Run, environment: Mapping[str, str], *, undecided_fails: bool) -> Iterator[str]:
    """Yield `::error file=...,line=...::...` for each verdict that fails the job.

    A verdict that is not met but does not fail it gives `::warning`. Outside GitHub Actions there are no lines.
    """
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    for verdict in run.verdicts:
        if verdict.state != "met" or verdict.suite_error:
            plan = analyses[verdict.nodeid].plan
            fails = verdict.state == "missed" or verdict.suite_error or undecided_fails
            text = sentence(verdict, analyses[verdict.nodeid], run.family_size)
            message = _escape_message(f"{verdict.subject}: {printable(text)}")
            where = f"file={_property(plan.path)},line={plan.line + 1},title={_property(plan.nodeid)}"
            yield f"::{'error' if fails else 'warning'} {where}::{message}"


def _escape_message(text: str) -> str:
    """Return the text as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # A colon would end the properties of a workflow command, and a comma would start the next one.
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")
