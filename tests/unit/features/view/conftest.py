"""Fixtures of several files: the path of a run store, and a client of its dashboard for the tests of a file."""

from __future__ import annotations

import pytest

from tests.dashboard import dashboard_client


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture(scope="module")
def client(path):
    """A client of the store that the file enters runs into, at a `path` of the file's own."""
    with dashboard_client(path) as client:
        yield client
