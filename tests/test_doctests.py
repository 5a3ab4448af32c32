"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import pytest_crucible

FOLDERS: dict[str, list[str]] = {}
for _one in pkgutil.walk_packages(pytest_crucible.__path__, "pytest_crucible."):
    FOLDERS.setdefault(".".join(_one.name.split(".")[:2]), []).append(_one.name)


# A folder at a time: hundreds of modules have no example, and pytest takes longer to run a test than they do.
@pytest.mark.parametrize("names", [["pytest_crucible"], *FOLDERS.values()], ids=lambda names: names[0])
def test_examples_run(names):
    failed = [name for name in names if doctest.testmod(importlib.import_module(name)).failed]

    assert not failed
