"""The program finds the run store that a session would use in the same directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.config.findpaths import determine_setup

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import DEFAULT_STORE
from pytest_crucible.runs.run_store import find_configuration, session_store

KEY = "crucible_store"
CONFIGURATIONS = {
    "pytest.ini": "[pytest]\ncrucible_store = evals.db\n",
    ".pytest.ini": "[pytest]\ncrucible_store = evals.db\n",
    "pyproject.toml": '[tool.pytest.ini_options]\ncrucible_store = "evals.db"\n',
    "tox.ini": "[tox]\nenvlist = py\n[pytest]\ncrucible_store = evals.db\n",
    "setup.cfg": "[metadata]\nname = x\n[tool:pytest]\ncrucible_store = evals.db\n",
}
if pytest.version_tuple >= (9,):
    CONFIGURATIONS["pytest.toml"] = '[pytest]\ncrucible_store = "evals.db"\n'


def of_pytest(folder: Path) -> tuple[Path, str | None]:
    """The root directory and the key, as pytest itself finds them."""
    root, _, configuration, _ = determine_setup(
        inifile=None, override_ini=None, args=[], rootdir_cmd_arg=None, invocation_dir=folder
    )
    value = configuration.get(KEY)
    return root, getattr(value, "value", value)


def ours(folder: Path) -> tuple[Path, str | None]:
    root, configuration = find_configuration(folder)
    return root, configuration.get(KEY)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_each_file_that_configures_pytest_is_read(tmp_path, name):
    (tmp_path / name).write_text(CONFIGURATIONS[name])

    assert ours(tmp_path) == of_pytest(tmp_path) == (tmp_path, "evals.db")
    assert session_store(tmp_path) == "evals.db"


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_in_a_subfolder_the_store_path_starts_at_the_root(tmp_path, name):
    (tmp_path / name).write_text(CONFIGURATIONS[name])
    below = tmp_path / "tests" / "evals"
    below.mkdir(parents=True)

    assert ours(below) == of_pytest(below) == (tmp_path, "evals.db")
    assert session_store(below) == str(tmp_path / "evals.db")


@pytest.mark.parametrize("first", CONFIGURATIONS)
@pytest.mark.parametrize("second", CONFIGURATIONS)
def test_pytest_s_preferred_configuration_file_wins(tmp_path, first, second):
    (tmp_path / second).write_text(CONFIGURATIONS[second].replace("evals", "second"))
    (tmp_path / first).write_text(CONFIGURATIONS[first])

    assert ours(tmp_path) == of_pytest(tmp_path)


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest reads [tool.pytest] since version 9")
def test_the_table_of_pytest_9_is_read(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.pytest]\ncrucible_store = "evals.db"\n')

    assert ours(tmp_path) == of_pytest(tmp_path) == (tmp_path, "evals.db")


def test_an_empty_pytest_ini_hides_parent_configurations(tmp_path):
    (tmp_path / "pyproject.toml").write_text(CONFIGURATIONS["pyproject.toml"])
    below = tmp_path / "suite"
    below.mkdir()
    (below / "pytest.ini").write_text("")

    assert ours(below) == of_pytest(below) == (below, None)
    assert session_store(below) == DEFAULT_STORE


@pytest.mark.parametrize("name", ["tox.ini", "setup.cfg", "pyproject.toml"])
def test_files_of_other_tools_do_not_hide_parent_configurations(tmp_path, name):
    (tmp_path / "pytest.ini").write_text(CONFIGURATIONS["pytest.ini"])
    below = tmp_path / "suite"
    below.mkdir()
    (below / name).write_text("" if name == "pyproject.toml" else "[other]\nkey = 1\n")

    assert ours(below) == of_pytest(below) == (tmp_path, "evals.db")


@pytest.mark.parametrize("mark", ["pyproject.toml", "setup.py"])
def test_without_a_configuration_the_same_files_mark_the_root(tmp_path, mark):
    (tmp_path / mark).write_text("")
    below = tmp_path / "suite"
    below.mkdir()

    assert ours(below) == of_pytest(below) == (tmp_path, None)
    assert session_store(below) == str(tmp_path / DEFAULT_STORE)


def test_a_database_url_is_returned_unchanged(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\ncrucible_store = postgresql://db.example/evals\n")
    below = tmp_path / "suite"
    below.mkdir()

    assert session_store(below) == "postgresql://db.example/evals"


@pytest.mark.parametrize(("name", "text"), [("pyproject.toml", "[tool.pytest"), ("tox.ini", "crucible_store\n= 2")])
def test_a_file_that_cannot_be_parsed_is_named(tmp_path, name, text):
    (tmp_path / name).write_text(text)

    with pytest.raises(SpecError, match=f"pytest's configuration '.*{name}' cannot be read: "):
        session_store(tmp_path)
