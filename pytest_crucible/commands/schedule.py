"""`crucible models schedule`: write the file that makes GitHub, systemd or cron run a command."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import click

from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.process_secrets import has_key
from pytest_crucible.schedules.files import KINDS, Schedule, next_times, parse_times, programs_path, render_schedule


@click.command("schedule", short_help="Write the file that makes GitHub, systemd or cron run a command.")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--at", required=True, metavar="[DAYS] HH:MM", help='When, for example "mon-fri 02:30" or "02:30".')
@click.option("-o", "output", required=True, metavar="FILE", help="The file to write.")
@json_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def write_schedule(kind: str, at: str, output: str, as_json: bool, command: tuple[str, ...]) -> None:
    """Write FILE, which makes GitHub, systemd or cron run COMMAND, and print the next three times.

    Write -- before COMMAND. It runs in this folder, exactly as it is written. Times are in UTC for GitHub, otherwise in the
    machine's time zone. Nothing is installed, and nothing keeps running.
    """
    if any(map(has_key, command)):
        raise SpecError(
            "COMMAND has a key in it, which the file would keep: put the key into the environment of what runs it, and leave it out"
        )
    times, file = parse_times(at), Path(output)
    programs = programs_path(sys.executable, command)
    schedule = Schedule(times=times, command=command, folder=Path.cwd(), programs=programs)
    files = render_schedule(kind, schedule, file)
    for path, text in files.items():
        _write(path, text)
    zone = datetime.UTC if kind == "github" else None
    upcoming = next_times(times, datetime.datetime.now(datetime.UTC), zone)
    lines = [f"wrote {path}" for path in files]
    lines += [f"next: {moment:%a %Y-%m-%d %H:%M %Z}" for moment in upcoming]
    document = {"files": [str(path) for path in files], "next": [moment.isoformat() for moment in upcoming]}
    print_result(lines, document, as_json=as_json)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Arguments that are not UTF-8 are surrogates here, and the same bytes in the file.
        path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")
    except OSError as error:
        raise SpecError(f"{path} cannot be written: {error.strerror or error}") from error
