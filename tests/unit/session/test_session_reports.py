"""Verdicts become test reports, a run becomes lines and files, and requested files are checked before the first request."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from adapter_contexts import default_settings
from experiment_builders import ALONE, register_tables

from pytest_crucible.records import Run, Verdict
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.finish import finish_lines, github_annotations, report_verdicts, summary_lines
from pytest_crucible.session.reports import check_reports, requested_reports, rerun_report, verdict_reports
from pytest_crucible.session.workers import Messages

NODEID = "test_math.py::test_sums"


class Reports:
    """A plugin that records the reports of a session."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.outcomes[report.nodeid, report.when or ""] = report.outcome

    def calls(self) -> dict[str, str]:
        return {
            nodeid.removeprefix(f"{NODEID}::"): self.outcomes[nodeid, when]
            for nodeid, when in self.outcomes
            if when == "call"
        }


def report_run(pytester: pytest.Pytester, run: Run, **settings: str) -> tuple[Reports, pytest.Session]:
    config = pytester.parseconfigure(*ALONE, "-p", "no:terminal")
    reports = Reports()
    config.pluginmanager.register(reports, "recorder-of-reports")
    session = pytest.Session.from_config(config)
    messages = Messages([], items={NODEID: [f"{NODEID}[1]", f"{NODEID}[2]"]})
    report_verdicts(session, default_settings(**settings), run, messages)
    return reports, session


@pytest.fixture
def config(pytester: pytest.Pytester) -> pytest.Config:
    config = pytester.parseconfigure(*ALONE)
    register_tables(config)
    return config


def undecided_run(run: Run, **facts: object) -> Run:
    first, *others = run.verdicts
    return dataclasses.replace(run, verdicts=(dataclasses.replace(first, state="undecided", **facts), *others))


def test_each_verdict_is_a_test_that_passes_or_fails(pytester, run):
    reports, session = report_run(pytester, run())

    assert reports.calls() == {"exact >= 0.80": "passed", "p95(seconds) <= 2": "passed", "exact: v2 vs v1": "failed"}
    assert session.testscollected == 3
    assert {reports.outcomes[f"{NODEID}::exact: v2 vs v1", when] for when in ("setup", "teardown")} == {"passed"}


@pytest.mark.parametrize(
    ("facts", "setting", "outcome"),
    [({}, "pass", "skipped"), ({}, "fail", "failed"), ({"suite_error": True}, "pass", "failed")],
    ids=["passes", "fails", "suite error"],
)
def test_an_undecided_verdict_is_skipped_unless_it_is_to_fail_or_is_an_error_in_the_suite(
    pytester, run, facts, setting, outcome
):
    reports, _ = report_run(pytester, undecided_run(run(), **facts), undecided=setting)

    assert reports.calls()["exact >= 0.80"] == outcome


def test_a_failed_verdict_makes_its_items_run_again(pytester, run):
    _, session = report_run(pytester, run())

    failed = {str(nodeid) for nodeid in session.config.pluginmanager.get_plugin("lfplugin").lastfailed}
    assert failed >= {f"{NODEID}[1]", f"{NODEID}[2]"}


def test_verdicts_that_are_met_make_nothing_run_again(pytester, run):
    met = run()
    met = dataclasses.replace(met, verdicts=met.verdicts[:2])
    _, session = report_run(pytester, met)

    assert session.config.pluginmanager.get_plugin("lfplugin").lastfailed == {}


def test_a_report_carries_the_sentence_and_the_unrounded_numbers(run):
    whole = run()
    verdict: Verdict = whole.verdicts[2]
    setup, call, _ = verdict_reports(verdict, whole.experiments[0], family_size=1, undecided_fails=False)
    properties = dict(call.user_properties)

    assert call.longreprtext == properties["crucible_sentence"]
    assert properties["crucible_state"] == "missed"
    assert properties["crucible_estimate"] == -0.035
    assert "crucible_n" in properties
    assert setup.user_properties == []


def test_the_report_for_lf_fails_the_item_alone():
    report = rerun_report("test_math.py::test_sums[1]")

    assert (report.nodeid, report.when, report.failed) == ("test_math.py::test_sums[1]", "call", True)


# -- lines ----------------------------------------------------------------------------------------------------------


def test_messages_follow_the_summary_and_are_all_there_is_without_a_run(run):
    texts = [line.text for line in summary_lines(run(), ["a message"], verbosity=0, width=100)]

    assert texts[-1] == "a message"
    assert len(texts) > 3
    assert [line.text for line in summary_lines(None, ["a message"], verbosity=0, width=100)] == ["a message"]


def test_a_run_without_experiments_has_no_summary(run):
    empty = dataclasses.replace(run(), experiments=(), verdicts=())

    assert summary_lines(empty, [], verbosity=0, width=100) == []


def test_requested_reports_are_written_and_one_that_cannot_be_is_said(config, pytester, run):
    folder = pytester.path
    settings = default_settings(json="run.json", report=("run.md", "gone/run.md"))

    lines = list(finish_lines(config, settings, run()))

    assert (folder / "run.json").read_text().startswith("{")
    assert "exact" in (folder / "run.md").read_text()
    assert len(lines) == 1
    assert lines[0].startswith(f"report {str(folder / 'gone' / 'run.md')!r} was not written: ")


def test_github_gets_a_summary_and_annotations_only_in_its_actions(pytester, run, monkeypatch, tmp_path):
    config, settings, whole = pytester.parseconfigure(*ALONE), default_settings(), run()
    assert list(finish_lines(config, settings, whole)) == []
    assert list(github_annotations(whole, settings)) == []
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    list(finish_lines(config, settings, whole))

    assert "exact" in Path(tmp_path / "summary.md").read_text()
    assert [line for line in github_annotations(whole, settings) if line.startswith("::error")]


# -- requested files -------------------------------------------------------------------------------------------------


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
