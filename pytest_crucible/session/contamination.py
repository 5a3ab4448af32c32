"""Samples that the arms of an experiment were trained on, as far as their recipes and configuration list files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.datasets.contamination.compare import compare_with_file
from pytest_crucible.records import Arm, Dataset, Exclusion
from pytest_crucible.records.contamination import ArmOverlap, Overlap
from pytest_crucible.records.files import file_lock, hash_file
from pytest_crucible.session.experiment import Experiment


@dataclass
class Contamination:
    """Compares the samples of a session with the training files of its arms, each pair once."""

    root: Path
    cache: Path
    """The folder of earlier comparisons, which the workers of a run share."""
    _known: dict[tuple[str, str], Overlap] = field(default_factory=dict)

    def add_to(self, experiment: Experiment) -> Experiment:
        """Return the experiment with the overlaps of its arms; its verdicts are decided again without the matched samples."""
        overlaps = tuple(
            ArmOverlap(arm=arm.name, files=files)
            for arm, opened in zip(experiment.plan.arms, experiment.opened_arms, strict=True)
            if (files := self._compare_files(training_files(arm, opened), experiment))
        )
        if not overlaps:
            return experiment
        plan = experiment.plan
        exclusions = (*plan.exclusions, *_exclusions(overlaps))
        return replace(experiment, plan=replace(plan, overlaps=overlaps, exclusions=exclusions))

    def _compare_files(self, files: Mapping[str, str], experiment: Experiment) -> tuple[Overlap, ...]:
        folders = _candidate_folders(self.root, experiment) if files else []
        return tuple(self._compare(experiment.dataset, name, sha256, folders) for sha256, name in files.items())

    def _compare(self, dataset: Dataset, name: str, sha256: str, folders: Sequence[Path]) -> Overlap:
        key = (dataset.sha256, sha256)
        if key not in self._known:
            path = find_file(name, sha256, folders)
            # The first worker compares, and the others read its result.
            with file_lock(self.cache / "lock", wait=lambda: None):
                self._known[key] = compare_with_file(
                    dataset.samples, path, dataset_sha256=dataset.sha256, name=name, sha256=sha256, cache=self.cache
                )
        return self._known[key]


def find_file(name: str, sha256: str, folders: Iterable[Path]) -> Path:
    """Return the file of this name with this hash; without one, a file of this name, which has changed or is missing."""
    candidates = list(dict.fromkeys(folder / Path(name).expanduser() for folder in folders))
    there = [path for path in candidates if path.is_file()]
    return next((path for path in there if hash_file(path) == sha256), (there or candidates)[0])


def training_files(arm: Arm, opened: OpenedArm) -> Mapping[str, str]:
    """Return SHA-256 -> name of the files that an arm was trained on; of a family, those of all members.

    `arm` is that of the plan, which also knows the files of a stored run.
    """
    members = [member.arm.trained_on for member in opened.competitors]
    return {sha256: name for files in (arm.trained_on, *members) for sha256, name in files.items()}


def _candidate_folders(root: Path, experiment: Experiment) -> list[Path]:
    """Return the folders that the names of training files may count from: the configuration's, and those of the suite's modules."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    of_suite = {Path(file).parent for file in modules if file and Path(file).is_relative_to(root)}
    return [root, (root / experiment.plan.path).parent, *sorted(of_suite)]


def _exclusions(overlaps: Sequence[ArmOverlap]) -> list[Exclusion]:
    """Return the matched samples by file. Two arms may have the same file."""
    files = {overlap.file: overlap for arm in overlaps for overlap in arm.files if overlap.matches}
    return [
        Exclusion(reason=f"match {name}", sample_ids=tuple(match.sample for match in overlap.matches))
        for name, overlap in files.items()
    ]
