"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import pytest_crucible

MODULES = [
    "pytest_crucible",
    *(one.name for one in pkgutil.walk_packages(pytest_crucible.__path__, "pytest_crucible.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name))

    assert not failed
