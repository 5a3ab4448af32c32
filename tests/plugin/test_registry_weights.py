"""Weights of registered versions: those of the embedded model are copied, those of a Tinker service may expire."""

from __future__ import annotations

import shutil
import time
from typing import Any

import pytest
from test_local_names import identity, project, train  # noqa: F401 - project is a fixture
from tinker_archive import save_on_tinker

from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.cli import main
from pytest_crucible.features.registry.store import load_version
from pytest_crucible.records import Adapter
from pytest_crucible.session.pytest_project import with_adapters
from pytest_crucible.store.runs import RunStore


@pytest.mark.uses("training")
@pytest.mark.slow
def test_a_trained_adapter_stays_what_it_was_when_its_folder_is_gone(project: Any, monkeypatch, capsys):  # noqa: F811
    monkeypatch.chdir(project.path)
    before = identity(project, "--crucible-adapter=v2")
    capsys.readouterr()
    assert main(["models", "register", "v2", "--model", "claims"]) == 0
    assert main(["models", "register", "local:v2", "--model", "claims"]) == 0
    assert capsys.readouterr().out == "v2 is claims@1, a draft\nlocal:v2 is claims@1, as before\n"
    shutil.rmtree(project.path / ".crucible" / "adapters")

    assert identity(project, "--crucible-adapter=claims@1") == before
    store = RunStore(str(project.path / ".crucible" / "crucible.db"))
    version = load_version(store, "claims", 1)
    store.close()
    assert version is not None
    assert version.lineage is not None
    assert version.lineage["recipe"] == "recipes:train"
    assert main(["models", "register", "v2", "--model", "claims"]) == 4
    assert "is not trained" in capsys.readouterr().err


@pytest.mark.slow
def test_a_checkpoint_of_a_service_may_expire(suite, monkeypatch):
    monkeypatch.chdir(suite.path)
    in_an_hour = time.time() + 3600
    save_on_tinker(suite.path / ".crucible" / "tinker", "brief", seed=1, expires=in_an_hour)
    save_on_tinker(suite.path / ".crucible" / "tinker", "kept", seed=2)
    store = RunStore(str(suite.path / "runs.db"))

    def find(context):
        paths = ("tinker://run-1/sampler_weights/brief", "tinker://run-2/sampler_weights/kept")
        adapters = [Adapter(name="v2", backend="tinker", options={"model_path": path}) for path in paths]
        return [kind_of(adapter).find_expiry(adapter, context) for adapter in adapters]

    expires, never = with_adapters(suite.path, store, find)
    store.close()
    assert expires is not None
    assert expires.timestamp() == pytest.approx(in_an_hour, abs=1)
    assert never is None
