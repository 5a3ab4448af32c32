"""Rows that wait in a file: only those of this store, of this user and of tables that a writer writes are entered."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from other_user import OTHER, run_as_other_user
from sqlalchemy import select

from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.spill_file import write_spill_file

REPLY = {"arm": 1, "position": 0, "epoch": 0, "skipped": False, "text": "4"}
FACTS = {"started": "2026-01-01", "seed": 0, "alpha": 0.05, "correction": "holm", "environment": {}}


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def path(tmp_path, temporary):
    path = tmp_path / "runs.db"
    store = RunStore(str(path))
    store.begin_run("run", **FACTS)
    store.close()
    return path


def key_of(path: Path) -> bytes:
    store = RunStore(str(path))
    store.close()
    return store.key


def texts(path: Path) -> list[str]:
    store = RunStore(str(path))
    with store.engine.connect() as connection:
        result = list(connection.execute(select(schema.replies.c.text)).scalars())
    store.close()
    return result


def test_rows_of_this_store_are_entered_from_either_folder(path, tmp_path, temporary):
    Path(f"{path}.unsaved").write_text("no folder")
    spill_file = write_spill_file(str(path), key_of(path), "run", [(schema.replies, False, [REPLY])])

    assert spill_file.is_relative_to(temporary / f"pytest-crucible-{os.geteuid()}")
    assert stat.S_IMODE(spill_file.stat().st_mode) == 0o600
    assert (
        stat.S_IMODE(spill_file.parent.stat().st_mode) == stat.S_IMODE(spill_file.parent.parent.stat().st_mode) == 0o700
    )
    assert texts(path) == ["4"]


@pytest.mark.parametrize("change", ["a row", "the run", "another key", "no signature"])
def test_rows_that_were_changed_are_refused(path, change):
    key = b"0" * 32 if change == "another key" else key_of(path)
    spill_file = write_spill_file(str(path), key, "run", [(schema.replies, False, [REPLY])])
    text = spill_file.read_text()
    old, new = {"a row": ('"4"', '"5"'), "the run": ('"run": "run"', '"run":"run"')}.get(change, ("", ""))
    spill_file.write_text(text.partition("\n")[2] if change == "no signature" else text.replace(old, new))

    with pytest.raises(StoreError, match=r"was not written for this store, or was changed since.*: move the file away"):
        RunStore(str(path))
    spill_file.unlink()
    assert texts(path) == []


def test_a_signed_row_of_a_table_that_does_not_spill_is_refused(path):
    spill_file = write_spill_file(
        str(path), key_of(path), "run", [(schema.verdicts, False, [{"experiment": 1, "subject": "x", "state": "met"}])]
    )

    with pytest.raises(StoreError, match="table 'verdicts'"):
        RunStore(str(path))
    spill_file.unlink()


@OTHER
def test_rows_that_another_user_left_are_never_read(path, temporary):
    """The folder is that of earlier versions, or that of this version, created by that user first."""
    temporary.chmod(0o1777)
    shutil.rmtree(temporary / f"pytest-crucible-{os.geteuid()}")
    line = json.dumps(["replies", True, [REPLY]])
    name = f"pytest-crucible-{os.geteuid()}"
    store_name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    run_as_other_user(
        f"""
for folder in ({str(temporary / f"{name}-{store_name}.unsaved")!r}, {str(temporary / name / f"{store_name}.unsaved")!r}):
    os.makedirs(folder)
    with open(folder + "/1-1.jsonl", "w") as file:
        file.write({json.dumps({"run": "run"})!r} + "\\n" + {line!r} + "\\n")
    os.system("chmod -R 777 " + folder)
""",
        temporary,
    )

    assert texts(path) == []
    Path(f"{path}.unsaved").write_text("no folder")
    assert write_spill_file(str(path), key_of(path), "run", [(schema.replies, False, [REPLY])]) is None


def test_a_folder_that_others_can_reach_is_not_read(path):
    spill_file = write_spill_file(str(path), key_of(path), "run", [(schema.replies, False, [REPLY])])
    spill_file.parent.chmod(0o777)

    assert texts(path) == []
    spill_file.parent.chmod(0o700)
    assert texts(path) == ["4"]
