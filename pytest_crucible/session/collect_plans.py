"""Collects the tests of a stored run without running them, so that `crucible doctor RUN` can compare the plans."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.records import Plan

# Collect only, and leave alone what the run has written: its reports, its log, and its cache (below).
OPTIONS = ("--collect-only", "-q", "--junitxml=", "--log-file=", "-o", "log_file=")


class PlanReader:
    """A pytest plugin that reads the plans when collection has finished."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_finish(self, session: pytest.Session) -> Any:
        result = yield
        crucible = session.config.pluginmanager.get_plugin("crucible-session")
        if crucible is not None:
            self.plans = {plan.nodeid: plan for plan in crucible.plans()}
        return result


def collect_plans(command: Sequence[str], directory: Path) -> tuple[bool, str, Mapping[str, Plan]]:
    """Return whether collection succeeded, the last line that pytest printed, and the plans by nodeid."""
    reader, output = PlanReader(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as cache,
        contextlib.chdir(directory),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        status = pytest.main([*command, *OPTIONS, "-o", f"cache_dir={cache}"], plugins=[reader])
    lines = [line for line in output.getvalue().splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    succeeded = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return succeeded, (errors or lines or [""])[-1], reader.plans
