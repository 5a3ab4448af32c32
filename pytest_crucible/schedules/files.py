"""Renders the files of a schedule: a workflow for GitHub, a timer and a service for systemd, or a line for cron."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import SpecError
from pytest_crucible.schedules.quoting import cron_command, github_text, shell_line, systemd_word
from pytest_crucible.schedules.times import DAYS, Times

HERE = Path(__file__).parent
KINDS = ("github", "systemd", "cron")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A command, and when and where it runs."""

    times: Times
    command: Sequence[str]
    folder: Path
    """The folder in which it was written, and in which the command runs."""
    programs: str = ""
    """The folders with this environment's programs, as in PATH, which schedulers do not have in their path."""


def render_schedule(kind: str, schedule: Schedule, file: Path) -> Mapping[Path, str]:
    """Return the texts of the files to write. Raises SpecError for a command or a name that the scheduler cannot take."""
    if any("\0" in word for word in schedule.command):
        raise SpecError("the command has a null character, which no program can be given")
    return {"github": _github, "systemd": _systemd, "cron": _cron}[kind](schedule, file)


def _github(schedule: Schedule, file: Path) -> dict[Path, str]:
    root = next((path for path in (schedule.folder, *schedule.folder.parents) if (path / ".git").exists()), None)
    inside = "" if root is None or root == schedule.folder else schedule.folder.relative_to(root).as_posix()
    text = _render(
        "github.yml.j2",
        schedule.times,
        name=github_text(file.stem),
        script=github_text(shell_line(schedule.command)),
        folder=inside and github_text(inside),
        store_folder=github_text(f"{inside}/.crucible" if inside else ".crucible"),
        requirements=((root or schedule.folder) / "requirements.txt").is_file(),
    )
    return {file: text}


def _systemd(schedule: Schedule, file: Path) -> dict[Path, str]:
    if file.suffix != ".timer":
        raise SpecError(
            f"-o {file}: systemd needs a timer and a service: write -o {file.stem}.timer, and both are written"
        )
    line = shell_line(schedule.command, folder=str(schedule.folder), programs=schedule.programs)
    facts = {"name": file.stem, "script": systemd_word(line)}
    return {
        file: _render("systemd.timer.j2", schedule.times, **facts),
        file.with_suffix(".service"): _render("systemd.service.j2", schedule.times, **facts),
    }


def _cron(schedule: Schedule, file: Path) -> dict[Path, str]:
    line = shell_line(schedule.command, folder=str(schedule.folder), programs=schedule.programs)
    return {file: _render("cron.j2", schedule.times, script=cron_command(line))}


def _render(template: str, times: Times, **facts: Any) -> str:
    # Imported here: the `crucible` program loads it for schedules and HTML only.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Nothing is escaped as HTML: each text was written for its file by `quoting`.
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=False, undefined=StrictUndefined, keep_trailing_newline=True
    )
    whole = len(times.days) == len(DAYS)
    cron_days = "*" if whole else ",".join(str((day + 1) % 7) for day in times.days)
    systemd_days = "" if whole else ",".join(DAYS[day].capitalize() for day in times.days) + " "
    return environment.get_template(template).render(
        hour=times.hour, minute=times.minute, cron_days=cron_days, systemd_days=systemd_days, **facts
    )


def programs_path(executable: str, command: Sequence[str]) -> str:
    """Return the folders to put before PATH: that of an interpreter, and that of the command's program if it is elsewhere."""
    # Whatever the first word is, such as `env`, `nice`, `sh -c` or a script: the command that it starts may be one of these.
    beside, program = Path(executable).parent, command[0]
    path = None if "/" in program or (beside / program).is_file() else shutil.which(program)
    return ":".join(dict.fromkeys([str(beside), *([] if path is None else [str(Path(path).parent)])]))
