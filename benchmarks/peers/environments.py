"""An environment for each tool, made once: what one of them needs must not be in another's way.

This package is installed anew each time, as a user installs it: it is always what is here, and no tools of developers.
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
    "inspect": ("inspect-ai", "openai", "aiohttp"),
    "deepeval": ("deepeval", "aiohttp"),
    "pydantic_evals": ("pydantic-evals", "aiohttp"),
    "pytest_evals": ("pytest-evals", "pytest"),
    "pytest_asyncio": ("pytest-asyncio", "pytest", "aiohttp"),
}


def python_of(name: str) -> str:
    """The interpreter that has a tool installed."""
    directory = HOME / name
    python = directory / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not (directory / "complete").exists():
        venv.create(directory, with_pip=True, clear=True)
        subprocess.run([*install, *REQUIREMENTS[name]], check=True)
        (directory / "complete").touch()
    elif name == "crucible":
        subprocess.run([*install, "--force-reinstall", "--no-deps", *REQUIREMENTS[name]], check=True)
    return str(python)


def version_of(python: str, package: str) -> str:
    """The version of a package in an environment."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
