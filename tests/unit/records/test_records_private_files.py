"""Files and folders that other users can neither read nor change, whatever the umask and whatever was there before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from other_user import OTHER, run_as_other_user

from pytest_crucible.records.files import (
    NotPrivateError,
    close_to_others,
    create_closed,
    create_store_folder,
    is_own_folder,
    own_folder,
    runtime_folder,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_new_folder_and_a_new_file_are_closed_under_any_umask(tmp_path, umask):
    create_store_folder(tmp_path / ".crucible")
    create_closed(tmp_path / ".crucible" / "new.db")

    assert mode(tmp_path / ".crucible") == "700"
    assert {mode(path) for path in (tmp_path / ".crucible").iterdir()} == {"600"}
    assert mode(own_folder(tmp_path / "own")) == "700"


def test_what_was_open_before_is_closed_and_keeps_the_permissions_of_its_owner(tmp_path):
    folder = tmp_path / ".crucible"
    (folder / "tinker").mkdir(parents=True)
    for name, before in {"crucible.db": 0o664, "crucible.db-wal": 0o644, "read-only.db": 0o444}.items():
        (folder / name).touch()
        (folder / name).chmod(before)
    folder.chmod(0o777)
    create_store_folder(folder)

    assert mode(folder) == "700"
    assert mode(folder / "tinker") == "700"
    assert [mode(folder / name) for name in ("crucible.db", "crucible.db-wal", "read-only.db")] == ["600", "600", "400"]


def test_a_shared_folder_must_be_a_closed_folder_of_this_user(tmp_path):
    for name in ("open", "target"):
        (tmp_path / name).mkdir()
    (tmp_path / "open").chmod(0o770)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "file").touch()

    for name, problem in {
        "open": "mode 0770, expected 0700",
        "link": "a link or a file",
        "file": "a link or a file",
    }.items():
        with pytest.raises(NotPrivateError, match=f"{problem}.*: remove it, or set TMPDIR"):
            own_folder(tmp_path / name)
        assert not is_own_folder(tmp_path / name)


@OTHER
def test_a_folder_that_another_user_made_first_is_refused(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    run_as_other_user(f"os.mkdir({str(shared / f'pytest-crucible-{os.geteuid()}')!r}, 0o777)", shared)

    with pytest.raises(NotPrivateError, match="belongs to another user"):
        runtime_folder()


@OTHER
def test_a_store_of_another_user_that_stays_open_is_refused_in_one_sentence(tmp_path):
    """The other user opens a store of this one, which everybody may write."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    store = folder / "runs.db"
    store.touch()
    store.chmod(0o666)
    output = run_as_other_user(
        f"""
from pytest_crucible.store.opening import open_database
try:
    open_database({str(store)!r})
except Exception as error:
    print(type(error).__name__, error)
""",
        folder,
    )

    assert output.startswith(f"StoreError run store {str(store)!r} cannot be made private: ")
    assert output.count("\n") == 1
    assert "belongs to another user" in output
    assert "--crucible-store" in output


def test_a_file_that_goes_meanwhile_is_no_error(tmp_path):
    close_to_others(tmp_path / "gone-wal")
