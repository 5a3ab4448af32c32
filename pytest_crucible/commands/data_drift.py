"""`crucible data-drift`: which fields have drifted from one dataset to another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pytest_crucible.builtin import check_dataset_name, find_release
from pytest_crucible.commands.dataset_argument import output_option
from pytest_crucible.commands.embeddings import embeddings_option
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.datasets import load_rows
from pytest_crucible.datasets.columns import MissingColumn
from pytest_crucible.datasets.contamination.compare import open_embed
from pytest_crucible.datasets.contamination.drift import compare_datasets, load_rows_of_file, tfidf_vectors
from pytest_crucible.datasets.contamination.drift_view import drift_view
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.view_files import check_format, view_lines, write_view


@click.command("data-drift", short_help="Which fields have drifted from one dataset to another.")
@click.argument("old")
@click.argument("new")
@click.option("--field", "fields", multiple=True, metavar="NAME", help="Compare only this field; may be repeated.")
@click.option("--margin", type=float, metavar="D", help="Distance from 0 to 1 that does not matter yet, such as 0.1.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate over all fields.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of permuted labels.")
@embeddings_option
@output_option
@json_option
def command(
    old: str,
    new: str,
    fields: Sequence[str],
    margin: float | None,
    alpha: float,
    seed: int,
    embeddings: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Compare all fields that two datasets have: numbers, categories and texts.

    OLD and NEW are names of datasets or paths of files. Exits 1 when drift is proven; with --margin, when it is proven to be
    beyond it.
    """
    _check_shares(margin, alpha)
    if output is not None:
        check_format(output)
    try:
        report = compare_datasets(
            _load(old),
            _load(new),
            fields=fields,
            margin=margin,
            alpha=alpha,
            seed=seed,
            embed=open_embed() if embeddings else tfidf_vectors,
        )
    except MissingColumn as error:
        raise SpecError(f"--field: {error}") from None
    if len(report.rows) == len(report.only_old) + len(report.only_new):
        raise SpecError(f"{old} and {new} have no field in common: compare two files of one form")
    view = drift_view(old, new, report, "embeddings (MiniLM)" if embeddings else "TF-IDF vectors")
    if output is not None:
        write_view(view, output)
        click.echo(f"wrote {output}: {view.notes[0].text}")
    else:
        print_result(view_lines(view), view.document, as_json=as_json)
    return int(bool(report.failed))


def _check_shares(margin: float | None, alpha: float) -> None:
    for name, value in (("margin", margin), ("alpha", alpha)):
        if value is not None and not 0 < value < 1:
            raise SpecError(f"--{name} {value:g} is not between 0 and 1: write for example --{name} 0.1")


def _load(name: str) -> Sequence[Sample]:
    release = find_release(name)
    if release is not None:
        return load_rows(release, name=name)
    if not Path(name).exists():
        check_dataset_name(name)
    return load_rows_of_file(Path(name))
