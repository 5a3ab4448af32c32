"""Responses to requests that fail."""

from __future__ import annotations

import contextlib

import pytest
from experiment_builders import store_run

from pytest_crucible.records import Sample
from pytest_crucible.store.reading import READINGS, ChangedStoreError
from pytest_crucible.store.runs import RunStore
from tests.dashboard import dashboard_client

PAGE = {"accept": "text/html,*/*"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "runs.db"
    with contextlib.closing(RunStore(str(path))) as store:
        for run in ("3f2a1c9d8e7b", "aaaaaaaaaaaa"):
            store_run(store, run, [Sample(id="q", input="1 + 1")], v2=[True])
            store.end_run(run, finished="2026-01-02", status="finished")
    return path


@pytest.fixture
def client(path):
    with dashboard_client(path) as client:
        yield client


def remove(path, run):
    with contextlib.closing(RunStore(str(path))) as store:
        store.execute("DELETE FROM runs WHERE id = :run", run=run)


def test_an_unknown_run_is_not_found_and_a_near_one_is_named(client):
    sentence = "no run begins with '3f2b': did you mean 3f2a1c9d8e7b?"

    assert client.get("/runs/3f2b").text == sentence
    page = client.get("/runs/3f2b", headers=PAGE)

    assert page.status_code == 404
    assert '<p role="alert">no run begins with &#39;3f2b&#39;: did you mean 3f2a1c9d8e7b?</p>' in page.text


@pytest.mark.parametrize("address", ["/nothing", "/runs/aaaa/nothing/at/all", "/assets/nothing.js"])
def test_an_unknown_address_is_not_found(client, address):
    response = client.get(address)

    assert response.status_code == 404
    assert response.text == "no page has this address: the list of runs leads to all pages"


@pytest.mark.parametrize("named", ["<script>alert(1)</script>", "a%00b", "%E2%80%AEgnp.exe", "a" * 3_000, "%1b[31m"])
def test_a_hostile_name_of_a_run_is_inert(client, named):
    page = client.get(f"/runs/{named}".replace("</", "<%2F"), headers=PAGE)

    assert page.status_code == 404
    assert "<script>alert" not in page.text
    assert not {"\x00", "\u202e", "\x1b"} & set(page.text)


@pytest.mark.parametrize(("page", "status"), [("", 404), ("/samples", 404), ("/requests", 404), ("/results", 200)])
def test_a_run_that_was_removed_since_says_so(client, path, page, status):
    assert client.get("/runs/3f2a1c9d8e7b").status_code == 200
    remove(path, "3f2a1c9d8e7b")

    response = client.get(f"/runs/3f2a1c9d8e7b{page}")

    assert response.status_code == status
    assert "run 3f2a1c9d8e7b was removed from this store" in response.text


def test_a_store_that_breaks_is_described_and_works_again(client, path, tmp_path):
    path.rename(tmp_path / "away")

    response = client.get("/")
    part = client.get("/runs/3f2a1c9d8e7b/results")
    path.write_bytes(b"something else " * 100)
    corrupt = client.get("/")
    path.unlink()
    (tmp_path / "away").rename(path)

    assert response.status_code == corrupt.status_code == 503
    assert response.text == (
        "this store does not exist: run pytest with an experiment first, or name a store with --store"
    )
    assert corrupt.text.startswith("this store is not a run store (another kind of file, or corrupt)")
    assert "this store does not exist" in part.text
    assert str(tmp_path) not in response.text + corrupt.text + part.text
    assert client.get("/").status_code == 200


def test_an_error_in_a_page_shows_one_sentence_and_no_text_of_the_store(client, monkeypatch, capsys):
    def fail(request):
        raise KeyError("a secret in /home/anna")

    monkeypatch.setattr("pytest_crucible.features.view.pages.runs.list_runs", fail)
    response = client.get("/", headers=PAGE)

    printed = capsys.readouterr()
    assert response.status_code == 500
    assert "this page cannot be shown, because of an error in it" in response.text
    assert "Traceback" not in response.text
    assert "secret" not in response.text + printed.out + printed.err
    assert printed.err.startswith("crucible view: a page failed with KeyError in test_view_failures.py, line ")


@pytest.mark.parametrize(("changes", "status"), [(READINGS - 1, 200), (READINGS, 503)])
def test_what_changed_while_it_was_read_is_read_again(client, monkeypatch, changes, status):
    from pytest_crucible.features.view.pages import runs

    left, read = [None] * changes, runs.list_runs

    def read_later(*arguments):
        if left:
            left.pop()
            raise ChangedStoreError("changed")
        return read(*arguments)

    monkeypatch.setattr(runs, "list_runs", read_later)

    assert client.get("/").status_code == status
