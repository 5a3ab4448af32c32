"""An environment for each tool: what one of them needs must not be in another's way.

Each time, this package is installed as a user installs it, so that it is what is here without tools of developers, and the
others are upgraded.
"""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from benchmarks.suite import ROOT

HOME = Path.home() / ".cache" / "pytest-crucible" / "peers"
REQUIREMENTS = {
    "crucible": (str(ROOT),),
    "gather": ("aiohttp",),
    "pytest_gather": ("pytest", "aiohttp"),
    "inspect": ("inspect-ai", "openai", "aiohttp"),
    "deepeval": ("deepeval", "aiohttp"),
    "pydantic_evals": ("pydantic-evals", "aiohttp"),
    "pytest_evals": ("pytest-evals", "pytest"),
    "pytest_asyncio": ("pytest-asyncio", "pytest", "aiohttp"),
}


def python_of(name: str) -> str:
    """Return the interpreter that has the newest version of a tool installed."""
    directory = HOME / name
    python = directory / "bin" / "python"
    if not (directory / "complete").exists():
        venv.create(directory, with_pip=True, clear=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*install, *REQUIREMENTS[name]], check=True)
    (directory / "complete").touch()
    return str(python)


def version_of(python: str, package: str) -> str:
    """Return the version of a package in an environment."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
