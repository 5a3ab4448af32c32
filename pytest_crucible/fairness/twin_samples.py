"""Twins of prompts: the same prompt with pronouns, nouns and names of another version, such as female and male.

Invariance is what twins test: whether the score stays the same when only these words change. It is not causal fairness.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.load import load_file, load_rows
from pytest_crucible.fairness.swap_tables import GENDER, SwapTable, read_table
from pytest_crucible.records import NoTwin, Sample, Twin
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.slices import TWIN
from pytest_crucible.stats.number_format import quantity

NOTHING = NoTwin("no word to swap")
MIXED = NoTwin("words of several versions")
_OWN = "the prompt is the {} version"


def twins(
    dataset: str | Path | Iterable[Sample | Mapping[str, Any]],
    *,
    swap: str | Path,
    fields: Mapping[str, str] | None = None,
) -> Callable[[], Sequence[Sample]]:
    """Return a dataset whose samples bring along their other versions as variants, for `dataset=` of the marker.

    `dataset` is a file or a list of samples. `swap` is "gender" (pronouns, nouns and common names), or a CSV file of your own: its
    first row names the versions, and each further row has a word or phrase for each. Prompt and `expected` are swapped, with
    capitals kept. The field `twin` names the version. A sample that has words of several versions, or a word whose counterpart is
    not certain, gets no twin, and is counted. Relative paths are those of the calling file, or of the working directory. Raises
    SpecError when the samples are read, if no sample has a twin.
    """
    folder = _calling_folder()
    if not isinstance(swap, str | Path):
        raise SpecError(f'twins has swap={swap!r}: write "gender", or the path of a CSV file')
    if not isinstance(dataset, str | Path | Iterable):
        raise SpecError(f"twins has dataset={dataset!r}: pass the path of a file, or a list of samples")

    def read_twins() -> Sequence[Sample]:
        table = GENDER if str(swap) == "gender" else read_table(_locate(swap, folder))
        if isinstance(dataset, str | Path):
            samples = load_file(_locate(dataset, folder), fields=fields)
        else:
            samples = load_rows(list(dataset), name="twins", fields=fields or {})
        versions = [with_twins(sample, table) for sample in samples]
        sent = _sent_versions(versions, table)
        if not sent:
            advice = "pass your own table" if table is GENDER else "add words of these prompts to the table"
            changed = f'twins(swap="{swap}") changed none of {quantity(len(samples), "prompt")}'
            raise SpecError(f"{changed}{_other_reasons(versions, table)}; {advice}")
        # Where all prompts are female, only their male versions are variants.
        unsent = set(table.versions) - sent
        return [_without_variants(sample, unsent) for sample in versions] if unsent else versions

    return read_twins


def _sent_versions(samples: Sequence[Sample], table: SwapTable) -> set[str]:
    return {
        version for sample in samples for version in table.versions if isinstance(sample.variants.get(version), Twin)
    }


def _without_variants(sample: Sample, names: Collection[str]) -> Sample:
    return replace(sample, variants={name: twin for name, twin in sample.variants.items() if name not in names})


def _other_reasons(samples: Sequence[Sample], table: SwapTable) -> str:
    """Return why prompts that have words of the table have no twin, such as ` (words of several versions)`."""
    known = {NOTHING.reason, *map(_OWN.format, table.versions)}
    twins = [twin for sample in samples for twin in sample.variants.values()]
    others = dict.fromkeys(twin.reason for twin in twins if isinstance(twin, NoTwin) and twin.reason not in known)
    return f" ({', '.join(list(others)[:3])})" if others else ""


def with_twins(sample: Sample, table: SwapTable) -> Sample:
    """Return the sample with its other versions as variants; without a certain one, with the reason."""
    versions = table.versions_in(sample.input)
    if len(versions) != 1:
        reason = MIXED if versions else NOTHING
        return replace(sample, variants={**sample.variants, **dict.fromkeys(table.versions, reason)})
    own = versions[0]
    variants: dict[str, Twin | NoTwin] = {own: NoTwin(_OWN.format(own))}
    for version in table.versions:
        if version != own:
            variants[version] = _twin(sample, table, own, version)
    has_twin = any(isinstance(twin, Twin) for twin in variants.values())
    metadata = {**sample.metadata, TWIN: own} if has_twin else sample.metadata
    return replace(sample, metadata=metadata, variants={**sample.variants, **variants})


def _twin(sample: Sample, table: SwapTable, own: str, version: str) -> Twin | NoTwin:
    prompt = table.swap(sample.input, own, version)
    expected = table.swap(sample.expected, own, version)
    uncertain = [*prompt.uncertain, *expected.uncertain]
    if uncertain:
        return NoTwin(f"the counterpart of {uncertain[0].lower()!r} is not certain")
    return Twin(input=prompt.value, expected=expected.value, facts={"swapped": list(prompt.words)})


def _calling_folder() -> Path:
    """Return the folder of the file that calls `twins`."""
    file = sys._getframe(2).f_globals.get("__file__")
    return Path(file).parent if file else Path.cwd()


def _locate(path: str | Path, folder: Path) -> Path:
    beside = folder / path
    return beside if beside.exists() else Path(path)
