"""Verdicts as a JUnit file, for CI systems that show tests."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from pytest_crucible.records import Analysis, Run, Verdict
from pytest_crucible.report.printable import printable, printable_cell
from pytest_crucible.report.verdicts import evidence, sentence

_ENDINGS = {"missed": "failure", "undecided": "skipped"}


def render_junit(run: Run) -> str:
    """Return a test case for each verdict, as the session's own file has it: missed fails, undecided is skipped."""
    suite = ElementTree.Element("testsuite", name="crucible", timestamp=run.started[:19])
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    suite.extend(_case(verdict, analyses[verdict.nodeid], run) for verdict in run.verdicts)
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(list(suite.iter(tag)))))
    suites = ElementTree.Element("testsuites", name=f"crucible run {run.id}")
    suites.append(suite)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(verdict: Verdict, analysis: Analysis, run: Run) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=junit_class(verdict.nodeid), name=printable_cell(verdict.subject))
    case.set("time", "0.000")
    text = printable(sentence(verdict, analysis, run.family_size))
    properties = ElementTree.SubElement(case, "properties")
    for name, value in _properties(verdict, analysis, text, run):
        ElementTree.SubElement(properties, "property", name=f"crucible_{name}", value=value)
    ending = "error" if verdict.suite_error else _ENDINGS.get(verdict.state)
    if ending:
        ElementTree.SubElement(case, ending, message=text).text = text
    return case


def _properties(verdict: Verdict, analysis: Analysis, text: str, run: Run) -> Iterator[tuple[str, str]]:
    yield from (("state", verdict.state), ("sentence", text))
    yield from ((name, str(value)) for name, value in evidence(verdict, analysis).items() if value is not None)
    yield from ((fact.name, printable(fact.text)) for fact in run.facts_of(verdict))


def junit_class(nodeid: str) -> str:
    """Return the class under which a JUnit file has the verdicts of an experiment.

    >>> junit_class("evals/test_sums.py::TestSums::test_easy[v1.0]")
    'evals.test_sums.TestSums.test_easy[v1.0]'
    """
    path, _, rest = nodeid.partition("::")
    names, bracket, parameters = rest.partition("[")
    module = path.removesuffix(".py").replace("/", ".")
    return printable_cell(".".join(filter(None, [module, *names.split("::")])) + bracket + parameters)
