"""Groups imported arms by task: arms of one task become one experiment, on the samples that all of them have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from pytest_crucible.importers.results import ImportedFile, Results
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical
from pytest_crucible.stats.number_format import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The results of all arms on one task. The first arm is the candidate."""

    name: str
    arms: tuple[Results, ...]
    samples: tuple[str, ...]
    """The ids that all arms have, in the order of the candidate."""
    notes: tuple[str, ...] = ()


def group_tasks(files: Sequence[ImportedFile], names: Sequence[str] = (), candidate: str = "") -> list[Task]:
    """Return the tasks of all files. `names` renames the files' arms, in their order. The candidate is the first arm by default.

    Raises SpecError.
    """
    renamed = list(_named_arms(files, names))
    arms = dict.fromkeys(of_arm.arm for of_arm in renamed)
    if candidate and candidate not in arms:
        raise SpecError(f"arm {candidate!r} does not exist: the files have {', '.join(arms)}")
    tasks: dict[str, list[Results]] = {}
    for results in sorted(renamed, key=lambda of_arm: of_arm.arm != candidate):
        tasks.setdefault(results.task, []).append(results)
    return [_task(name, arms) for name, arms in tasks.items()]


def _named_arms(files: Sequence[ImportedFile], names: Sequence[str]) -> Iterator[Results]:
    """Yield arms with the names that the user gives, or else their own: with the file's name where two files share one."""
    origins = _by_origin(files)
    if names and len(names) != len(origins):
        raise SpecError(
            f"{quantity(len(names), 'arm')} named for {quantity(len(origins), 'file')}: give --arm once for each file"
        )
    labels = _labels([origin for origin, _ in origins])
    for k, ((origin, results_of), label) in enumerate(zip(origins, labels, strict=True)):
        several = len({arm.arm for arm in results_of}) > 1
        others = {(arm.task, arm.arm) for j, (_, other) in enumerate(origins) if j != k for arm in other}
        if names and several:
            raise SpecError(f"{origin} has several arms, which have names already: leave --arm out")
        for results in results_of:
            of_file = f"{label}/{results.arm}" if several else label
            name = of_file if (results.task, results.arm) in others else results.arm
            yield replace(results, arm=names[k] if names else name)


def _by_origin(files: Sequence[ImportedFile]) -> list[tuple[str, list[Results]]]:
    """Return the results of each path that the user named. A file that is named twice stays two."""
    origins: list[tuple[str, list[Results]]] = []
    for file in files:
        is_same_folder = bool(origins) and bool(file.folder) and origins[-1][0] == file.folder
        # The same directory named twice repeats its results.
        if is_same_folder and not {of.identity for of in file.results} & {of.identity for of in origins[-1][1]}:
            origins[-1][1].extend(file.results)
        else:
            origins.append((file.origin, list(file.results)))
    return origins


def _labels(origins: Sequence[str]) -> list[str]:
    """Return a label for each path: its stem, its name or itself, whichever is the shortest that is unique."""
    paths = [Path(origin) for origin in origins]
    stems, names = [path.stem for path in paths], [path.name for path in paths]
    return next((labels for labels in (stems, names) if len(set(labels)) == len(labels)), list(origins))


def _task(name: str, arms: Sequence[Results]) -> Task:
    same = next(((a.arm, b.arm) for a, b in combinations(arms, 2) if a.identity == b.identity), None)
    if same is not None:
        raise SpecError(f"task {name!r}: {same[0]!r} and {same[1]!r} are the same results: compare two that differ")
    twice = next(
        (results.arm for k, results in enumerate(arms) if results.arm in {other.arm for other in arms[:k]}), None
    )
    if twice is not None:
        raise SpecError(f"task {name!r} has arm {twice!r} twice: give each file another name with --arm")
    ids = [dict.fromkeys([*(row.sample for row in results.rows), *results.planned]) for results in arms]
    shared = [results for results in ids[0] if all(results in other for other in ids)]
    changed = _differing_samples(arms)
    common = tuple(results for results in shared if results not in changed)
    if not common:
        raise SpecError(
            f"task {name!r}: {arms[0].arm!r} has {len(ids[0])} samples (first: {next(iter(ids[0]))}) and "
            f"{arms[1].arm!r} {len(ids[1])} (first: {next(iter(ids[1]))}), and no sample in common with the same input: "
            "compare results of the same samples"
        )
    notes = list(_unshared_notes(name, arms, ids, shared))
    if changed:
        notes.append(
            f"task {name!r}: {quantity(len(changed), 'sample')} (first: {changed[0]}) asked something else in each arm, left out"
        )
    return Task(name=name, arms=tuple(arms), samples=common, notes=tuple(notes))


def _differing_samples(arms: Sequence[Results]) -> list[str]:
    """Return samples with one id and several inputs."""
    inputs_of: dict[str, set[str]] = {}
    for row in (row for results in arms for row in results.rows if row.input is not None):
        inputs_of.setdefault(row.sample, set()).add(canonical(row.input))
    return [sample for sample, inputs in inputs_of.items() if len(inputs) > 1]


def _unshared_notes(
    name: str, arms: Sequence[Results], ids: Sequence[Mapping[str, None]], common: Sequence[str]
) -> Iterator[str]:
    shared = set(common)
    for results, samples in zip(arms, ids, strict=True):
        alone = [sample for sample in samples if sample not in shared]
        if alone:
            yield (
                f"task {name!r}: {quantity(len(alone), 'sample')} of {results.arm!r} (first: {alone[0]}) "
                "that not every arm was asked, left out"
            )
