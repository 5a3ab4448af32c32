"""Sessions that keep replies and scores in Parquet parts: `crucible_results`."""

from __future__ import annotations

import json
import os
import sqlite3

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow.parquet")

ARGUMENTS = ("--crucible-adapter=v2", "--compare=v1")


@pytest.fixture
def with_results(suite):
    """A suite whose results are in the directory `parts`."""
    suite.pytester.makefile(".ini", pytest="[pytest]\ncrucible_results = parts")
    return suite


def parts(suite):
    return sorted((suite.path / "parts").glob("*/*.parquet"))


def test_a_run_in_parts_is_shown_as_one_in_the_store(suite):
    suite.run(*ARGUMENTS).assert_outcomes(passed=3)
    plain = json.loads(suite.command("show", "latest", "--json").stdout.str())
    os.rename(suite.path / ".crucible", suite.path / "plain")
    suite.pytester.makefile(".ini", pytest="[pytest]\ncrucible_results = parts")

    suite.run(*ARGUMENTS).assert_outcomes(passed=3)

    in_parts = json.loads(suite.command("show", "latest", "--json").stdout.str())
    assert {path.name.partition("-")[0] for path in parts(suite)} >= {"replies", "observations", "calls"}
    assert in_parts["experiments"] == plain["experiments"]


def test_rows_in_parts_are_not_in_the_store(with_results):
    with_results.run(*ARGUMENTS)

    with sqlite3.connect(with_results.path / ".crucible/crucible.db") as store:
        counts = [store.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in ("replies", "observations")]
        [rows] = store.execute("SELECT SUM(row_count) FROM parts WHERE of_table = 'observations'").fetchone()
    assert (counts, rows) == ([0, 0], 40)


def test_a_later_run_reuses_the_replies_of_one_in_parts(with_results):
    with_results.run("--crucible-adapter=v1")

    result = with_results.run(*ARGUMENTS)

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*v1: 20 of 20 replies reused from run *"])


def test_gc_removes_the_parts_of_removed_runs(with_results):
    with_results.run(*ARGUMENTS)
    assert parts(with_results)

    with_results.command("gc", "--keep-runs=0", "--keep-days=0", "--delete")

    assert parts(with_results) == []


def test_a_part_that_was_changed_is_named(with_results):
    with_results.run(*ARGUMENTS)
    path = next(path for path in parts(with_results) if path.name.startswith("observations"))
    path.write_bytes(path.read_bytes()[:-1])

    result = with_results.command("show", "latest")

    assert f"part '{path.parent.name}/{path.name}'" in result.stderr.str()
    assert "restore the file" in result.stderr.str()


def test_a_directory_that_cannot_be_made_is_refused_before_a_request(suite):
    (suite.path / "parts").write_text("a file")
    suite.pytester.makefile(".ini", pytest="[pytest]\ncrucible_results = parts")

    suite.refuses(suite.run(*ARGUMENTS), "*crucible_results = *cannot be created*")


def test_an_address_with_credentials_is_refused_before_a_request(suite):
    suite.pytester.makefile(".ini", pytest="[pytest]\ncrucible_results = s3://key:secret@bucket/runs")

    suite.refuses(suite.run(*ARGUMENTS), "*crucible_results has credentials in its address*")
