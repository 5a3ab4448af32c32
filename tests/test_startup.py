"""What the plugin costs a pytest run that has no experiment: it must not open what only experiments need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "asyncio",
    "concurrent.futures",
    "httptools",
    "jsonschema",
    "numpy",
    "pandas",
    "safetensors",
    "scipy",
    "sqlalchemy",
    "sqlite3",
    "tabulate",
)
FRONT_DOOR = {
    "pytest_crucible",
    "pytest_crucible.builtin",
    "pytest_crucible.durations",
    "pytest_crucible.fixtures",
    "pytest_crucible.hookspecs",
    "pytest_crucible.markers",
    "pytest_crucible.options",
    "pytest_crucible.plugin",
    "pytest_crucible.unrewritten",
}
WATCHER = """
import sys

def pytest_unconfigure():
    print("modules:", *sorted(sys.modules))
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """All that was imported when a run of one ordinary test, with our plugin and no other, was over."""
    path = tmp_path_factory.mktemp("bystander")
    (path / "watcher.py").write_text(WATCHER)
    (path / "test_bystander.py").write_text("def test_bystander():\n    pass\n")
    return imported(path, "-p", "pytest_crucible.plugin", "test_bystander.py")


def imported(path: Path, *arguments: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "watcher", "-p", "no:cacheprovider", *arguments],
        cwd=path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("modules: "))
    return set(line.split()[1:])


@pytest.mark.parametrize("name", HEAVY)
def test_a_bystander_does_not_open(modules, name):
    assert name not in modules


def test_a_bystander_opens_the_front_door_alone(modules):
    assert {name for name in modules if name.split(".")[0] == "pytest_crucible"} == FRONT_DOOR


def test_the_package_opens_nothing_of_its_own():
    code = "import sys, pytest_crucible; print(*(name for name in sys.modules if name.startswith('pytest_crucible')))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.split() == ["pytest_crucible"]
