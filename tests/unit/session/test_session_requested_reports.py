"""Requested report files are checked before the first request is sent."""

from __future__ import annotations

from typing import Any

import pytest
from adapter_contexts import default_settings
from experiment_builders import ALONE

from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.reports import check_reports, requested_reports


@pytest.fixture
def config(pytester: pytest.Pytester) -> pytest.Config:
    return pytester.parseconfigure(*ALONE)


def test_the_json_file_may_have_any_name_and_comes_first(config):
    files = requested_reports(config, default_settings(json="run.txt", report=("a.md", "b.csv")))

    assert [file.path.name for file in files] == ["run.txt", "a.md", "b.csv"]
    assert {file.path.parent for file in files} == {config.invocation_params.dir}


def test_without_a_request_there_is_no_file(config):
    assert requested_reports(config, default_settings()) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"report": ("run.docx",)}, "report 'run.docx': nothing writes .docx"),
        ({"report": ("gone/run.md",)}, "gone' is not a directory"),
        ({"json": "gone/run.json"}, "gone' is not a directory"),
    ],
    ids=["format", "report", "json"],
)
def test_a_report_that_cannot_be_written_is_refused(config, settings: dict[str, Any], sentence):
    with pytest.raises(SpecError, match=sentence):
        check_reports(config, default_settings(**settings))


def test_checking_writes_nothing(config, pytester):
    check_reports(config, default_settings(json="run.json", report=("run.md",)))

    assert not [path for path in pytester.path.iterdir() if path.name.startswith("run")]
