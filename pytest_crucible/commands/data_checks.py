"""`crucible data check` and `data drift`: standard checks of a dataset, and fields that have drifted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pytest_crucible.builtin import check_dataset_name, find_release
from pytest_crucible.commands.options import (
    embeddings_option,
    field_option,
    json_option,
    load_dataset,
    output_option,
    print_result,
    print_view,
    store_option,
)
from pytest_crucible.datasets import load_rows
from pytest_crucible.datasets.checks.standard import run_standard
from pytest_crucible.datasets.checks.view import check_view, count_text
from pytest_crucible.datasets.columns import MissingColumn
from pytest_crucible.datasets.contamination.compare import open_embed
from pytest_crucible.datasets.contamination.drift import compare_datasets, load_rows_of_file, tfidf_vectors
from pytest_crucible.datasets.contamination.drift_view import drift_view
from pytest_crucible.records import Sample
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.markdown import check_format, write_view
from pytest_crucible.report.printable import printable
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.runs.wrong_labels import Contradicted, find_contradicted

_MARKS = {"passed": "ok  ", "warned": "warn", "failed": "FAIL"}


@click.command("check", short_help="The standard data checks on a dataset.")
@click.argument("name")
@field_option
@store_option
@output_option
@json_option
def check_dataset(name: str, fields: Sequence[str], store: str, output: Path | None, as_json: bool) -> int:
    """Check a dataset before anything is sent: duplicates, answers in prompts, broken texts and more.

    Also lists samples whose expected answer three models in the run store contradict with one answer. NAME is a dataset's name or
    the path of a file. Exits 1 when a check fails; warnings and contradicted samples do not count.
    """
    if output is not None:
        check_format(output)
    samples, _ = load_dataset(name, fields)
    results = run_standard(samples)
    contradicted = _find_contradicted(store, samples)
    view = check_view(name, results, [_sentence(entry) for entry in contradicted])
    if output is not None:
        write_view(view, output)
        click.echo(f"wrote {output}: {count_text(results)}")
    else:
        lines = [*_lines(name, len(samples), results), *map(_sentence, contradicted)]
        print_result(lines, {**view.document, "contradicted": contradicted}, as_json=as_json)
    return int(any(result.state == "failed" for result in results))


def _find_contradicted(where: str, samples: Sequence[Sample]) -> list[Contradicted]:
    """Return the contradicted samples; none without a run store, which a dataset does not need to be checked."""
    if "://" not in where and not Path(where).is_file():
        return []
    with existing_store(where) as store:
        return find_contradicted(store, samples)


def _sentence(entry: Contradicted) -> str:
    return printable(
        f"label?  {entry.sample}: {', '.join(entry.arms)} agree on {entry.answer!r:.80}, and {entry.expected!r:.80} is expected"
    )


def _lines(name: str, samples: int, results: Sequence[CheckResult]) -> list[str]:
    lines = [f"{_MARKS[result.state]}  {printable(result.sentence)}" for result in results]
    return [f"{name}: {samples:,} samples, {count_text(results)}", *lines]


@click.command("drift", short_help="Which fields have drifted from one dataset to another.")
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
    print_view(view, output, as_json=as_json)
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
