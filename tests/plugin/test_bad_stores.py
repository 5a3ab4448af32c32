"""Run stores that cannot be used: experiments have an error at their setup, no model is called, and other tests run."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest


def test_a_store_that_is_no_database(suite, run):
    (suite.path / "runs.db").write_text("something else " * 100)

    suite.cannot_store(
        run("--crucible-adapter=v2", "--crucible-store=runs.db"),
        "run store '*runs.db' is not a run store (another kind of file, or corrupt): move it away, or name another one",
    )


def test_a_store_of_a_newer_version(suite):
    suite.run("--crucible-adapter=v2", "--crucible-store=runs.db")
    with contextlib.closing(sqlite3.connect(suite.path / "runs.db")) as connection, connection:
        connection.execute("update store_format set version = 99")

    suite.cannot_store(
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

    suite.cannot_store(
        suite.run("--crucible-adapter=v2", f"--crucible-store={url}"), sentence.replace("?mode", "[?]mode")
    )


def test_a_store_below_a_file(suite):
    (suite.path / "plain").write_text("")

    suite.cannot_store(
        suite.run("--crucible-adapter=v2", "--crucible-store=plain/runs.db"),
        "run store '*plain/runs.db' cannot be created: *",
    )


def test_a_database_of_another_program_is_left_alone(suite):
    with contextlib.closing(sqlite3.connect(suite.path / "songs.db")) as connection, connection:
        connection.execute("create table songs (title)")
    before = (suite.path / "songs.db").read_bytes()

    suite.cannot_store(
        suite.run("--crucible-adapter=v2", "--crucible-store=songs.db"),
        "run store '*songs.db' is not a run store: it is a database with other tables ('songs'); name another file",
    )
    assert (suite.path / "songs.db").read_bytes() == before
    assert not list(suite.path.glob("songs.db-*"))


MIXED = """
    from pathlib import Path

    import pytest

    @pytest.fixture
    def costly():
        Path("calls.txt").write_text("fixture")

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70")
    async def test_sums(sample, sampler, costly):
        return await sampler.generate(sample.input)

    @pytest.mark.xfail(reason="known to be poor")
    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.99")
    @pytest.mark.ab_compare("exact_match")
    async def test_expected(sample, sampler):
        return await sampler.generate(sample.input)

    @pytest.mark.skip(reason="not today")
    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    async def test_skipped(sample, sampler):
        return await sampler.generate(sample.input)

    @pytest.mark.quality_target("right >= 0.70")
    @pytest.mark.parametrize("number", [1, 2])
    def test_joins(crucible, number):
        crucible.score(right=crucible.sampler.generate(f"{number} + {number}").text == str(2 * number))

    @pytest.mark.parametrize("number", [1, 2])
    def test_ordinary(number):
        assert number
"""
CALLS = """
    from pathlib import Path

    def answer(request):
        Path("calls.txt").write_text("model")
        return "2"

    def base(request):
        return answer(request)
"""
NO_STORE = "is not a run store (another kind of file, or corrupt): move it away, or name another one"


@pytest.fixture
def mixed(suite):
    """Ordinary tests beside experiments and a joined test, and a file that is not a run store."""
    suite.script(CALLS)
    suite.test(MIXED)
    (suite.path / "runs.db").write_text("something else " * 1000)
    return suite


@pytest.mark.parametrize(
    "more",
    [(), ("--compare=base",), pytest.param(("--crucible-estimate",), marks=pytest.mark.uses("stages"))],
    ids=["one", "compared", "estimate"],
)
def test_ordinary_tests_run_beside_a_store_that_cannot_be_used(mixed, more):
    before = (mixed.path / "runs.db").read_bytes()

    result = mixed.run("--crucible-adapter=scripted", "--crucible-store=runs.db", *more)

    mixed.cannot_store(result, NO_STORE, errors=4, passed=2)
    assert result.parseoutcomes()["skipped"] == 1
    assert result.stdout.str().count("ERROR at setup of") == 4
    assert (mixed.path / "runs.db").read_bytes() == before
    assert not list(mixed.path.glob("runs.db-*"))


def test_ordinary_tests_run_on_workers_beside_a_store_that_cannot_be_used(mixed):
    result = mixed.run_n2("--crucible-adapter=scripted", "--crucible-store=runs.db")

    mixed.cannot_store(result, NO_STORE, errors=4, passed=2)


@pytest.mark.parametrize("arguments", [("-k", "ordinary"), ("--co",)], ids=["selected", "listed"])
def test_a_store_that_no_experiment_needs_is_not_opened(mixed, arguments):
    result = mixed.run("--crucible-adapter=scripted", "--crucible-store=plain/runs.db", *arguments)

    assert result.ret == 0
    assert not (mixed.path / "plain").exists()
    assert mixed.calls() == []


@pytest.mark.uses("registry")
@pytest.mark.parametrize(
    "more", [("--compare=run:abc",), ("--crucible-adapter=claims@production",)], ids=["run", "version"]
)
def test_a_store_that_is_needed_for_planning(mixed, more):
    result = mixed.run("--crucible-adapter=scripted", "--crucible-store=runs.db", *more)

    mixed.cannot_store(result, NO_STORE, errors=4, passed=2)


def test_errors_of_the_configuration_are_reported_with_that_of_the_store(mixed):
    mixed.test(MIXED.replace("exact_match >= 0.70", "nothing >= 0.70"))

    result = mixed.run("--crucible-adapter=scripted", "--compare=run:abc", "--crucible-store=runs.db")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*nothing*", f"*{NO_STORE}"])


@pytest.mark.parametrize(
    "option", ["--crucible-sample=q01", pytest.param("--crucible-estimate", marks=pytest.mark.uses("stages"))]
)
def test_joined_tests_store_nothing_where_nothing_is_stored(mixed, option):
    result = mixed.run("--crucible-adapter=scripted", option)

    assert result.ret == 0
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
