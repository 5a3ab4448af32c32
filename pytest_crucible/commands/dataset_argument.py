"""A dataset as a command's argument: a name that markers can use, or the path of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pytest_crucible.builtin import check_dataset_name, find_release
from pytest_crucible.datasets import load_file, load_rows
from pytest_crucible.datasets.load import FIELDS
from pytest_crucible.datasets.release import Release
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError, SpecError

# A dataset's error says what to write in Python; a command has an option for it.
_FIELDS = re.compile(r"fields=\{'input': '?(.+?)'?\}$")

field_option = click.option(
    "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="Name of a field in the file: input=question."
)
output_option = click.option(
    "-o", "output", type=click.Path(path_type=Path), help="Write a file instead: .html, .md or .json.", metavar="FILE"
)


def load_dataset(name: str, fields: Sequence[str] = ()) -> tuple[Sequence[Sample], Release | None]:
    """Return the samples of a dataset, and its release if it has one. Raises DatasetError for an unknown name."""
    release, renamed = find_release(name), dict(map(parse_field, fields))
    try:
        if release is not None:
            return load_rows(release, name=name, fields=renamed), release
        return _load_file(name, renamed), None
    except DatasetError as error:
        raise DatasetError(_FIELDS.sub(r"--field input=\1", str(error))) from None


def parse_field(text: str) -> tuple[str, str]:
    """Return our name and the file's. Raises SpecError."""
    ours, equals, theirs = text.partition("=")
    if not (ours and equals and theirs):
        raise SpecError(f"--field {text} is not a pair: write OURS=THEIRS, such as input=question")
    if ours not in FIELDS:
        raise SpecError(
            f"--field {text} names {ours!r}: write OURS=THEIRS, where OURS is {', '.join(FIELDS[:-1])} or {FIELDS[-1]}"
        )
    return ours, theirs


def _load_file(name: str, fields: Mapping[str, str]) -> Sequence[Sample]:
    path = Path(name)
    if not path.exists():
        check_dataset_name(name)
    return load_file(path, fields=fields)
