"""Reports of a session: verdicts and other parts of a test as test reports, and the report files that were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from _pytest.junitxml import xml_key

from pytest_crucible.builtin import registered_reporters
from pytest_crucible.records import Analysis, ReportFact, Run, Verdict
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.settings import Settings
from pytest_crucible.report.printable import printable, printable_cell
from pytest_crucible.report.verdicts import evidence, sentence
from pytest_crucible.runs.report_files import ReportFile, check_writable, report_files, write_report
from pytest_crucible.session.failures import ExpectedFailure, apply_expected_failure


class VerdictRepr:
    """The sentence of a failed verdict, in the shape in which pytest prints failures and writes JUnit files."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self.reprcrash = SimpleNamespace(message=sentence)

    def __str__(self) -> str:
        return self._sentence

    def toterminal(self, tw: pytest.TerminalReporter) -> None:
        tw.line(self._sentence)


def verdict_reports(
    verdict: Verdict,
    analysis: Analysis,
    *,
    family_size: int,
    undecided_fails: bool,
    expected: ExpectedFailure | None = None,
    facts: Iterable[ReportFact] = (),
) -> list[pytest.TestReport]:
    """Return setup, call and teardown reports of a verdict, so that every plugin that reads test reports sees it."""
    text = printable(sentence(verdict, analysis, family_size))
    properties = _properties(verdict, analysis, text, facts)
    setup, call, teardown = (
        _report(verdict, analysis, text, when, undecided_fails, properties) for when in ("setup", "call", "teardown")
    )
    if expected is not None:
        apply_expected_failure(call, expected)
    return [setup, call, teardown]


def rerun_report(nodeid: str, outcome: Literal["failed", "skipped"] = "failed") -> pytest.TestReport:
    """Return the report that makes pytest's --lf run an item again, or forget it: the item passed, but its verdict failed."""
    return pytest.TestReport(
        nodeid=nodeid, location=("", None, ""), keywords={}, outcome=outcome, longrepr=None, when="call"
    )


def _report(
    verdict: Verdict,
    analysis: Analysis,
    text: str,
    when: Any,
    undecided_fails: bool,
    properties: list[tuple[str, object]],
) -> pytest.TestReport:
    plan = analysis.plan
    outcome: Any = _outcome(verdict, undecided_fails) if when == "call" else "passed"
    reprs = {"passed": None, "skipped": (plan.path, plan.line + 1, f"Skipped: {text}"), "failed": VerdictRepr(text)}
    return pytest.TestReport(
        nodeid=part_id(plan.nodeid, verdict.subject),
        location=part_location(plan.path, plan.line, plan.nodeid, verdict.subject),
        keywords={"crucible": 1},
        outcome=outcome,
        longrepr=cast("Any", reprs[outcome]),
        when=when,
        # pytest copies the properties of the call and of the teardown into JUnit files.
        user_properties=properties if when != "setup" else [],
    )


def _properties(
    verdict: Verdict, analysis: Analysis, text: str, facts: Iterable[ReportFact]
) -> list[tuple[str, object]]:
    """Return the verdict and the unrounded numbers behind it, for JUnit files."""
    properties: list[tuple[str, object]] = [("crucible_state", verdict.state), ("crucible_sentence", text)]
    numbers = evidence(verdict, analysis)
    properties += [(f"crucible_{name}", value) for name, value in numbers.items() if value is not None]
    return [*properties, *((f"crucible_{fact.name}", printable(fact.text)) for fact in facts)]


def add_suite_properties(config: pytest.Config, run: Run) -> None:
    """Write the facts of the run itself into the JUnit file, if there is one."""
    xml = config.stash.get(xml_key, None)
    if xml is None:
        return
    for fact in run.own_facts:
        xml.add_global_property(f"crucible_{fact.name}", printable(fact.text))


def _outcome(verdict: Verdict, undecided_fails: bool) -> str:
    if verdict.state == "undecided" and not (undecided_fails or verdict.suite_error):
        return "skipped"
    return "passed" if verdict.state == "met" else "failed"


def part_id(test: str, subject: str) -> Any:
    """Return the id of a part whole: pytest 9.2 would read `test_x.py::test_y::answer[v1] >= 0.70` as a parametrised test."""
    text = f"{test}::{printable_cell(subject)}"
    try:
        from _pytest.nodeid import NodeId
    except ImportError:
        return text
    path, _, rest = text.partition("::")
    return NodeId(path=path, names=(rest,))


def part_location(path: str, line: int, test: str, subject: str) -> tuple[str, int, str]:
    """Return the location of a part's report."""
    # The end of the id would not do: with -v pytest rewrites the dots of a number in it.
    return path, line, f"{test.partition('::')[2]} {printable_cell(subject)}"


def name_in_junit(config: pytest.Config, report: pytest.TestReport, test: str, subject: str) -> None:
    """Set the names of a part's report in the JUnit file, if there is one: its test is the class, and its subject the name.

    pytest itself takes the text of an id apart at its first bracket, which is wrong below a parametrised test.
    """
    xml = config.stash.get(xml_key, None)
    if xml is None:
        return
    # Imported here: most sessions write no JUnit file.
    from pytest_crucible.report.junit import junit_class

    # Attributes that are set before the report is recorded stay.
    case = xml.node_reporter(report)
    case.add_attribute("classname", ".".join(filter(None, [xml.prefix, junit_class(test)])))
    case.add_attribute("name", printable_cell(subject))


def requested_reports(config: pytest.Config, settings: Settings) -> list[ReportFile]:
    """Return the files of --crucible-json and --crucible-report. Raises SpecError for an unknown format."""
    formats, folder = registered_reporters(config), config.invocation_params.dir
    whole = [ReportFile(folder / settings.json, load_object(formats["json"]))] if settings.json else []
    return [*whole, *report_files(settings.report, formats, folder)]


def check_reports(config: pytest.Config, settings: Settings) -> None:
    """Raise SpecError for a report that cannot be written: now, not after an hour of sampling."""
    for file in requested_reports(config, settings):
        check_writable(file)


def write_reports(config: pytest.Config, settings: Settings, run: Run) -> Iterator[str]:
    """Write each report; yields a line for each that could not be written after all."""
    for file in requested_reports(config, settings):
        try:
            write_report(file, run)
        # The disk may be full, and an HTML page also reads the run store.
        except CrucibleError as error:
            yield f"report {str(file.path)!r} was not written: {error}"
