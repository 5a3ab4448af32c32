"""Files to experiments: arms that were asked the same task stand beside each other, on the samples that all of them have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.results import Imported, Results
from pytest_crucible.numerals import counted
from pytest_crucible.wire import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Arms that were asked the same. The first is the candidate."""

    name: str
    arms: tuple[Results, ...]
    samples: tuple[str, ...]
    """The ids that all arms have, in the order of the candidate."""
    notes: tuple[str, ...] = ()


def joined(files: Sequence[Imported], names: Sequence[str] = (), candidate: str = "") -> list[Task]:
    """The tasks of all files. `names` are the files' arms in their order, or none; without a `candidate` it is the first arm.

    Raises SpecError.
    """
    renamed = list(_renamed(files, names))
    arms = dict.fromkeys(one.arm for one in renamed)
    if candidate and candidate not in arms:
        raise SpecError(f"there is no arm {candidate!r}: there are {', '.join(arms)}")
    tasks: dict[str, list[Results]] = {}
    for results in sorted(renamed, key=lambda one: one.arm != candidate):
        tasks.setdefault(results.task, []).append(results)
    return [_task(name, arms) for name, arms in tasks.items()]


def _renamed(files: Sequence[Imported], names: Sequence[str]) -> Iterator[Results]:
    """Arms by the names that were given; else by their own, and by their file's where two files have the same."""
    if names and len(names) != len(files):
        raise SpecError(f"{counted(len(names), 'arm')} named for {counted(len(files), 'file')}: give --arm once a file")
    for k, (file, label) in enumerate(zip(files, _labels(files), strict=True)):
        several = len({one.arm for one in file.results}) > 1
        others = {(one.task, one.arm) for other in files if other is not file for one in other.results}
        if names and several:
            raise SpecError(f"{file.path} has several arms, which have names already: leave --arm out")
        for results in file.results:
            of_file = f"{label}/{results.arm}" if several else label
            name = of_file if (results.task, results.arm) in others else results.arm
            yield replace(results, arm=names[k] if names else name)


def _labels(files: Sequence[Imported]) -> list[str]:
    """What tells the files apart: as little of their paths as does."""
    paths = [Path(file.path) for file in files]
    stems, names = [one.stem for one in paths], [one.name for one in paths]
    return next((said for said in (stems, names) if len(set(said)) == len(said)), [file.path for file in files])


def _task(name: str, arms: Sequence[Results]) -> Task:
    same = next(((a.arm, b.arm) for a, b in combinations(arms, 2) if a.identity == b.identity), None)
    if same is not None:
        raise SpecError(f"task {name!r}: {same[0]!r} and {same[1]!r} are the same results: compare two that differ")
    twice = next((one.arm for k, one in enumerate(arms) if one.arm in {other.arm for other in arms[:k]}), None)
    if twice is not None:
        raise SpecError(f"task {name!r} has arm {twice!r} twice: give each file another name with --arm")
    ids = [dict.fromkeys([*(row.sample for row in one.rows), *one.planned]) for one in arms]
    shared = [one for one in ids[0] if all(one in other for other in ids)]
    changed = _changed(arms)
    common = tuple(one for one in shared if one not in changed)
    if not common:
        raise SpecError(
            f"task {name!r}: {arms[0].arm!r} has {len(ids[0])} samples (first: {next(iter(ids[0]))}) and "
            f"{arms[1].arm!r} {len(ids[1])} (first: {next(iter(ids[1]))}), and none in common that ask the same: "
            "compare results of the same samples"
        )
    notes = list(_apart(name, arms, ids, shared))
    if changed:
        notes.append(
            f"task {name!r}: {counted(len(changed), 'sample')} (first: {changed[0]}) asked something else in each arm, left out"
        )
    return Task(name=name, arms=tuple(arms), samples=common, notes=tuple(notes))


def _changed(arms: Sequence[Results]) -> list[str]:
    """Samples that have one id and several inputs."""
    asked: dict[str, set[str]] = {}
    for row in (row for one in arms for row in one.rows if row.input is not None):
        asked.setdefault(row.sample, set()).add(canonical(row.input))
    return [sample for sample, inputs in asked.items() if len(inputs) > 1]


def _apart(
    name: str, arms: Sequence[Results], ids: Sequence[Mapping[str, None]], common: Sequence[str]
) -> Iterator[str]:
    kept = set(common)
    for one, samples in zip(arms, ids, strict=True):
        alone = [sample for sample in samples if sample not in kept]
        if alone:
            yield (
                f"task {name!r}: {counted(len(alone), 'sample')} of {one.arm!r} (first: {alone[0]}) "
                "that not every arm was asked, left out"
            )
