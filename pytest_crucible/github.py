"""A run where GitHub Actions shows it: the job's summary, and an annotation at each experiment whose verdict is not met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_crucible.records import Run
from pytest_crucible.report.printable import printable
from pytest_crucible.report.sentences import sentence

A_SUMMARY = 1_000_000
"""Bytes that GitHub takes from a step, less what others may have written: with more it shows none of it."""


def add_summary(run: Run, environment: Mapping[str, str]) -> str:
    """Append the report to the job's summary, where there is one; a sentence when that could not be done."""
    path = environment.get("GITHUB_STEP_SUMMARY")
    if not path:
        return ""
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


def annotated(run: Run, environment: Mapping[str, str], *, undecided_fails: bool) -> Iterator[str]:
    """`::error file=...,line=...::...` for what fails the job, `::warning` for what does not, in GitHub Actions alone."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    for one in run.verdicts:
        if one.state != "met" or one.mistake:
            plan = analyses[one.nodeid].plan
            fails = one.state == "missed" or one.mistake or undecided_fails
            told = _escaped(f"{one.subject}: {printable(sentence(one, analyses[one.nodeid]))}")
            where = f"file={_property(plan.path)},line={plan.line + 1},title={_property(plan.nodeid)}"
            yield f"::{'error' if fails else 'warning'} {where}::{told}"


def _escaped(text: str) -> str:
    """As a workflow command takes a message."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
