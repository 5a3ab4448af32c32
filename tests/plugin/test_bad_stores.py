"""Run stores that cannot be used: one sentence, exit status 4, and nothing is asked."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest


def test_a_store_that_is_no_database(suite, run):
    (suite.path / "runs.db").write_text("something else " * 100)

    suite.refuses(
        run("--crucible-adapter=v2", "--crucible-store=runs.db"),
        "run store '*runs.db' is not a run store (another kind of file, or corrupt): move it away, or name another one",
    )


def test_a_store_of_a_newer_version(suite):
    suite.run("--crucible-adapter=v2", "--crucible-store=runs.db")
    with contextlib.closing(sqlite3.connect(suite.path / "runs.db")) as connection, connection:
        connection.execute("update store_format set version = 99")

    suite.refuses(
        suite.run("--crucible-adapter=v2", "--crucible-store=runs.db"),
        "run store '*runs.db' has format 99, this version writes format *: upgrade pytest-crucible, or name another "
        "store with --crucible-store",
    )


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "nosuch://host/name",
            "run store 'nosuch://host/name' is not a database that can be reached: write a path, or a URL *",
        ),
        (
            "sqlite:////proc/none/runs.db",
            "run store 'sqlite:////proc/none/runs.db' cannot be opened: check that its directory *",
        ),
        (
            "sqlite:///file:runs.db?mode=ro&uri=true",
            "run store 'sqlite:///file:runs.db?mode=ro&uri=true' is read-only: make it writable, or name another store *",
        ),
    ],
    ids=["scheme", "directory", "read-only"],
)
def test_a_store_that_cannot_be_used(suite, url, sentence):
    suite.run("--crucible-adapter=v2", "--crucible-store=runs.db")

    suite.refuses(suite.run("--crucible-adapter=v2", f"--crucible-store={url}"), sentence.replace("?mode", "[?]mode"))


def test_a_store_below_a_file(suite):
    (suite.path / "plain").write_text("")

    suite.refuses(
        suite.run("--crucible-adapter=v2", "--crucible-store=plain/runs.db"),
        "run store '*plain/runs.db' cannot be created: *",
    )


def test_a_database_of_another_program_is_left_alone(suite):
    with contextlib.closing(sqlite3.connect(suite.path / "songs.db")) as connection, connection:
        connection.execute("create table songs (title)")

    suite.refuses(
        suite.run("--crucible-adapter=v2", "--crucible-store=songs.db"),
        "run store '*songs.db' is not a run store: it is a database with other tables ('songs'); name another file",
    )
    with contextlib.closing(sqlite3.connect(suite.path / "songs.db")) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == [("songs",)]
