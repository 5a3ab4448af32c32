"""The user's own files that pytest has loaded as plugins: they may change every score, so that a gate knows their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

INSTALLED = ("site-packages", "dist-packages")


def conftest_files(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Yield the conftest.py files above an item, with their hashes: a hook or a patch in one may change every score."""
    for path, _ in _own_plugins(item.config):
        if path.name == "conftest.py" and path.parent in item.path.parents:
            yield f"file {_relative(path, item.config.rootpath)}", _file_digest(path)


def local_plugins(config: pytest.Config) -> Iterator[tuple[str, str]]:
    """Yield the plugins of `-p`, PYTEST_PLUGINS and `pytest_plugins` that no package has installed, with their hashes."""
    for path, module in _own_plugins(config):
        if path.name != "conftest.py":
            yield module.__name__, _file_digest(path)


def _own_plugins(config: pytest.Config) -> list[tuple[Path, ModuleType]]:
    """Return the plugins that are modules of the user's, by file."""
    plugins = (plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, ModuleType))
    # pytest has a set of them.
    return sorted((Path(str(plugin.__file__)), plugin) for plugin in plugins if not is_installed(plugin))


def is_installed(module: ModuleType | None) -> bool:
    """Return whether a module is of an installed package, of Python or of ours."""
    file = getattr(module, "__file__", None)
    own = module is not None and module.__name__.partition(".")[0] in ("pytest_crucible", "_pytest", "pytest")
    return own or file is None or any(folder in Path(file).parts for folder in INSTALLED)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
