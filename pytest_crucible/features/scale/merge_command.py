"""`crucible merge`: one run of the files of shards, concluded as a session concludes its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from pytest_crucible.commands.options import store_option
from pytest_crucible.commands.show import verbose_option
from pytest_crucible.features.scale.merging import merge_shards, merged_run
from pytest_crucible.features.scale.shard import Shard
from pytest_crucible.features.scale.shard_files import ShardFile, Shards, check_version, read_shards
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.session.reports import check_reports
from pytest_crucible.session.session import CrucibleSession, open_session

SETTINGS = ("alpha", "seed", "strict", "undecided", "memory")
"""Options of the shards that decide their run."""
PLUGIN = ("-pcrucible", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Named because PYTEST_DISABLE_PLUGIN_AUTOLOAD may be set; its modules, which the command has imported, have no assertions."""
ABSENT = ("stages", "executor", "results")
"""Options in pytest's configuration that are about sending requests."""


@click.command("merge")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILES...")
@store_option
@click.option("--report", "reports", multiple=True, metavar="PATH", help="Write a report; may be repeated.")
@click.option("--json", "document", metavar="PATH", help="Write the whole run as JSON.")
@click.option("--junit", "--junitxml", "junit", metavar="PATH", help="Write the shards and verdicts as JUnit.")
@verbose_option
def merge(
    files: Sequence[Path], store: str, reports: Sequence[str], document: str | None, junit: str | None, verbose: int
) -> int:
    """Make one run of FILES that --crucible-shard has written: verdicts, exit status and reports of a single session.

    The run is entered into the run store, and hooks of a conftest.py here apply to its verdicts. Exits 1 when a verdict is missed,
    the session of a shard has failed, or a shard is missing.
    """
    shards = read_shards(files)
    check_version(shards.files)
    options = [f"--crucible-report={path}" for path in reports]
    options += [f"--crucible-json={document}"] if document else []
    options += [f"--junitxml={junit}"] if junit else []
    options += ["-" + "v" * verbose] if verbose else []
    return run_session(shards, store, options)


def run_session(shards: Shards, store: str, options: Sequence[str]) -> int:
    """Run the end of a session, and return its exit status."""
    location = store if "://" in store else str(Path(store).absolute())
    settings = [f"crucible_{name}={shards.files[0].settings[name]}" for name in SETTINGS]
    # Options of ordinary sessions, such as workers, are not those of this one.
    settings += ["addopts=", *(f"crucible_{name}=" for name in ABSENT)]
    environment = os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        arguments = [f"--crucible-store={location}", *(word for text in settings for word in ("-o", text)), *options]
        return int(pytest.main([*PLUGIN, *arguments], plugins=[MergedSession(shards)]))
    finally:
        if environment is not None:
            os.environ["PYTEST_ADDOPTS"] = environment


class MergedSession:
    """A pytest plugin: instead of collecting and running tests, the session has those that shards have run."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def pytest_configure(self, config: pytest.Config) -> None:
        # What shards have spent is entered with their rows.
        config.option.crucible_budget = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Merge the shards instead of collecting tests."""
        session.items = []
        sys.path.insert(0, str(session.config.rootpath))
        opened = open_session(session.config, merged_run(self._shards.files))
        try:
            check_reports(session.config, opened.settings)
            merge_shards(opened.resources.store, self._shards.files)
        except CrucibleError as error:
            raise pytest.UsageError(opened.state.hide(str(error))) from error
        self._expect(opened)
        return True

    def _expect(self, opened: CrucibleSession) -> None:
        """Let the session conclude the run as if it had run its tests."""
        messages = opened.messages
        messages.begun = True
        messages.lines += self._shards.notes
        for file in self._shards.files:
            messages.expected_failures |= file.expected_failures
        for nodeid, plan in self._shards.files[0].parsed_plans.items():
            messages.add_item(nodeid, nodeid)
            messages.expected_verdicts += len(plan.targets) + sum(contrast.decides for contrast in plan.contrasts)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Report each shard as a test; the verdicts follow."""
        opened: Any = session.config.pluginmanager.get_plugin("crucible-session")
        reports = [_shard_report(file.shard, _problem(file)) for file in self._shards.files]
        for shard in self._shards.missing:
            reports.append(_shard_report(shard, f"shard {shard} is missing: verdicts are undecided; add it"))
        opened.report_items(session, reports)
        return True


def _problem(file: ShardFile) -> str:
    """Return what is wrong with the run of a shard; empty if nothing is."""
    if not file.is_complete:
        return f"shard {file.shard} was interrupted: run it again with --crucible-resume"
    status = file.facts["exit_status"]
    return f"the session of shard {file.shard} failed (exit status {status}): its log says why" if status else ""


def _shard_report(shard: Shard, problem: str) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=shard.file,
        location=(shard.file, None, shard.file),
        keywords={},
        outcome="failed" if problem else "passed",
        longrepr=problem or None,
        when="call",
    )
