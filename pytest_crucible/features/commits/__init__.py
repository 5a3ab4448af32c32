"""Code against code: the suite's function as it was at another commit is an arm, `--compare=commit:HEAD~1`."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

PREFIX = "commit:"
"""Precedes a revision. It is also the key of the revision among the options of the arm's adapter, which no table has."""


def is_commit(name: str) -> bool:
    """Return whether the name of an arm means the code of a commit.

    >>> is_commit("commit:HEAD~1"), is_commit("v1")
    (True, False)
    """
    return name.startswith(PREFIX)


FEATURE = Feature(
    "commits",
    adapter_keys=(PREFIX,),
    adapter_names=is_commit,
    tables={
        "adapter_names": "pytest_crucible.features.commits.arms:NAMES",
        "arm_makers": "pytest_crucible.features.commits.arms:MAKERS",
    },
)
