"""Provenance of a run: what is recorded of a session and its machine, and whether it can be reproduced."""

from __future__ import annotations

import datetime
import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.options import OPTIONS
from pytest_crucible.records.files import hash_file
from pytest_crucible.records.redaction import HIDDEN
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.provenance import (
    VARIABLES,
    build_manifest,
    configured_adapters,
    environment_facts,
    installed_packages,
    machine_facts,
    utc_now,
)
from pytest_crucible.runs.reproduction import reproduction_checks


def settings() -> Settings:
    return Settings(**{option.name: () if option.repeats else option.default for option in OPTIONS})


def test_the_manifest_has_the_command_and_where_it_was_started(tmp_path):
    manifest = build_manifest(["-x", "tests"], tmp_path / "evals", tmp_path, settings())

    assert (manifest["command"], manifest["directory"]) == (["-x", "tests"], "evals")
    assert manifest["settings"]["compare"] == []
    assert manifest["settings"]["concurrency"] == 64


def test_only_listed_environment_variables_are_recorded(tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("SOME_SECRET", "xyz")

    assert build_manifest([], tmp_path, tmp_path, settings())["variables"] == {"TZ": "UTC"}


def test_adapters_are_recorded_and_a_broken_table_is_not_an_error_here(tmp_path):
    (tmp_path / "crucible.toml").write_text('[adapters.v2]\nbackend = "recorded"\npath = "v2.jsonl"\n')
    assert configured_adapters(tmp_path)["v2"]["options"] == {"path": "v2.jsonl"}

    (tmp_path / "crucible.toml").write_text("[adapters.v2]\n")
    assert configured_adapters(tmp_path) == {}


def test_versions_are_those_of_the_installed_packages():
    packages = environment_facts()["packages"]

    assert packages["numpy"] == importlib.metadata.version("numpy")
    assert dict(installed_packages())["numpy"] == packages["numpy"]


def test_times_are_in_utc_with_milliseconds():
    now = datetime.datetime.fromisoformat(utc_now())

    assert now.utcoffset() == datetime.timedelta(0)
    assert now.microsecond % 1000 == 0


def facts(**changes: Any) -> dict[str, Any]:
    """A run that was made here."""
    manifest = {
        "machine": machine_facts(),
        "packages": dict(installed_packages()),
        "command": ["-x"],
        "directory": "evals",
    }
    return {"environment": environment_facts(), "git": None, "manifest": manifest, **changes}


class Collect:
    """Remembers how tests were collected."""

    def __init__(self, succeeded: bool = True) -> None:
        self.succeeded = succeeded
        self.calls: list[tuple[Sequence[str], Path]] = []

    def __call__(self, command: Sequence[str], directory: Path) -> tuple[bool, str, Mapping[str, Any]]:
        self.calls.append((command, directory))
        return self.succeeded, "no module named evals", {}


def differences(run: dict[str, Any], folder: Path, collect: Collect | None = None) -> dict[str, str]:
    checks = reproduction_checks(run, [], folder, collect or Collect())
    return {check.subject: check.detail for check in checks if not check.matches}


def test_on_the_same_machine_nothing_differs(tmp_path):
    collect = Collect()

    assert differences(facts(), tmp_path, collect) == {}
    assert collect.calls == [(["-x"], tmp_path / "evals")]


def test_another_python_is_named_with_both_versions(tmp_path):
    run = facts(environment={**environment_facts(), "python": "3.9.1"})

    assert differences(run, tmp_path) == {"python": f"3.9.1 then, {environment_facts()['python']} now"}


def test_changed_packages_are_named_and_more_than_five_are_counted(tmp_path):
    run = facts()
    run["manifest"]["packages"] |= {f"aa{k}": "1" for k in range(7)}

    detail = differences(run, tmp_path)["packages"]

    assert detail.startswith("aa0 1 then, missing now; aa1 1 then, missing now; ")
    assert detail.endswith("aa4 1 then, missing now and 2 more")


def test_a_commit_that_is_known_only_once_differs(tmp_path):
    run = facts(git={"commit": "a" * 40, "branch": "main", "dirty": False})

    assert differences(run, tmp_path) == {"commit": "in a repository only once"}


def test_a_run_without_a_manifest_cannot_be_checked_further(tmp_path):
    collect = Collect()

    assert list(differences(facts(manifest=None), tmp_path, collect)) == ["manifest"]
    assert collect.calls == []


def test_a_redacted_command_line_is_not_run(tmp_path):
    run, collect = facts(), Collect()
    run["manifest"]["command"] = [f"--key={HIDDEN}"]

    assert list(differences(run, tmp_path, collect)) == ["command line"]
    assert collect.calls == []


def test_tests_that_cannot_be_collected_are_named_with_the_last_line(tmp_path):
    detail = differences(facts(), tmp_path, Collect(succeeded=False))["experiments"]

    assert detail == "cannot be collected any more: no module named evals"


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        ("a", None),
        ("b", "it was imported with another content"),
        (None, "it was imported from there, and is not there now"),
    ],
)
def test_the_file_of_an_imported_run_is_read_again(tmp_path, content, detail):
    path = tmp_path / "log.json"
    path.write_text("a")
    origin = {"file": str(path), "sha256": hash_file(path)}
    path.unlink() if content is None else path.write_text(content)
    run = facts(environment={**environment_facts(), "imported": [origin]})

    assert differences(run, tmp_path).get(str(path)) == detail
