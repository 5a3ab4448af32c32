"""Test reports of what is below a test, such as its verdicts and data checks: their ids, and their names in JUnit files."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.junitxml import xml_key

from pytest_crucible.report.printable import printable_cell


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
    path, _, rest = test.partition("::")
    names, bracket, parameters = rest.partition("[")
    module = path.removesuffix(".py").replace("/", ".")
    classes = [xml.prefix, module, *names.split("::")]
    # Attributes that are set before the report is recorded stay.
    case = xml.node_reporter(report)
    case.add_attribute("classname", printable_cell(".".join(filter(None, classes)) + bracket + parameters))
    case.add_attribute("name", printable_cell(subject))
