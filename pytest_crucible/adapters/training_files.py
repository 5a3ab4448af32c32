"""The files that arms were trained on, and where they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.records.files import hash_file

if TYPE_CHECKING:
    from pytest_crucible.adapters.opened_arm import OpenedArm
    from pytest_crucible.records import Arm


def training_files(arm: Arm, opened: OpenedArm) -> Mapping[str, str]:
    """Return SHA-256 -> name of the files that an arm was trained on; of a family, those of all members.

    `arm` is that of the plan, which also knows the files of a stored run.
    """
    members = [member.arm.trained_on for member in opened.competitors]
    return {sha256: name for files in (arm.trained_on, *members) for sha256, name in files.items()}


def suite_folders(root: Path, test: str) -> list[Path]:
    """Return the folders that the names of training files may count from: the configuration's, and those of the suite's modules."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    of_suite = {Path(file).parent for file in modules if file and Path(file).is_relative_to(root)}
    return [root, (root / test).parent, *sorted(of_suite)]


def find_file(name: str, sha256: str, folders: Iterable[Path]) -> Path:
    """Return the file of this name with this hash; without one, a file of this name, which has changed or is missing."""
    candidates = list(dict.fromkeys(folder / Path(name).expanduser() for folder in folders))
    there = [path for path in candidates if path.is_file()]
    return next((path for path in there if hash_file(path) == sha256), (there or candidates)[0])
