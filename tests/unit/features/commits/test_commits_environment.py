"""The Python of a commit: today's where its dependencies are today's, else an environment that is built once."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from pytest_crucible.features.commits.environment import Builder, Dependencies, find_dependencies, find_unused
from pytest_crucible.records.errors import SpecError

TOP = PurePosixPath()


def dependencies(files, folder=TOP):
    contents = {name: text.encode() for name, text in files.items()}
    return find_dependencies(contents.get, folder)


def test_the_most_exact_file_decides_and_the_nearest_one():
    project = '[project]\nname = "app"\ndependencies = ["httpx"]\n'

    assert dependencies({}).file == ""
    assert dependencies({"pyproject.toml": "[tool.ruff]\n"}).file == ""
    assert dependencies({"pyproject.toml": project}).file == "pyproject.toml"
    assert dependencies({"pyproject.toml": project, "requirements.txt": "httpx"}).file == "requirements.txt"
    assert dependencies({"pyproject.toml": project, "requirements.txt": "", "uv.lock": ""}).is_uv
    nested = dependencies({"requirements.txt": "a", "evals/requirements.txt": "b"}, PurePosixPath("evals/agents"))
    assert nested.folder == PurePosixPath("evals")


def test_a_new_version_of_the_project_or_another_tools_table_is_no_other_environment():
    def project(version, tools="", needs="httpx"):
        return f'[project]\nname = "app"\nversion = "{version}"\ndependencies = ["{needs}"]\n{tools}'

    def lock(version):
        return f'[[package]]\nname = "app"\nversion = "{version}"\nsource = {{ editable = "." }}\n'

    first = dependencies({"pyproject.toml": project(1)})
    assert first.digest == dependencies({"pyproject.toml": project(2, "[tool.ruff]\nselect = []\n")}).digest
    assert first.digest != dependencies({"pyproject.toml": project(1, needs="httpx2")}).digest
    locked = dependencies({"pyproject.toml": project(1), "uv.lock": lock(1)})
    assert locked.digest == dependencies({"pyproject.toml": project(2), "uv.lock": lock(2)}).digest
    assert (
        locked.digest != dependencies({"pyproject.toml": project(2), "uv.lock": lock(2).replace("app", "ape")}).digest
    )


def test_a_file_that_is_not_toml_is_refused_by_its_name():
    with pytest.raises(SpecError, match=r"evals/pyproject\.toml is not valid TOML"):
        dependencies({"evals/pyproject.toml": "[project"}, PurePosixPath("evals"))


def builder(tmp_path):
    lines: list[str] = []
    return Builder(tmp_path / "environments", lines.append), lines


def test_equal_dependencies_need_no_other_python(tmp_path):
    build, lines = builder(tmp_path)
    files = dependencies({"requirements.txt": "httpx"})

    assert build.find_interpreter("commit:main", files, files, tmp_path).path == sys.executable
    assert lines == []


def test_a_commit_that_needs_another_python_is_refused(tmp_path):
    build, _ = builder(tmp_path)
    project = '[project]\nname = "app"\nrequires-python = ">=4.2"\n'

    with pytest.raises(
        SpecError, match=r"^commit:main needs Python >=4\.2, and this is \d+\.\d+\.\d+: run pytest with such"
    ):
        build.find_interpreter("commit:main", dependencies({"pyproject.toml": project}), dependencies({}), tmp_path)


def test_a_lock_file_of_uv_needs_uv(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    build, _ = builder(tmp_path)

    with pytest.raises(SpecError, match=r"^commit:main has a uv\.lock, and uv is not installed: install uv"):
        build.find_interpreter("commit:main", dependencies({"uv.lock": ""}), dependencies({}), tmp_path)


def write_wheel(folder, version):
    """Write the wheel of a package `tinydep` with nothing but its version, as installers need it."""
    info = f"tinydep-{version}.dist-info"
    files = {
        "tinydep.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tinydep\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={digest(text)},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(folder / f"tinydep-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.mark.slow
def test_an_environment_is_built_once_and_removed_when_it_is_not_used(tmp_path):
    build, lines = builder(tmp_path)
    write_wheel(tmp_path, "1.0")
    (tmp_path / "requirements.txt").write_text("./tinydep-1.0-py3-none-any.whl\n")
    files = dependencies({"requirements.txt": (tmp_path / "requirements.txt").read_text()})
    interpreter = build.find_interpreter("commit:main", files, dependencies({}), tmp_path)
    program = [interpreter.path, "-c", "import tinydep; print(tinydep.VERSION)"]

    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout == "1.0\n"
    assert build.find_interpreter("commit:main", files, dependencies({}), tmp_path / "other") == interpreter
    assert lines == ["building the environment of commit:main from its requirements.txt"]
    used = os.stat(Path(interpreter.path).parents[1] / "complete").st_mtime
    assert list(find_unused(build.folder, used)) == []
    assert list(find_unused(build.folder, used + 1)) == [Path(interpreter.path).parents[1]]


@pytest.mark.slow
def test_an_environment_that_cannot_be_built_is_refused_with_the_last_lines_and_tried_again(tmp_path):
    build, lines = builder(tmp_path)
    (tmp_path / "requirements.txt").write_text("./no-such-1.0-py3-none-any.whl\n")
    files = Dependencies(TOP, "requirements.txt", "0" * 64)
    for _ in range(2):
        with pytest.raises(SpecError) as error:
            build.find_interpreter("commit:main", files, dependencies({}), tmp_path)

    sentence, *last = str(error.value).splitlines()
    assert sentence == "commit:main: the environment of its requirements.txt cannot be built:"
    assert any("no-such-1.0-py3-none-any.whl" in line for line in last)
    assert len(lines) == 2
