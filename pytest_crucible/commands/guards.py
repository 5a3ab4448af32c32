"""`crucible guards`: the guards that this directory configures; tries one on a text; trains a linear one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from tabulate import tabulate

from pytest_crucible.adapters.guards import Guards
from pytest_crucible.commands.guard_obfuscations import detect_obfuscated, obfuscation_lines
from pytest_crucible.commands.guard_training import EXAMPLE, train_guard
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.guards.guard import RESERVED, GuardSettings
from pytest_crucible.records.detections import Detection
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.printable import printable

HEADERS = ("name", "kind", "threshold", "action", "on error")
(TRAIN,) = RESERVED
_OF_A_TEXT = ("--text", "--obfuscations")


@click.command("guards", short_help="The guards that this directory configures; try or train one.")
@click.argument("name", default="")
@click.argument("file", default="")
@click.option("--text", metavar="TEXT", help="Text to try the guard on.")
@click.option("--obfuscations", is_flag=True, help="Try the guard on each obfuscation of the text, too.")
@click.option("-o", "--output", metavar="PATH", help="With train: the file to write, a safetensors file.")
@click.option(
    "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="With train: a field of the file, input=text."
)
@json_option
def command(
    name: str,
    file: str,
    text: str | None,
    obfuscations: bool,
    output: str | None,
    fields: Sequence[str],
    as_json: bool,
) -> None:
    """List the guards in crucible.toml or pyproject.toml of this directory.

    NAME --text TEXT tries one, with --obfuscations also on the text in other writings. `train FILE -o PATH` fits a guard of kind
    "linear" to labelled texts: fields input and expected.
    """
    given = {"--text": text is not None, "--obfuscations": obfuscations, "-o": output, "--field": fields}
    _refuse_unused(name, {repr(file): file, **given})
    if name == TRAIN:
        lines, document = train_guard(file, output, fields)
        print_result(lines, document, as_json=as_json)
        return
    guards = Guards(Path.cwd())
    if not name:
        _list(guards, as_json=as_json)
    elif text is None:
        raise SpecError(f"guard {name!r} has no text to read: add --text TEXT")
    elif obfuscations:
        detections = asyncio.run(detect_obfuscated(guards.open(name), text))
        print_result(map(printable, obfuscation_lines(detections)), detections, as_json=as_json)
    else:
        detection = asyncio.run(guards.open(name).detect(text))
        print_result(map(printable, detection_lines(name, text, detection)), detection, as_json=as_json)


def _refuse_unused(name: str, given: Mapping[str, object]) -> None:
    """Raise SpecError for an argument that this use of the command would ignore."""
    if name == TRAIN:
        unused, usage = list(_OF_A_TEXT), EXAMPLE
    else:
        unused, usage = [key for key in given if key not in _OF_A_TEXT or not name], "crucible guards NAME --text TEXT"
    ignored = next((key for key in unused if given[key]), None)
    if ignored is not None:
        raise SpecError(f"{ignored} cannot be used here: write {usage}")


def _list(guards: Guards, *, as_json: bool) -> None:
    """Print the guards. Raises SpecError, after the others are listed, for those whose tables cannot be used."""
    settings, problems = _read_settings(guards)
    rows = [_row(guard) for guard in settings]
    lines = tabulate([HEADERS, *rows], tablefmt="plain", disable_numparse=True).splitlines()
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
