"""`crucible guards`: the guards that this directory configures; tries one on a text; trains a linear one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from pytest_crucible.adapters.guards import Guards
from pytest_crucible.commands.guard_obfuscations import detect_obfuscated, obfuscation_lines
from pytest_crucible.commands.guard_training import train_guard
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.guards.settings import GuardSettings
from pytest_crucible.records.detections import Detection
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.printable import aligned_lines, printable

HEADERS = ("name", "kind", "threshold", "action", "on error")


@click.command("list", short_help="The guards that this directory configures.")
@json_option
def list_all(as_json: bool) -> None:
    """List the guards in crucible.toml or pyproject.toml of this directory."""
    _list(Guards(Path.cwd()), as_json=as_json)


@click.command("try", short_help="What a guard decides on a text.")
@click.argument("name")
@click.option("--text", required=True, metavar="TEXT", help="Text to try the guard on.")
@click.option("--obfuscations", is_flag=True, help="Try the guard on each obfuscation of the text, too.")
@json_option
def try_one(name: str, text: str, obfuscations: bool, as_json: bool) -> None:
    """Show what the guard NAME decides on a text, and which parts of it it has found."""
    guard = Guards(Path.cwd()).open(name)
    if obfuscations:
        detections = asyncio.run(detect_obfuscated(guard, text))
        print_result(map(printable, obfuscation_lines(detections)), detections, as_json=as_json)
    else:
        detection = asyncio.run(guard.detect(text))
        print_result(map(printable, detection_lines(name, text, detection)), detection, as_json=as_json)


@click.command("train", short_help='Fit a guard of kind "linear" to labelled texts.')
@click.argument("file")
@click.option("-o", "--output", required=True, metavar="PATH", help="The file to write, a safetensors file.")
@click.option("--field", "fields", multiple=True, metavar="OURS=THEIRS", help="A field of the file, input=text.")
@json_option
def train(file: str, output: str, fields: Sequence[str], as_json: bool) -> None:
    """Fit a guard of kind "linear" to the labelled texts of FILE, whose fields are input and expected."""
    lines, document = train_guard(file, output, fields)
    print_result(lines, document, as_json=as_json)


def _list(guards: Guards, *, as_json: bool) -> None:
    """Print the guards. Raises SpecError, after the others are listed, for those whose tables cannot be used."""
    settings, problems = _read_settings(guards)
    rows = [_row(guard) for guard in settings]
    lines = aligned_lines([HEADERS, *rows])
    nothing = ["no guards here: add a table [guards.NAME] to crucible.toml"]
    broken = [{"name": name, "error": problem} for name, problem in problems.items()]
    if settings or as_json or not problems:
        print_result(lines if rows else nothing, [*to_plain(settings), *broken], as_json=as_json)
    if problems:
        raise SpecError("\n".join(problems.values()))


def _read_settings(guards: Guards) -> tuple[list[GuardSettings], dict[str, str]]:
    """Return the settings of the usable guards, and the errors of the others."""
    settings, problems = [], {}
    for name in guards.names:
        try:
            settings.append(guards.settings(name))
        except SpecError as error:
            problems[name] = str(error)
    return settings, problems


def _row(guard: GuardSettings) -> tuple[str, ...]:
    return (
        guard.name,
        f"any of {', '.join(guard.guards)}" if guard.guards else guard.kind,
        "" if guard.guards else f"{guard.threshold:g}",
        guard.action,
        guard.on_error,
    )


def detection_lines(name: str, text: str, detection: Detection) -> list[str]:
    """Return a guard's verdict on a text: flagged or not, score and category, and the spans that it found."""
    verdict = "flagged" if detection.flagged else "not flagged"
    category = f", {detection.category}" if detection.category else ""
    span_lines = [f"  {span.type} {span.start}-{span.end}: {text[span.start : span.end]}" for span in detection.spans]
    return [f"{name}: {verdict}, score {detection.score:.3g}{category}", *span_lines]
