"""Collects a suite and writes its record: `python -m pytest_crucible.features.registry.collect_suite FILE ARGUMENTS`.

In a process of its own, so that nothing of an earlier session, and no variable that its caller has set, changes what is
collected. No adapter is opened and no run store is read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest
from _pytest.outcomes import OutcomeException

from pytest_crucible.features import register_features
from pytest_crucible.features.registry.records import SuiteRecord
from pytest_crucible.features.registry.suite import DESELECTED, has_verdicts, record_suite
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.session.experiment_data import SessionDatasets
from pytest_crucible.session.items import function_nodeid, uses_crucible
from pytest_crucible.session.markers import JUDGING, is_experiment
from pytest_crucible.session.pytest_project import run_pytest
from pytest_crucible.session.settings import read_settings


class SuiteCollector:
    """A pytest plugin that records what is collected, and what the suite itself leaves out."""

    __name__ = "crucible-suite"
    """Its name as a plugin: where there is one of this name, no session is opened."""

    def __init__(self) -> None:
        self._root = Path()
        self.record: SuiteRecord | None = None
        self.error = ""
        self._items: list[pytest.Item] = []
        self._left_out: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_ignore_collect(
        self, collection_path: Path, config: pytest.Config
    ) -> Generator[None, bool | None, bool | None]:
        ignored = yield
        if ignored:
            for path in _experiment_files(collection_path, config):
                self._left_out[path] = "ignored by conftest.py or an option"
        return ignored

    def pytest_configure(self, config: pytest.Config) -> None:
        self._root = config.rootpath

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # A file without experiments has no part in a gate, whatever it lacks.
        if report.passed or not _names_experiments(self._root / report.nodeid.partition("::")[0]):
            return
        if report.failed:
            self.error = self.error or f"{report.nodeid}: {_error_line(report.longreprtext)}"
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        self._left_out[report.nodeid] = f"skipped ({str(reason).removeprefix('Skipped: ')})"

    # Before a hook of the suite removes any.
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        self._items.append(item)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        try:
            self.record = self._read(session)
        except CrucibleError as error:
            self.error = self.error or str(error)
        # Datasets and hooks are code of the suite, which may raise anything.
        except (Exception, SystemExit, OutcomeException) as error:
            self.error = self.error or f"{type(error).__name__}: {error}"

    def _read(self, session: pytest.Session) -> SuiteRecord:
        config = session.config
        # No session is opened, and features have demands of their own.
        register_features(config.pluginmanager)
        settings = read_settings(config)
        data = SessionDatasets(config, settings.seed)
        functions = {
            item.nodeid: item.function
            for item in self._items
            if is_experiment(item) and isinstance(item, pytest.Function)
        }
        remaining = {id(item) for item in session.items}
        removed = {
            item.nodeid if item.nodeid in functions else function_nodeid(item): DESELECTED
            for item in self._items
            if id(item) not in remaining and (is_experiment(item) or uses_crucible(item)) and has_verdicts(item)
        }
        return record_suite(config, settings, session.items, functions, data, {**self._left_out, **removed})


def main(arguments: Sequence[str]) -> int:
    """Write the record of a suite, or the error of its collection, as JSON."""
    file, *words = arguments
    collector = SuiteCollector()
    status, last_line = run_pytest(words, collector)
    # Such as a file that does not exist. Files without experiments may fail to be imported, which ends pytest with another status.
    is_broken = collector.record is None or status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR)
    error = collector.error or (last_line if is_broken else "")
    Path(file).write_text(json.dumps({"error": error, "record": to_plain(collector.record)}), encoding="utf-8")
    return 0


def _experiment_files(path: Path, config: pytest.Config) -> Iterator[str]:
    """Yield the ignored files that may hold experiments; none of folders that pytest never looks into, such as `build`."""
    patterns = config.getini("norecursedirs")
    files = [path]
    if path.is_dir():
        is_usual = any(fnmatch(path.name, pattern) for pattern in patterns) or (path / "pyvenv.cfg").is_file()
        files = [] if is_usual else sorted(path.rglob("*.py"))
    for file in files:
        is_test = any(fnmatch(file.name, pattern) for pattern in config.getini("python_files"))
        if is_test and _names_experiments(file):
            yield file.relative_to(config.rootpath).as_posix() if file.is_relative_to(config.rootpath) else str(file)


def _names_experiments(file: Path) -> bool:
    """Return whether a file that was not imported seems to have experiments with verdicts: it names a marker that judges."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(marker in text for marker in JUDGING)


def _error_line(text: str) -> str:
    """Return the exception of a traceback as pytest prints it."""
    return next((line.removeprefix("E").strip() for line in reversed(text.splitlines()) if line.startswith("E ")), text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
