"""`crucible data check`: the standard data checks on a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pytest_crucible.commands.dataset_argument import field_option, load_dataset, output_option
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.datasets.checks.standard import run_standard
from pytest_crucible.datasets.checks.view import check_view, count_text
from pytest_crucible.records import Sample
from pytest_crucible.records.data_checks import CheckResult
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
def command(name: str, fields: Sequence[str], store: str, output: Path | None, as_json: bool) -> int:
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
