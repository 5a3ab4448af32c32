"""Provenance: what is recorded of a session, its machine and its packages."""

from __future__ import annotations

import datetime
import importlib.metadata

from pytest_crucible.options import OPTIONS
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.provenance import (
    VARIABLES,
    build_manifest,
    configured_adapters,
    environment_facts,
    installed_packages,
    utc_now,
)


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
