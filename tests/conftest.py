"""Fixtures of all tests: pytester, a database server, and an environment that cannot change what they see."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import postgresql_server
import pytest
from chromium import chromium
from fork_server import ForkServer, import_everything
from hypothesis import HealthCheck, settings
from left_patches import left_patches, module_names
from run_sizes import choose_examples

pytest_plugins = ["pytester"]
# Tests build tiny models with the code that made the packaged one, which is not part of the package.
sys.path.append(str(Path(__file__).parents[1]))

MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:
    # A test's files lie in memory: each run store waits for a disk several times, and a session for 50 ms.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Neither chance nor a busy machine fails a property: its examples are the same each time, and no clock counts.
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("everyday", calm, max_examples=choose_examples(30), derandomize=True, database=None)
# Each night CI_FULL=1 .ci/run tries others.
settings.register_profile("thorough", calm, max_examples=60, derandomize=False)
settings.load_profile("everyday")

FOREIGN = ("OPENAI_API_KEY", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
KEPT = {"CRUCIBLE_DATA", "CRUCIBLE_REFERENCE"}
"""Where the tests' own data is."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turn", metavar="N/M", help="run one of M parts of the tests, by their names")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--turn=1/3` deselect two thirds of the tests, the same in each process."""
    if config.option.turn:
        number, parts = map(int, config.option.turn.split("/"))
        others = {item for item in items if crc32(item.nodeid.encode()) % parts != number}
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`, a worker that has nothing left to do takes tests from another one. An option would need xdist."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.option.dist == "load" else None


def pytest_collection_finish() -> None:
    """Let no garbage collection of a test visit all tests and modules, which stay to the end."""
    gc.freeze()
    # The sessions of tests keep a threshold of this size, and ask no more whether objects are frozen, which takes 20 ms.
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if (name.startswith("CRUCIBLE_") and name not in KEPT) or name in FOREIGN or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def _loaded_modules() -> None:
    """Import what a session may import. pytester forgets what was first imported inside one, and the next one would pay again."""
    import_everything()
    gc.freeze()  # a session that a command runs in this process collects its own garbage at its end


@pytest.fixture
def pytester(_loaded_modules: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """pytest's own; a session in this process that leaves a patch in our modules fails its test."""
    run = pytester.inline_run

    def inline_run(*arguments: Any, **options: Any) -> pytest.HookRecorder:
        before = module_names()
        recorder = run(*arguments, **options)
        assert not left_patches(before), "patched by a conftest file or a test, and not put back"
        return recorder

    monkeypatch.setattr(pytester, "inline_run", inline_run)
    return pytester


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of a Python whose processes have imported everything already."""
    # A worker's folder lies in that of its session.
    own = tmp_path_factory.getbasetemp()
    with ForkServer(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) as server:
        yield server.python


@pytest.fixture
def forked_programs(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that the test, the package or pytest-xdist starts with `sys.executable` have imported everything already."""
    monkeypatch.setattr(sys, "executable", python)


@pytest.fixture(scope="session")
def _postgresql_server() -> Iterator[str]:
    if reason := postgresql_server.missing():
        pytest.skip(reason)
    parent = Path(os.environ.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir()))
    with postgresql_server.server("fsync=off", parent=parent) as server:  # no power cut is tested
        yield server.url


@pytest.fixture
def postgresql(_postgresql_server: str) -> str:
    """The URL of an empty PostgreSQL database, for which no rows of an earlier test wait."""
    postgresql_server.empty_database(_postgresql_server)
    return _postgresql_server


@pytest.fixture
def postgresql_store(_postgresql_server: str) -> str:
    """The URL of a run store without rows in a database of its own, whose tables stay from test to test."""
    return postgresql_server.empty_store(_postgresql_server)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium. Skips the test where there is none."""
    with chromium() as opened:
        yield opened
