"""`crucible check`: the standard data checks on a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pytest_crucible.commands.dataset_argument import field_option, load_dataset, output_option
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.datasets.checks.standard import run_standard
from pytest_crucible.datasets.checks.view import check_view, count_text
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.report.printable import printable
from pytest_crucible.report.view_files import check_format, write_view

_MARKS = {"passed": "ok  ", "warned": "warn", "failed": "FAIL"}


@click.command("check", short_help="The standard data checks on a dataset.")
@click.argument("name")
@field_option
@output_option
@json_option
def command(name: str, fields: Sequence[str], output: Path | None, as_json: bool) -> int:
    """Check a dataset before anything is sent: duplicates, answers in prompts, broken texts and more.

    NAME is a dataset's name or the path of a file. Exits 1 when a check fails; warnings do not count.
    """
    if output is not None:
        check_format(output)
    samples, _ = load_dataset(name, fields)
    results = run_standard(samples)
    view = check_view(name, results)
    if output is not None:
        write_view(view, output)
        click.echo(f"wrote {output}: {count_text(results)}")
    else:
        print_result(_lines(name, len(samples), results), view.document, as_json=as_json)
    return int(any(result.state == "failed" for result in results))


def _lines(name: str, samples: int, results: Sequence[CheckResult]) -> list[str]:
    lines = [f"{_MARKS[result.state]}  {printable(result.sentence)}" for result in results]
    return [f"{name}: {samples:,} samples, {count_text(results)}", *lines]
