"""`crucible guards`: the guards that this directory configures; tries one on a text; trains a linear one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click
from tabulate import tabulate

from pytest_crucible.adapters.guards import Guards
from pytest_crucible.commands.dataset_argument import parse_field
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.datasets import load_file
from pytest_crucible.guards.settings import RESERVED
from pytest_crucible.metrics.guards import read_expected
from pytest_crucible.records import Sample
from pytest_crucible.records.detections import Detection
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.labels import label_number
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.suggestions import closest_name
from pytest_crucible.report.printable import printable

HEADERS = ("name", "kind", "threshold", "action", "on error")
(TRAIN,) = RESERVED
# Common names for the field of labels.
LABEL_NAMES = ("label", "labels", "target", "class", "attack", "injection")


@click.command("guards", short_help="The guards that this directory configures; try or train one.")
@click.argument("name", default="")
@click.argument("file", default="")
@click.option("--text", metavar="TEXT", help="Text to try the guard on.")
@click.option("-o", "--output", metavar="PATH", help="With train: the file to write, a safetensors file.")
@click.option(
    "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="With train: a field of the file, input=text."
)
@json_option
def command(name: str, file: str, text: str | None, output: str | None, fields: Sequence[str], as_json: bool) -> None:
    """List the guards in crucible.toml or pyproject.toml of this directory.

    NAME --text TEXT tries one. `train FILE -o PATH` fits a guard of kind "linear" to labelled texts: fields input and expected.
    """
    if name == TRAIN:
        _train(file, output, fields)
        return
    guards = Guards(Path.cwd())
    if not name:
        _list(guards, as_json=as_json)
    elif text is None:
        raise SpecError(f"crucible guards {name}: nothing to try it on: add --text TEXT")
    else:
        detection = asyncio.run(guards.open(name).detect(text))
        print_result(map(printable, detection_lines(name, text, detection)), detection, as_json=as_json)


def _list(guards: Guards, *, as_json: bool) -> None:
    settings = [guards.settings(name) for name in guards.names]
    rows = [
        (
            guard.name,
            f"any of {', '.join(guard.guards)}" if guard.guards else guard.kind,
            "" if guard.guards else f"{guard.threshold:g}",
            guard.action,
            guard.on_error,
        )
        for guard in settings
    ]
    lines = tabulate([HEADERS, *rows], tablefmt="plain", disable_numparse=True).splitlines()
    nothing = ["no guards here: add a table [guards.NAME] to crucible.toml"]
    print_result(lines if rows else nothing, to_plain(settings), as_json=as_json)


def detection_lines(name: str, text: str, detection: Detection) -> list[str]:
    """Return what a guard says of a text: flagged or not, its score and category, and what it found where."""
    verdict = "flagged" if detection.flagged else "not flagged"
    category = f", {detection.category}" if detection.category else ""
    span_lines = [f"  {span.type} {span.start}-{span.end}: {text[span.start : span.end]}" for span in detection.spans]
    return [f"{name}: {verdict}, score {detection.score:.3g}{category}", *span_lines]


def _train(file: str, output: str | None, fields: Sequence[str]) -> None:
    """Fit a linear guard to a file of labelled texts. Raises SpecError for labels that cannot be read."""
    if not file or not output:
        raise SpecError(
            "crucible guards train needs a file of labelled texts and a file to write: "
            "crucible guards train texts.csv -o linear.safetensors"
        )
    from pytest_crucible.guards.linear import fit_linear, save_linear

    renamed = dict(map(parse_field, fields))
    samples = load_file(Path(file), fields=renamed, has_option=True)
    labels = [label_number(read_expected(sample.expected)) for sample in samples]
    unread = next((sample for sample, label in zip(samples, labels, strict=True) if label is None), None)
    if unread is not None:
        raise SpecError(_describe_unread(unread, renamed.get("expected", "expected")))
    try:
        model = fit_linear([str(sample.input) for sample in samples], [label == 1 for label in labels])
        save_linear(model, Path(output))
    except (OSError, ValueError) as error:
        raise SpecError(f"crucible guards train {file}: {error}") from None
    attacks = int(sum(label or 0 for label in labels))
    click.echo(f"{output}: fitted to {attacks:,} attacks and {len(labels) - attacks:,} benign texts")
    click.echo(f'use it in crucible.toml: kind = "linear", path = "{output}"')


def _describe_unread(sample: Sample, field: str) -> str:
    """Return what is wrong with a label, and what to do."""
    if sample.expected is None and sample.metadata:
        names = ", ".join(map(repr, sample.metadata))
        likely = closest_name(field, sample.metadata) or next(filter(sample.metadata.__contains__, LABEL_NAMES), "...")
        return (
            f"sample {sample.id} has no label in {field!r} (its other fields: {names}): "
            f"name the field with --field expected={likely}"
        )
    return f'label {sample.expected!r:.60} of sample {sample.id}: expected 1 or 0, true or false, "attack" or "benign"'
