"""What all tests share: pytester, a database server, and an environment that cannot change what they see."""

import contextlib
import functools
import gc
import os
import pkgutil
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import postgresql_server
import pytest
from hypothesis import HealthCheck, settings
from installed_distributions import read_distributions_once
from left_patches import left_patches, module_names
from run_sizes import choose_examples
from shared_statements import share_compiled_statements
from sqlalchemy import create_engine, text
from warm_process import WarmProcesses
from warm_programs import use_warm_programs

import pytest_crucible

pytest_plugins = ["pytester"]

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


def pytest_collection_finish() -> None:
    """Let no garbage collection of a test visit all tests and modules, which stay to the end."""
    gc.freeze()
    # It counts one by one, each session in this process asks three times, and of a million objects each takes 20 ms.
    gc.get_freeze_count = functools.cache(gc.get_freeze_count)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if (name.startswith("CRUCIBLE_") and name not in KEPT) or name in FOREIGN or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


LIBRARIES = (
    "scipy.stats",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.postgresql.psycopg",
    "httpx",
    "httpcore",  # httpx imports it with the first request, and keeps its classes
    "jsonschema",
    "jinja2",
    "nbformat",
    "httptools",
    "pandas",
    "psycopg",
    # pytest's hook for exceptions in finalizers imports it. A finalizer may run while importlib walks through its caches, which
    # an import changes: RuntimeError.
    "tracemalloc",
)
"""Libraries that sessions import when they need them; psycopg and httpx are extras. A second copy would have other classes."""


@pytest.fixture(scope="session")
def _loaded_modules() -> None:
    """Import what a session may import. pytester forgets what was first imported inside one, and the next one would pay again."""
    ours = [module.name for module in pkgutil.walk_packages(pytest_crucible.__path__, "pytest_crucible.")]
    for name in (*LIBRARIES, *ours):
        if not name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                import_module(name)
    read_distributions_once()
    share_compiled_statements()


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
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcesses]:
    # A worker's folder lies in that of its session.
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with contextlib.closing(WarmProcesses(shared)) as processes:
        yield processes


@pytest.fixture
def warm_programs(warm: WarmProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python programs that the test, or the package in its process, starts are forks of a warm process."""
    use_warm_programs(monkeypatch, warm)


@pytest.fixture(scope="session")
def _postgresql_server() -> Iterator[str]:
    if reason := postgresql_server.missing():
        pytest.skip(reason)
    with postgresql_server.server("fsync=off") as one:  # nobody pulls this plug
        yield one.url


@pytest.fixture
def postgresql(_postgresql_server: str) -> str:
    """The URL of an empty PostgreSQL database, for which no rows of an earlier test wait."""
    from pytest_crucible.store.spill_file import waiting_rows

    for path in waiting_rows(_postgresql_server):
        path.unlink()
    engine = create_engine(_postgresql_server)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return _postgresql_server
