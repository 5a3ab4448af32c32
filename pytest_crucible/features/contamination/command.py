"""`crucible data contamination` and `data drift`: samples that a model was trained on, and fields that have drifted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from pytest_crucible.builtin import check_dataset_name, find_release
from pytest_crucible.commands.options import (
    embeddings_option,
    field_option,
    json_option,
    load_dataset,
    output_option,
    print_view,
    store_option,
)
from pytest_crucible.datasets import identify, load_rows
from pytest_crucible.datasets.columns import MissingColumn
from pytest_crucible.features.contamination.compare import (
    compare_with_file,
    compare_with_rows,
    find_similar_embeddings,
    open_embed,
    sample_texts,
)
from pytest_crucible.features.contamination.drift import compare_datasets, load_rows_of_file, tfidf_vectors
from pytest_crucible.features.contamination.matching import (
    NEAR_MATCH,
    Overlap,
    TrainingText,
    read_training_rows,
    training_rows,
)
from pytest_crucible.features.contamination.memorisation import RequestedTests, run_tests
from pytest_crucible.features.contamination.section import drift_view, overlap_view
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.report.markdown import check_format


@click.command("contamination")
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
def find_contamination(
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
    similar = None
    if embeddings:
        embed, texts = open_embed(), sample_texts(samples)
        similar = [(file, each) for file in against for each in find_similar_embeddings(texts, _rows(file), embed)]
    lines, document, memorised = run_tests(requested, name, samples) if requested.adapter else ([], {}, False)
    view = overlap_view(name, overlaps, lines, document, similar)
    print_view(view, output, as_json=as_json)
    return int(memorised or any(overlap.matches for overlap in overlaps))


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


@click.command("drift")
@click.argument("old")
@click.argument("new")
@click.option("--field", "fields", multiple=True, metavar="NAME", help="Compare only this field; may be repeated.")
@click.option("--margin", type=float, metavar="D", help="Distance from 0 to 1 that does not matter yet, such as 0.1.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate over all fields.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of permuted labels.")
@embeddings_option
@output_option
@json_option
def compare_drift(
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
    for name, value in (("margin", margin), ("alpha", alpha)):
        if value is not None and not 0 < value < 1:
            raise SpecError(f"--{name} {value:g} is not between 0 and 1: write for example --{name} 0.1")
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
    print_view(view, output, as_json=as_json)
    return int(bool(report.failed))


def _load(name: str) -> Sequence[Sample]:
    release = find_release(name)
    if release is not None:
        return load_rows(release, name=name)
    if not Path(name).exists():
        check_dataset_name(name)
    return load_rows_of_file(Path(name))
