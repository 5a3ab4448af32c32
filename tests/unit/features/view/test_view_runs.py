"""The list of runs, and who may read it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from pytest_crucible.features.view.application import make_application
from pytest_crucible.features.view.site import Site
from pytest_crucible.store.runs import RunStore
from tests.dashboard import dashboard_client


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "runs.db"
    RunStore(str(path)).close()
    return path


def test_a_client_with_the_cookie_reads_the_list(store):
    with dashboard_client(store) as client:
        response = client.get("/")

    assert response.status_code == 200
    assert "<h1>Runs</h1>" in response.text


def test_without_the_token_nothing_is_read(store):
    client = TestClient(make_application(Site(RunStore(str(store)))))

    assert client.get("/").status_code == 403
    assert client.get("/?token=guessed").status_code == 403
