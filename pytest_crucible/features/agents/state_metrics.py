"""Metrics of the state that an agent has left in its workspace: files, tests that pass, rows of a database.

They are applied when the function has ended and its programs with it. A function that has failed gets the worst value.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.features.agents.commands import Command, check_words, run_command
from pytest_crucible.features.agents.copies import copy_tree, hash_tree
from pytest_crucible.features.agents.workspaces import current_workspace
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.models.scorers import current_reply
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.sandbox import SandboxBroken, require, shared
from pytest_crucible.sandbox.program_profile import missing_parts

# An agent's database may answer a query with more rows than fit in the memory, or never.
MOST_ROWS = 100_000
MOST_QUERY_S = 60.0
_GONE = ("no such table", "no such column", "unable to open database file")


def file_equals(path: str, expected: str | bytes | None = None, *, name: str = "") -> Metric:
    """Return a metric that is true if a file of the workspace has these contents; by default what the sample expects.

    It is named `PATH_equals`. A missing file is false, and so is a link that leads out of the workspace.
    """
    identity = _digest(repr(expected)) if expected is not None else "sample"

    @metric(name=name or f"{path}_equals", kind="binary", version=f"1:{path}:{identity}")
    async def equals(reply: Reply, sample: Sample) -> bool | NotApplicable:
        workspace = _workspace(f"file_equals({path!r})")
        if isinstance(workspace, NotApplicable):
            return workspace
        contents = sample.expected if expected is None else expected
        if not isinstance(contents, str | bytes):
            raise SpecError(
                f"file_equals({path!r}): sample {sample.id!r:.200} expects {type(contents).__name__}, not a text"
            )
        contents_bytes = contents if isinstance(contents, bytes) else contents.encode()
        return await asyncio.to_thread(_has_contents, workspace, path, contents_bytes)

    equals.function.__doc__ = f"The file {path} in the workspace is as expected."
    return equals


def tests_pass(
    command: str | Sequence[str],
    *,
    files: str | os.PathLike[str] | None = None,  # noqa: PT028 - it is no test
    timeout_s: float = 300.0,  # noqa: PT028
    name: str = "tests_pass",  # noqa: PT028
) -> Metric:
    """Return a metric that is true if a command ends with status 0 in the workspace: `tests_pass("pytest -q")`.

    It runs code that a model may have written, in the sandbox: without network, and with the workspace alone to write to.
    `--crucible-run-code` allows it. `files` are copied over those of the workspace before, such as tests that the agent must
    not see or change; give a whole path. Not done after `timeout_s` is false.
    """
    words = check_words(shlex.split(command) if isinstance(command, str) else command)
    source = None if files is None else Path(files).absolute()
    # Samples in flight are many more than processors, and the seconds of each count.
    room = asyncio.Semaphore(shared().workers)
    if source is not None and not source.exists():
        raise SpecError(f"tests_pass has files={str(files)!r}: there is no such directory or file")

    @metric(
        name=name, kind="binary", version=f"1:{shlex.join(words)}:{'' if source is None else source.name}:{timeout_s:g}"
    )
    async def pass_tests(reply: Reply, sample: Sample) -> bool | NotApplicable:
        workspace = _workspace(f"tests_pass({command!r})")
        if isinstance(workspace, NotApplicable):
            return workspace
        require()
        if missing := missing_parts():
            raise SandboxBroken(f"the tests were not run: {missing}")
        if source is not None:
            await asyncio.to_thread(copy_tree, source, workspace)
        async with room:
            return await _run_confined(words, workspace, timeout_s)

    pass_tests.function.__doc__ = f"{shlex.join(words)} ends with status 0 in the workspace."
    # Other tests are another metric, of which stored scores are not used.
    return pass_tests if source is None else replace(pass_tests, depends=lambda: hash_tree(source)[:16])


# A suite that imports it by name has no test of this name.
tests_pass.__test__ = False  # type: ignore[attr-defined]


def rows(sqlite: str, query: str, expected: Any = None, *, name: str = "rows") -> Metric:
    """Return a metric that is true if a query of an SQLite file in the workspace gives these rows.

    By default they are what the sample expects. Rows are lists of values, in the order of the query. Of a query with one
    column, a list of its values will do, and of a single value the value. A missing file, table or column is false.
    """
    if not sqlite3.complete_statement(query.rstrip().rstrip(";") + ";"):
        raise SpecError(f"rows({sqlite!r}, {query!r}): the query is not a whole statement of SQL")
    identity = _digest(f"{sqlite}\0{query}\0{expected!r}")

    @metric(name=name, kind="binary", version=f"1:{identity}")
    async def equal_rows(reply: Reply, sample: Sample) -> bool | NotApplicable:
        workspace = _workspace(f"rows({sqlite!r}, ...)")
        if isinstance(workspace, NotApplicable):
            return workspace
        selected = await asyncio.to_thread(_select, workspace, sqlite, query)
        return selected is not None and _same_rows(selected, sample.expected if expected is None else expected)

    equal_rows.function.__doc__ = f"{query} gives the expected rows of {sqlite} in the workspace."
    return equal_rows


def _workspace(owner: str) -> Path | NotApplicable:
    """Return the workspace of the unit that is scored. Raises SpecError for an experiment without any."""
    if (workspace := current_workspace()) is not None:
        return workspace
    if current_reply().feature_rows is None:
        return NotApplicable("workspaces are scored while a session samples")
    raise SpecError(f"{owner} needs the state of a workspace: take the argument `workspace` in the test function")


def _find_file(workspace: Path, path: str) -> Path | None:
    """Return a file in the workspace; None for a missing one, for another kind, and for a link that leads out of it."""
    resolved = (workspace / path).resolve()
    return resolved if resolved.is_relative_to(workspace.resolve()) and resolved.is_file() else None


def _has_contents(workspace: Path, path: str, contents: bytes) -> bool:
    file = _find_file(workspace, path)
    # The size first: an agent's file may be larger than the memory.
    return file is not None and file.stat().st_size == len(contents) and file.read_bytes() == contents


async def _run_confined(words: Sequence[str], workspace: Path, timeout_s: float) -> bool:
    home = Path(tempfile.mkdtemp(prefix="crucible-tests-"))
    try:
        command = Command(
            words=words, cwd=workspace, variables=_variables(home), confined=True, writable=(workspace, home)
        )
        result, ended = await run_command(command, timeout_s)
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
    return not ended and result.exit_status == 0


def _variables(home: Path) -> Mapping[str, str]:
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    return {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}


def _select(workspace: Path, sqlite: str, query: str) -> list[list[Any]] | None:
    """Return the rows of a query; None for a file, a table or a column that is missing. Raises sqlite3.Error and ValueError."""
    file = _find_file(workspace, sqlite)
    if file is None:
        return None
    deadline = time.monotonic() + MOST_QUERY_S
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
        try:
            selected = connection.execute(query).fetchmany(MOST_ROWS + 1)
        except sqlite3.OperationalError as error:
            if str(error).startswith(_GONE):
                return None
            raise
        except sqlite3.DatabaseError:
            # Not a database any more: what the agent has made of it.
            return None
    if len(selected) > MOST_ROWS:
        raise ValueError(f"{query!r} gives more than {MOST_ROWS} rows: add a LIMIT")
    return [list(row) for row in selected]


def _same_rows(selected: list[list[Any]], expected: Any) -> bool:
    """Return whether rows are as expected.

    >>> _same_rows([[1, "a"]], [(1, "a")]), _same_rows([[1], [2]], [1, 2]), _same_rows([[7]], 7), _same_rows([], [])
    (True, True, True, True)
    """
    if not isinstance(expected, list | tuple):
        return selected == [[expected]]
    if any(isinstance(row, list | tuple) for row in expected):
        return selected == [list(row) if isinstance(row, list | tuple) else row for row in expected]
    return selected == [[value] for value in expected]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
