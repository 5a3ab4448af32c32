"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import pytest_crucible

FOLDERS: dict[str, list[str]] = {}
for _module in pkgutil.walk_packages(pytest_crucible.__path__, "pytest_crucible."):
    _path = Path(pytest_crucible.__file__).parent.joinpath(*_module.name.split(".")[1:])
    _source = _path / "__init__.py" if _module.ispkg else _path.with_suffix(".py")
    # doctest takes longer to search a module without an example than to run those of most others.
    if ">>>" in _source.read_text(encoding="utf-8"):
        FOLDERS.setdefault(".".join(_module.name.split(".")[:2]), []).append(_module.name)


# A folder at a time: pytest takes longer to run a test than the examples of a module do.
@pytest.mark.parametrize("names", [["pytest_crucible"], *FOLDERS.values()], ids=lambda names: names[0])
def test_examples_run(names):
    failed = [name for name in names if doctest.testmod(importlib.import_module(name)).failed]

    assert not failed
