"""Tasks of imported files: which arms have results of one task, and on which samples they can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain, combinations, repeat
from pathlib import Path
from typing import Any

from pytest_crucible.importers.packed_rows import PackedRows, RowColumns, RowHashes, map_rows
from pytest_crucible.importers.results import Call, ImportedFile, Results, Row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.number_format import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The results of all arms on one task. The first arm is the candidate."""

    name: str
    arms: tuple[Results, ...]
    samples: tuple[str, ...]
    """The ids that all arms have, in the order of the candidate."""
    notes: tuple[str, ...] = ()
    unpaired: bool = False
    """Each arm has samples of its own: `samples` are those of all."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Why -> the ids of the samples that are left out: `other input`, or `only in ARM`."""


def group_tasks(
    files: Sequence[ImportedFile],
    names: Sequence[str] = (),
    candidate: str = "",
    *,
    unpaired: bool = False,
    arms_differ_in: Collection[str] = (),
) -> list[Task]:
    """Return the tasks of all files. `names` renames the files' arms, in their order. The candidate is the first arm by default.

    `unpaired` makes the samples of each arm samples of its own, whatever their ids. If arms are to differ in their messages,
    samples with different prompts are compared.

    Raises SpecError.
    """
    renamed = list(_named_arms(files, names))
    arms = dict.fromkeys(of_arm.arm for of_arm in renamed)
    if candidate and candidate not in arms:
        raise SpecError(f"arm {candidate!r} does not exist: the files have {', '.join(arms)}")
    tasks: dict[str, list[Results]] = {}
    for results in sorted(renamed, key=lambda of_arm: of_arm.arm != candidate):
        tasks.setdefault(results.task, []).append(results)
    if unpaired:
        return [_unpaired_task(name, of_task) for name, of_task in tasks.items()]
    same_prompts = not {"messages", "*"} & {*arms_differ_in}
    return [_task(name, of_task, same_prompts=same_prompts) for name, of_task in tasks.items()]


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


def _task(name: str, arms: Sequence[Results], *, same_prompts: bool) -> Task:
    _check_arms(name, arms)
    ids = _ids(arms)
    others = [of_arm for of_arm in ids if of_arm is not ids[0]]
    shared = [sample for sample in ids[0] if all(sample in other for other in others)] if others else list(ids[0])
    changed = _with_other_inputs(arms, same_prompts=same_prompts)
    # There may be as many as samples.
    asks_other = {*changed}
    common = tuple(sample for sample in shared if sample not in asks_other) if changed else tuple(shared)
    if not common:
        raise SpecError(_nothing_shared(name, arms, ids, shared))
    notes = list(_unshared_notes(name, arms, ids, shared))
    if changed:
        notes.append(
            f"task {name!r}: {quantity(len(changed), 'sample')} (first: {changed[0]}) asked something else in each arm, left out"
        )
    if len(common) == 1 and all(results.repeats > 1 for results in arms):
        notes.append(f"task {name!r}: repeats of 1 sample compare nothing; --unpaired makes each repeat a sample")
    alone = {f"only in {arm.arm}": _alone(of_arm, shared) for arm, of_arm in zip(arms, ids, strict=True)}
    left_out = {why: tuple(samples) for why, samples in {"other input": changed, **alone}.items() if samples}
    return Task(name=name, arms=tuple(arms), samples=common, notes=tuple(notes), left_out=left_out)


def _ids(arms: Sequence[Results]) -> list[Collection[str]]:
    """Return the ids of each arm's samples. Equal ones are one object: those of a million rows take some tens of MB."""
    ids: list[Collection[str]] = []
    first = RowColumns.of(arms[0].rows)
    for results in arms:
        columns = RowColumns.of(results.rows)
        if ids and columns.samples == first.samples and results.planned == arms[0].planned:
            columns.samples = first.samples
            ids.append(ids[0])
        elif ids or first.has_repeated_samples() or results.planned:
            ids.append(dict.fromkeys([*columns.samples, *results.planned]))
        else:
            ids.append(first.samples)
    return ids


def _check_arms(name: str, arms: Sequence[Results]) -> None:
    """Raise SpecError for two arms that are the same results, or that share a name."""
    same = next(((a.arm, b.arm) for a, b in combinations(arms, 2) if a.identity == b.identity), None)
    if same is not None:
        raise SpecError(f"task {name!r}: {same[0]!r} and {same[1]!r} are the same results: compare two that differ")
    twice = next((name for name, count in Counter(results.arm for results in arms).items() if count > 1), None)
    if twice is not None:
        raise SpecError(f"task {name!r} has arm {twice!r} twice: give each file another name with --arm")


def _unpaired_task(name: str, arms: Sequence[Results]) -> Task:
    """Return a task whose arms have samples of their own. Raises SpecError for a group that two arms share."""
    _check_arms(name, arms)
    own = [_with_own_samples(results) for results in arms] if len(arms) > 1 else list(arms)
    groups = [{group for group in RowColumns.of(results.rows).groups if group is not None} for results in own]
    shared = next((group for ours, theirs in combinations(groups, 2) for group in sorted(ours & theirs)), None)
    if shared is not None:
        raise SpecError(
            f"task {name!r}: group {shared!r} is in several arms, which it pairs: leave --unpaired out, and name what the arms "
            "have in common as the sample, and its episodes as repeats"
        )
    samples = dict.fromkeys(
        sample for results in own for sample in (*RowColumns.of(results.rows).samples, *results.planned)
    )
    return Task(name=name, arms=tuple(own), samples=tuple(samples), unpaired=len(arms) > 1)


def _with_own_samples(results: Results) -> Results:
    """Return an arm whose samples have its name. Of an only sample each repeat is one: the claim is about that sample."""
    is_only = len({*RowColumns.of(results.rows).samples}) == 1 and results.repeats > 1

    def rename(row: Row) -> Row:
        name = f"{row.sample} {row.repeat + 1}" if is_only else row.sample
        return replace(row, sample=f"{results.arm}: {name}", repeat=0 if is_only else row.repeat)

    rows = map_rows(results.rows, rename)
    planned = [] if is_only else [f"{results.arm}: {sample}" for sample in results.planned]
    return replace(results, rows=rows, planned=planned, repeats=1 if is_only else results.repeats)


def _with_other_inputs(arms: Sequence[Results], *, same_prompts: bool) -> list[str]:
    """Return the samples of one id, but several inputs: other fields, or another prompt in one chat template."""
    if _have_equal_hashes([arm.rows for arm in arms]):
        return []
    inputs: dict[str, int] = {}
    prompts: dict[str, dict[str, int]] = {}
    changed: set[str] = set()
    for results in arms:
        hashes, of_template = RowHashes.of(results.rows), prompts.setdefault(results.template, {})
        prompts_of_rows = chain(hashes.prompts, repeat(0))
        of_rows = zip(RowColumns.of(results.rows).samples, hashes.inputs, prompts_of_rows, strict=False)
        for sample, fields, prompt in of_rows:
            if fields and inputs.setdefault(sample, fields) != fields:
                changed.add(sample)
            if prompt and same_prompts and of_template.setdefault(sample, prompt) != prompt:
                changed.add(sample)
    if not changed:
        return []
    every = dict.fromkeys(sample for results in arms for sample in RowColumns.of(results.rows).samples)
    return [sample for sample in every if sample in changed]


def _have_equal_hashes(arms: Sequence[Sequence[Row]]) -> bool:
    """Return whether packed rows of all arms, one for each sample, are equal in ids, inputs and prompts, one after the other."""
    first, *others = arms
    return isinstance(first, PackedRows) and all(
        isinstance(rows, PackedRows)
        and rows.columns.samples == first.columns.samples
        and rows.hashes == first.hashes
        and not rows.columns.has_repeated_samples()
        for rows in others
    )


def _nothing_shared(name: str, arms: Sequence[Results], ids: Sequence[Collection[str]], shared: Sequence[str]) -> str:
    if shared:
        return (
            f"task {name!r}: {arms[0].arm!r} and {arms[1].arm!r} have no sample in common with the same input: that of all "
            f"{len(shared)} differs (first: {shared[0]}){_other_settings(arms)}: compare results of the same samples, "
            "or, if their prompts are what you compare, add --arms-differ-in=messages"
        )
    inputs = [{number for number in RowHashes.of(arm.rows).inputs if number} for arm in arms[:2]]
    equal = len(set.intersection(*inputs))
    if equal:
        reason = f"no id in common, but {quantity(equal, 'equal input')}"
        advice = "if ids are new in each run, name the inputs as the samples (of a table: --column sample=NAME)"
    else:
        reason = "no sample in common with the same input"
        advice = "compare results of the same samples (the column of a table that has their ids: --column sample=NAME)"
    return (
        f"task {name!r}: {arms[0].arm!r} has {len(ids[0])} samples (first: {next(iter(ids[0]))}) and "
        f"{arms[1].arm!r} {len(ids[1])} (first: {next(iter(ids[1]))}), and {reason}: {advice}, or, if each arm has samples of "
        "its own, add --unpaired"
    )


def _other_settings(arms: Sequence[Results]) -> str:
    """Return the settings in which two arms differ, each after a comma; empty if none does."""
    ours, theirs = (common_settings(arm.rows) for arm in arms[:2])
    names = [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]
    return "".join(f", {name} is {ours.get(name, 'not set')} and {theirs.get(name, 'not set')}" for name in names)


def common_settings(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the generation settings that all requests of an arm have in common."""
    # A request that failed may have none.
    settings = [parameters for parameters in _all_settings(rows) if parameters]
    first = settings[0] if settings else {}
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in settings)}


def _all_settings(rows: Sequence[Row]) -> Iterable[Mapping[str, Any]]:
    if isinstance(rows, PackedRows):
        return rows.settings.values()
    requests: Iterable[Row | Call] = chain.from_iterable(row.calls or (row,) for row in rows)
    return (request.parameters for request in requests)


def _alone(samples: Collection[str], shared: Collection[str]) -> list[str]:
    """Return the samples that are not among the shared ones, all of which are samples."""
    if len(samples) == len(shared):
        return []
    there = set(shared)
    return [sample for sample in samples if sample not in there]


def _unshared_notes(
    name: str, arms: Sequence[Results], ids: Sequence[Collection[str]], shared: Sequence[str]
) -> Iterator[str]:
    for results, samples in zip(arms, ids, strict=True):
        alone = _alone(samples, shared)
        if alone:
            yield (
                f"task {name!r}: {quantity(len(alone), 'sample')} of {results.arm!r} (first: {alone[0]}) "
                "that not every arm was asked, left out"
            )
