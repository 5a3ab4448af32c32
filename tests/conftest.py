"""What all tests share: pytester, a database server, and an environment that cannot change what they see."""

import os
from collections.abc import Iterator

import postgresql_server
import pytest
from hypothesis import settings
from sqlalchemy import create_engine, text

pytest_plugins = ["pytester"]

settings.register_profile("everyday", max_examples=25)
settings.register_profile("thorough", max_examples=60)  # CI_FULL=1 .ci/run
settings.load_profile("everyday")

FOREIGN = ("OPENAI_API_KEY", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
KEPT = {"CRUCIBLE_DATA", "CRUCIBLE_REFERENCE"}
"""Where the tests' own data is."""


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if (name.startswith("CRUCIBLE_") and name not in KEPT) or name in FOREIGN or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def _postgresql_server() -> Iterator[str]:
    if reason := postgresql_server.missing():
        pytest.skip(reason)
    with postgresql_server.server("fsync=off") as one:  # nobody pulls this plug
        yield one.url


@pytest.fixture
def postgresql(_postgresql_server: str) -> str:
    """The URL of an empty PostgreSQL database."""
    engine = create_engine(_postgresql_server)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return _postgresql_server
