"""`crucible adapters`, `metrics` and `data list`: what a suite here can name."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.builtin import find_release, named_datasets
from pytest_crucible.commands.options import field_option, json_option, load_dataset, output_option, print_result
from pytest_crucible.datasets.release import Release, cache_folder
from pytest_crucible.datasets.selection import Description, describe
from pytest_crucible.metrics import Metric
from pytest_crucible.records import Origin
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.redaction import hider, redact
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.records.serialize import pick, to_plain
from pytest_crucible.report.printable import aligned_lines, headed_lines, printable
from pytest_crucible.runs.plugins import metrics as named_metrics
from pytest_crucible.runs.plugins import program_plugins

HEADERS = ("name", "backend", "where", "parameters")


@click.command("adapters")
@json_option
def list_adapters(as_json: bool) -> None:
    """List the adapters in crucible.toml or pyproject.toml of this directory. Keys are not shown."""
    tables = to_plain(list(read_adapters(Path.cwd()).values()))
    # A key may also be written out in a parameter or a URL of another adapter.
    adapters = redact(tables, hider(secrets_in(tables, os.environ)))
    rows = [
        (adapter["name"], adapter["backend"], _settings(adapter["options"]), _settings(adapter["parameters"]))
        for adapter in adapters
    ]
    lines = aligned_lines([HEADERS, *rows])
    nothing = ["no adapters here: add a table [adapters.NAME] to crucible.toml"]
    print_result(lines if rows else nothing, adapters, as_json=as_json)


def _settings(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in table.items())


METRIC_HEADS = ("name", "kind", "better", "range", "meaning")


@click.command("metrics")
@json_option
def list_metrics(as_json: bool) -> None:
    """List the built-in metrics; --json includes their versions.

    Metrics of a conftest.py are known only to its tests.
    """
    metrics: list[Metric] = [load_object(metric) for _, metric in sorted(named_metrics().items())]
    rows = [
        (metric.name, metric.facts.kind or "", metric.facts.direction, _range(metric), _sentence(metric))
        for metric in metrics
    ]
    lines = headed_lines(METRIC_HEADS, rows)
    print_result(lines, [_metric_facts(metric) for metric in metrics], as_json=as_json)


def _metric_facts(metric: Metric) -> dict[str, Any]:
    ends = {name: getattr(metric.facts, name) for name in ("low", "high")}
    return {
        "name": metric.name,
        **pick(metric.facts, "kind direction"),
        **{name: end if math.isfinite(end) else None for name, end in ends.items()},
        **pick(metric.facts, "reach version"),
        "says": _sentence(metric),
    }


def _range(metric: Metric) -> str:
    low, high = metric.facts.low, metric.facts.high
    if not math.isfinite(low):
        return ""
    return f"{low:g} to {high:g}" if math.isfinite(high) else f"from {low:g}"


def _sentence(metric: Metric) -> str:
    # The first line of the docstring describes the metric, so both stay equal.
    return (metric.function.__doc__ or "").strip().splitlines()[0]


DATASET_HEADS = ("name", "samples", "licence", "here", "task")
# Characters of a field of the first sample: enough to recognise it; a field can be a whole document.
A_LOOK = 400


@click.command("list")
@click.argument("name", default="")
@field_option
@output_option
@json_option
def list_datasets(name: str, fields: Sequence[str], output: Path | None, as_json: bool) -> None:
    """List the built-in datasets; with NAME, describe the content of one.

    NAME is a dataset's name (mmlu:SUBJECT for a part) or the path of a file. -o writes a profile of all fields: types,
    missing values, outliers, associations and quality. --json includes checksums.
    """
    if not name:
        if output is not None:
            raise SpecError(
                f"-o {output} writes the profile of one dataset: name it, as in crucible data list gsm8k -o {output}"
            )
        print_result(catalogue_lines(), catalogue(), as_json=as_json)
        return
    samples, dataset = load_dataset(name, fields)
    if output is not None:
        # Imported here: a description alone needs no report.
        from pytest_crucible.report.markdown import check_format, write_view

        check_format(output)
        write_view(program_plugins().hook.pytest_crucible_profile(name=name, samples=samples), output)
        click.echo(f"wrote {output}")
        return
    described = describe(samples)
    origin = None if dataset is None else dataset.origin()
    first = to_plain(pick(described.first, "id input expected group metadata variants"))
    document = {**to_plain(described), "first": first, "name": name, "origin": to_plain(origin)}
    print_result(lines_of(name, described, origin), document, as_json=as_json)


def catalogue() -> list[dict[str, Any]]:
    """Return the facts about every dataset that are known without reading it."""
    return [_facts(dataset) for name in named_datasets() if (dataset := find_release(name)) is not None]


def catalogue_lines() -> list[str]:
    """Return a line for each dataset, and the folder of their files."""
    rows = [(row["name"], f"{row['samples']:,}", row["licence"], row["here"], row["says"]) for row in catalogue()]
    return [
        *headed_lines(DATASET_HEADS, rows, right=(1,)),
        "",
        f"files are in {os.environ.get('CRUCIBLE_DATA') or cache_folder()}",
    ]


_OFFICIAL = {True: "yes", False: "no: a file differs from the published one", None: "not known"}


def lines_of(name: str, described: Description, origin: Origin | None) -> list[str]:
    """Return the description of one dataset, line by line."""
    rows = [("name", name), ("samples", f"{described.samples:,}")]
    if origin is not None:
        rows += [("licence", origin.licence), ("source", origin.source), ("official", _OFFICIAL[origin.official])]
        rows += [("file", f"{file} sha256:{sha256}") for file, sha256 in origin.files.items()]
    rows += [
        ("columns", ", ".join(described.columns)),
        ("groups", "none" if described.groups is None else f"{described.groups:,}"),
        ("duplicate inputs", f"{described.duplicates:,}"),
    ]
    rows += [
        (name, ", ".join(f"{value}: {n:,}" for value, n in counts.items())) for name, counts in described.values.items()
    ]
    first = {**to_plain(described.first), **described.first.metadata}
    fields = [(f"first {key}", _look(first[key])) for key in described.columns]
    return aligned_lines([*rows, *fields])


def _facts(dataset: Release) -> dict[str, Any]:
    places = {file.name: file.local_path() for file in dataset.files}
    here = sum(path is not None for path in places.values())
    return {
        **pick(dataset, "name says samples licence source"),
        "here": "yes" if here == len(places) else f"{here} of {len(places)} files" if here else "no",
        "files": [
            {
                "name": file.name,
                "url": file.url,
                "sha256": file.sha256,
                "sha256_of": "archive" if file.members else "file",
                "path": None if (path := places[file.name]) is None else str(path),
            }
            for file in dataset.files
        ],
    }


def _look(value: Any) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr), A_LOOK)
