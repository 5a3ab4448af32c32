"""Runs pytest in a directory for a command: to open adapters as a session there would, or to read a suite's plans."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.session import hooks
from pytest_crucible.session.adapter_context import adapter_context
from pytest_crucible.session.settings import read_settings
from pytest_crucible.store.runs import RunStore

Result = TypeVar("Result")

# No test runs, and files of earlier sessions stay unchanged.
# The plugin is named because PYTEST_DISABLE_PLUGIN_AUTOLOAD may be set.
OPTIONS = ("-pcrucible", "--collect-only", "-q", "--junitxml=", "--log-file=", "-o", "log_file=")


@dataclass
class _Caller(Generic[Result]):
    """A pytest plugin that calls a function where pytest would collect tests."""

    call: Callable[[pytest.Config], Result]
    directory: Path
    result: Result | None = None
    error: CrucibleError | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        # Recipes and scripts are next to the tests, whose folders pytest puts on the path when it collects them.
        config = session.config
        folders = [config.rootpath / folder for folder in config.getini("testpaths")]
        paths = (self.directory, config.rootpath, *folders)
        sys.path[:0] = [str(path) for path in dict.fromkeys(paths)]
        try:
            self.result = self.call(config)
        except CrucibleError as error:
            self.error = error
        # Another implementation would collect the tests.
        return True


def with_adapters(
    directory: Path, store: RunStore, use: Callable[[AdapterContext], Result], options: Sequence[str] = ()
) -> Result:
    """Return what `use` returns for the adapters of a directory, whose conftest.py is loaded. No test is collected.

    `options` are further options of pytest.
    Raises what `use` raises, and SpecError where pytest refuses the directory's configuration.
    """

    def call(config: pytest.Config) -> Result:
        context = adapter_context(config, read_settings(config), BackendContext(), lambda: store)
        return use(context)

    caller = _Caller(call, directory)
    with contextlib.chdir(directory), _same_path():
        _, last_line = run_pytest(options, caller)
    if caller.error is not None:
        raise caller.error
    if caller.result is None:
        raise SpecError(f"pytest cannot be configured in {str(directory)!r}: {last_line}")
    return caller.result


@contextlib.contextmanager
def _same_path() -> Iterator[None]:
    """Put back the module search path in the end."""
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before


def run_pytest(arguments: Sequence[str], plugin: object) -> tuple[int | pytest.ExitCode, str]:
    """Run pytest with a plugin, collecting only; return the exit status, and the last error or line that it printed."""
    output = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as cache,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        # Nothing in the arguments need be a sign that the hooks are needed.
        status = pytest.main([*arguments, *OPTIONS, "-o", f"cache_dir={cache}"], plugins=[plugin, hooks])
    lines = [line for line in output.getvalue().splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return status, (errors or lines or [f"exit status {int(status)}"])[-1]


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
    reader = PlanReader()
    with contextlib.chdir(directory):
        status, last_line = run_pytest(command, reader)
    succeeded = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return succeeded, last_line, reader.plans
