"""Runs a function in pytest's configuration of a directory, so that a command opens adapters as a session there would."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.session.adapter_context import adapter_context
from pytest_crucible.session.settings import read_settings
from pytest_crucible.store.runs import RunStore

Result = TypeVar("Result")

# Nothing is collected, and files of earlier sessions stay unchanged.
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
        paths = (self.directory, session.config.rootpath, *_test_folders(session.config))
        sys.path[:0] = [str(path) for path in dict.fromkeys(paths)]
        try:
            self.result = self.call(session.config)
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

    caller, output = _Caller(call, directory), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as cache,
        contextlib.chdir(directory),
        _same_path(),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        status = pytest.main([*OPTIONS, *options, "-o", f"cache_dir={cache}"], plugins=[caller])
    if caller.error is not None:
        raise caller.error
    if caller.result is None:
        raise SpecError(f"pytest cannot be configured in {str(directory)!r}: {last_line(output.getvalue(), status)}")
    return caller.result


def _test_folders(config: pytest.Config) -> list[Path]:
    return [config.rootpath / folder for folder in config.getini("testpaths")]


@contextlib.contextmanager
def _same_path() -> Iterator[None]:
    """Put back the module search path in the end."""
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before


def last_line(output: str, status: Any) -> str:
    """Return the last error that pytest printed, else its last line."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [f"exit status {int(status)}"])[-1]
