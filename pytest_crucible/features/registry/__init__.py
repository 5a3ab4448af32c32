"""The model registry: versions of models, from draft to production, with the run that is the proof of each promotion."""

from __future__ import annotations

import re

from pytest_crucible.features.row import Feature

VERSION_NAME = r"(?P<model>[\w.+-]+)@(?P<which>[0-9]{1,9}|production|staged)"


def is_version(name: str) -> bool:
    """Return whether an adapter's name means a registered version. A configured adapter with that name comes first.

    >>> is_version("claims@4"), is_version("claims@production"), is_version("production"), is_version("v2")
    (True, True, True, False)
    """
    return name == "production" or re.fullmatch(VERSION_NAME, name) is not None


FEATURE = Feature(
    "registry",
    adapter_names=is_version,
    tables={
        "adapter_names": "pytest_crucible.features.registry.version_names:NAMES",
        "store_tables": "pytest_crucible.features.registry.tables:TABLES",
    },
)
