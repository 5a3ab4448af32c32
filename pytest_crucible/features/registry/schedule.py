"""Renders the files of a schedule: a workflow for GitHub, a timer and a service for systemd, or a line for cron."""

from __future__ import annotations

import datetime
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.secret_settings import has_key

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = "daily"
EXAMPLE = '"mon-fri 02:30"'
_TIME = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})")


@dataclass(frozen=True, slots=True)
class Times:
    """A time of day on some days of the week."""

    days: tuple[int, ...]
    """Monday is 0."""
    hour: int
    minute: int


def next_times(
    times: Times, moment: datetime.datetime, zone: datetime.tzinfo | None = None, *, number: int = 3
) -> list[datetime.datetime]:
    """Return the next times after a moment, in a time zone, by default this machine's.

    >>> start = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)
    >>> [f"{at:%a %H:%M}" for at in next_times(parse_times("mon-fri 02:30"), start, start.tzinfo)]
    ['Mon 02:30', 'Tue 02:30', 'Wed 02:30']
    """
    day, moments = moment.astimezone(zone).date(), list[datetime.datetime]()
    while len(moments) < number:
        at = datetime.datetime.combine(day, datetime.time(times.hour, times.minute), zone).astimezone(zone)
        if day.weekday() in times.days and at > moment:
            moments.append(at)
        day += datetime.timedelta(days=1)
    return moments


def parse_times(text: str) -> Times:
    """Return the times of `[DAYS] HH:MM`. DAYS are days and ranges with commas, or daily. Raises SpecError."""
    *days, time = text.lower().split() or [""]
    match = _TIME.fullmatch(time)
    if match is None or len(days) > 1:
        raise _invalid(text, f"{time!r} is not a time" if match is None else "days have no spaces between them")
    hour, minute = int(match["hour"]), int(match["minute"])
    if hour > 23 or minute > 59:
        raise _invalid(text, f"{time!r} is not a time of day")
    return Times(_parse_days(days[0] if days else EVERY_DAY, text), hour, minute)


def _parse_days(words: str, text: str) -> tuple[int, ...]:
    if words == EVERY_DAY:
        return tuple(range(len(DAYS)))
    return tuple(sorted({day for word in words.split(",") for day in _parse_range(word, text)}))


def _parse_range(word: str, text: str) -> Iterator[int]:
    names = word.split("-")
    for name in names:
        if name not in DAYS:
            raise _invalid(text, f"unknown day {name!r}")
    if len(names) > 2:
        raise _invalid(text, f"{word!r} is not a range of two days")
    first, last = DAYS.index(names[0]), DAYS.index(names[-1])
    for offset in range((last - first) % len(DAYS) + 1):
        yield (first + offset) % len(DAYS)


def _invalid(text: str, reason: str) -> SpecError:
    return SpecError(f'--at "{text}": {reason}: write for example {EXAMPLE}')


LONGEST_CRON_LINE = 990
"""Characters. Debian's cron cuts a command at 1,000 without a word (MAX_COMMAND of cron.h)."""
_PLAIN = re.compile(r"[\w@+:,./-]+", re.ASCII)
_PLAIN_ARGUMENT = re.compile(r"[\w@+:,./=-]+", re.ASCII)
_KEYWORDS = {
    *("case", "do", "done", "elif", "else", "esac", "fi", "for"),
    *("function", "if", "in", "select", "then", "time", "until", "while"),
}
_NOT_PRINTABLE_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def shell_line(command: Sequence[str], *, folder: str = "", programs: str = "") -> str:
    """Return the command for a POSIX shell: in a folder, with the folder of its programs first in the path."""
    parts = [] if not folder else [f"cd {_quote(folder)} &&"]
    if programs:
        parts.append(f'export PATH={_quote(programs)}:"$PATH" &&')
    return " ".join([*parts, *map(_quote, command[:1]), *(_quote(word, plain=_PLAIN_ARGUMENT) for word in command[1:])])


def _quote(word: str, *, plain: re.Pattern[str] = _PLAIN) -> str:
    # shlex leaves a percent sign bare, which cron would read, and a first word such as A=B or `if`.
    quoted = shlex.quote(word)
    return f"'{word}'" if quoted == word and (word in _KEYWORDS or not plain.fullmatch(word)) else quoted


def cron_command(line: str) -> str:
    r"""Return a shell's line as the command of a crontab. Raises SpecError for one that cron would cut.

    To cron a percent sign is the end of the command, and a backslash before it makes it an ordinary one; a newline cannot be
    written, so that a line with one is written as a format of `printf`.

    >>> print(cron_command("echo '50%'"))
    echo '50'\%''
    """
    written = _without_percent(line)
    if "\n" in line:
        escaped = line.replace("\\", "\\\\").replace("\n", "\\n").replace("%", "%%")
        # The quotes come last: _without_percent needs every percent sign within them.
        written = f'eval "$(printf {_without_percent(shlex.quote(escaped))})"'
    if len(written) > LONGEST_CRON_LINE:
        raise SpecError(
            f"the command has {len(written):,} characters, and cron cuts lines at 1,000: put the command into a script, "
            "and schedule that"
        )
    return written


def _without_percent(line: str) -> str:
    # _quote puts each word with a percent sign into single quotes. Outside of them `\%` is a percent sign to every cron:
    # one that removes the backslash leaves it bare, and to one that does not the shell removes it.
    return line.replace("%", "'\\%'")


def systemd_word(text: str) -> str:
    r"""Return a text as one word of ExecStart= (systemd.service(5), "Command lines").

    >>> print(systemd_word('100 % of "$HOME"'))
    "100 %% of \"$$HOME\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\x{ord(match[0]):02x}", escaped) + '"'


def github_text(text: str) -> str:
    """Return a text as a YAML string in a workflow, where `${{` would begin an expression.

    >>> print(github_text('echo "${{ x }}"'))
    "echo \\"${{ '${{' }} x }}\\""
    """
    written = json.dumps(text.replace("${{", "${{ '${{' }}"), ensure_ascii=False)
    return _NOT_PRINTABLE_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


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


@click.command("schedule")
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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Arguments that are not UTF-8 are surrogates here, and the same bytes in the file.
            path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")
        except OSError as error:
            raise SpecError(f"{path} cannot be written: {error.strerror or error}") from error
    zone = datetime.UTC if kind == "github" else None
    upcoming = next_times(times, datetime.datetime.now(datetime.UTC), zone)
    lines = [f"wrote {path}" for path in files]
    lines += [f"next: {moment:%a %Y-%m-%d %H:%M %Z}" for moment in upcoming]
    document = {"files": [str(path) for path in files], "next": [moment.isoformat() for moment in upcoming]}
    print_result(lines, document, as_json=as_json)
