"""A dataset as a command's argument: a name that markers can use, or the path of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pytest_crucible.builtin import check_dataset_name, find_release
from pytest_crucible.datasets import load_file, load_rows
from pytest_crucible.datasets.release import Release
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError

field_option = click.option(
    "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="Name of a field in the file: input=question."
)
output_option = click.option(
    "-o", "output", type=click.Path(path_type=Path), help="Write a file instead: .html, .md or .json.", metavar="FILE"
)


def load_dataset(name: str, fields: Sequence[str] = ()) -> tuple[Sequence[Sample], Release | None]:
    """Return the samples of a dataset, and its release if it has one. Raises DatasetError for an unknown name."""
    release, renamed = find_release(name), dict(map(parse_field, fields))
    if release is not None:
        return load_rows(release, name=name, fields=renamed, has_option=True), release
    return _load_file(name, renamed), None


def parse_field(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not (ours and equals and theirs):
        raise SpecError(f"--field {text} is not a pair: write OURS=THEIRS, such as input=question")
    return ours, theirs


def _load_file(name: str, fields: Mapping[str, str]) -> Sequence[Sample]:
    path = Path(name)
    if not path.exists():
        check_dataset_name(name)
    return load_file(path, fields=fields, has_option=True)
