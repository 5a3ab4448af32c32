"""`crucible gc` and trainings that were interrupted: listed with their bytes, removed when asked, kept while they run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pytest_crucible.cli import main
from pytest_crucible.features.training.recipe import find_unfinished
from pytest_crucible.records.files import file_lock
from pytest_crucible.store.runs import RunStore

DAY = 86_400.0


def interrupt(folder: Path, key: str, *, days: float) -> Path:
    """A training whose newest state is some days old."""
    state = folder / f".unfinished-{key}" / "step-20"
    state.mkdir(parents=True)
    (state / "training.json").write_bytes(b"x" * 1_500)
    (folder / f"{key}.lock").touch()
    then = time.time() - days * DAY
    for path in (state / "training.json", state, state.parent):
        os.utime(path, (then, then))
    return state.parent


@pytest.fixture
def adapters(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    RunStore(".crucible/crucible.db").close()
    return tmp_path / ".crucible" / "adapters"


def test_unfinished_trainings_are_listed_and_deleted_on_request(adapters, capsys):
    old, new = interrupt(adapters, "a" * 16, days=91), interrupt(adapters, "b" * 16, days=89)

    assert main(["gc"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "would remove 0 runs and 0 cached replies: --delete does",
        "would remove 1 unfinished training (1,500 bytes)",
        f".crucible/adapters/{old.name}  1,500 bytes",
    ]
    assert main(["gc", "--delete", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["unfinished_trainings"] == [{"path": f".crucible/adapters/{old.name}", "bytes": 1500}]
    assert document["freed"] >= 1500
    assert (old.exists(), new.exists()) == (False, True)


def test_a_running_training_is_kept(adapters):
    interrupt(adapters, "a" * 16, days=91)
    with file_lock(adapters / f"{'a' * 16}.lock", lambda: None):
        assert find_unfinished(adapters, time.time()) == {}

    assert len(find_unfinished(adapters, time.time())) == 1
    # To look leaves the lock free.
    with file_lock(adapters / f"{'a' * 16}.lock", lambda: pytest.fail("locked")):
        pass


def test_a_missing_folder_has_no_unfinished_training(tmp_path):
    assert find_unfinished(tmp_path / "nowhere", time.time()) == {}
