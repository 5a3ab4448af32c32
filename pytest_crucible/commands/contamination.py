"""`crucible contamination`: the samples that a model may have been trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from pytest_crucible.builtin import find_release
from pytest_crucible.commands.dataset_argument import field_option, load_dataset, output_option
from pytest_crucible.commands.embeddings import embeddings_option
from pytest_crucible.commands.memorisation import RequestedTests, run_tests
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.datasets import identify
from pytest_crucible.datasets.contamination.compare import (
    Similar,
    compare_with_file,
    compare_with_rows,
    find_similar_embeddings,
    open_embed,
    sample_texts,
)
from pytest_crucible.datasets.contamination.matching import NEAR_MATCH, TrainingText, read_training_rows, training_rows
from pytest_crucible.datasets.contamination.view import overlap_view
from pytest_crucible.records import Sample
from pytest_crucible.records.contamination import Overlap
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.report.view_files import check_format, view_lines, write_view


@click.command("contamination", short_help="The samples that a model may have been trained on.")
@click.argument("name")
@click.option("--against", multiple=True, metavar="FILE", help="Training file, or name of a dataset; may be repeated.")
@click.option("--near", type=float, default=NEAR_MATCH, show_default=True, help="Jaccard similarity of a near match.")
@click.option(
    "--adapter", default="", metavar="NAME", help="Adapter, or version such as claims@4, to test for memorisation."
)
@click.option(
    "--order-test", is_flag=True, help="Is the file's own order more probable to the adapter than random ones?"
)
@click.option("--orders", type=int, default=99, show_default=True, help="Random orders of the order test.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random orders.")
@click.option(
    "--min-k", is_flag=True, help="Has the adapter gained more on NAME than on fresh texts? Needs --base and --fresh."
)
@click.option("--base", default="", metavar="NAME", help="Adapter of the base model, for --min-k.")
@click.option("--fresh", default="", metavar="FILE", help="Texts that no model has seen, for --min-k.")
@store_option
@embeddings_option
@field_option
@output_option
@json_option
def command(
    name: str,
    against: Sequence[str],
    near: float,
    embeddings: bool,
    fields: Sequence[str],
    output: Path | None,
    as_json: bool,
    **tests: Any,
) -> int:
    """Compare a dataset with training files row by row, or test whether an adapter has memorised it.

    NAME is a dataset's name or the path of a file. Exits 1 when a sample matches a row, and when memorisation is proven.
    """
    requested = RequestedTests(**tests, fields=fields)
    requested.check()
    if not (against or requested.adapter):
        raise SpecError("there is nothing to compare with: name the training file, such as --against train.jsonl")
    if not 0.5 <= near <= 1:
        raise SpecError(f"--near {near:g} is not a similarity from 0.5 to 1: write for example --near 0.8")
    if output is not None:
        check_format(output)
    samples, _ = load_dataset(name, fields)
    overlaps = [_compare(name, samples, file, near) for file in against]
    if embeddings and not against:
        raise SpecError("--embeddings compares texts with a training file: add --against FILE")
    similar = _find_similar(samples, against) if embeddings else None
    lines, document, memorised = run_tests(requested, name, samples) if requested.adapter else ([], {}, False)
    view = overlap_view(name, overlaps, lines, document, similar)
    if output is not None:
        write_view(view, output)
        click.echo(f"wrote {output}: {view.notes[0].text}")
    else:
        print_result(view_lines(view), view.document, as_json=as_json)
    return int(memorised or any(overlap.matches for overlap in overlaps))


def _find_similar(samples: Sequence[Sample], against: Sequence[str]) -> list[tuple[str, Similar]]:
    """Return the samples with similar embeddings, by file."""
    embed, texts = open_embed(), sample_texts(samples)
    return [(file, entry) for file in against for entry in find_similar_embeddings(texts, _rows(file), embed)]


def _rows(against: str) -> Iterable[TrainingText]:
    release = find_release(against)
    return read_training_rows(Path(against)) if release is None else training_rows(release)


def _compare(name: str, samples: Sequence[Sample], against: str, near: float) -> Overlap:
    """Return the comparison with a file or a named dataset. Raises DatasetError for one that cannot be read."""
    release = find_release(against)
    if release is not None:
        return compare_with_rows(samples, training_rows(release), file=against, near=near)
    sha256 = identify(name, samples).sha256
    overlap = compare_with_file(samples, Path(against), dataset_sha256=sha256, name=against, near=near)
    if overlap.problem:
        raise DatasetError(f"--against {against} cannot be checked: {overlap.problem}")
    return overlap
