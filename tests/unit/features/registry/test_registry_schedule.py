"""Scheduled commands, really run: by the shell as cron calls it, as systemd splits a line, and as GitHub reads a workflow."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.features.registry.schedule import (
    Schedule,
    next_times,
    parse_times,
    programs_path,
    render_schedule,
    shell_line,
)
from pytest_crucible.records.errors import SpecError

SHOW = "import json, os, sys; print(json.dumps([os.getcwd(), *sys.argv[1:]]))"
WORDS = (
    "plain",
    "",
    " two  words ",
    "50%",
    r"a\%b\\%",
    "%%",
    "$HOME",
    "${{ secrets.X }}",
    "`id`",
    "'\"",
    "\\",
    "two\nlines\n",
    "tab\there",
    "A=B",
    ";",
    "&&",
    "!",
    "~",
    "*",
    "#",
    "é€😀",
    "{{ x }}{% y %}",
    "\u2028",
)


def render(kind: str, words: tuple[str, ...], folder: Path, *, at: str = "mon-fri 02:30", file: str = "") -> list[str]:
    command = (sys.executable, "-c", SHOW, *words)
    schedule = Schedule(times=parse_times(at), command=command, folder=folder)
    return list(render_schedule(kind, schedule, Path(file or ("x.timer" if kind == "systemd" else "x.yml"))).values())


def run(line: str) -> list[str]:
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
    displayed: list[str] = json.loads(done.stdout)
    return displayed


def cron_reads(line: str) -> str:
    """Return the command that cron gives to the shell: `child_process` in do_command.c of Vixie cron and cronie."""
    text, escaped = "", False
    for character in line:
        if escaped:
            text = text[:-1] + character if character == "%" else text + character
            escaped = False
        elif character == "%":
            raise AssertionError("cron ends the command here")
        else:
            text += character
            escaped = character == "\\"
    return text


def cron_command(text: str) -> str:
    *_, line, last = text.split("\n")
    assert last == ""
    return line.split(" ", 5)[5]


def systemd_reads(text: str) -> list[str]:
    """Return the words of ExecStart=, as systemd.service(5) has its quoting, and its specifiers and variables."""
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    return [_systemd_unescape(quoted) if quoted else bare for quoted, bare in words]


def _systemd_unescape(word: str) -> str:
    assert not re.search(r"(?<!\$)\$(?:\$\$)*(?!\$)", word)
    assert not re.search(r"(?<!%)%(?:%%)*(?!%)", word)
    plain = re.sub(r'\\(x[0-9a-f]{2}|["\\])', lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" else m[1], word)
    return plain.replace("%%", "%").replace("$$", "$")


def test_a_command_runs_as_it_was_written(tmp_path):
    folder = tmp_path / "a % b's $folder"
    folder.mkdir()
    expected = [str(folder), *WORDS]

    cron = cron_command(render("cron", WORDS, folder)[0])
    # A cron that leaves percent signs alone leaves the backslash too.
    assert run(cron_reads(cron)) == run(cron) == expected
    shell, option, line = systemd_reads(render("systemd", WORDS, folder)[1])
    assert (shell, option) == ("/bin/sh", "-c")
    assert run(line) == expected
    yaml = pytest.importorskip("yaml")
    for words in (WORDS, ("two\nlines", "50%")):
        step = yaml.safe_load(render("github", words, folder)[0])["jobs"]["run"]["steps"][-1]
        assert run(step["run"].replace("${{ '${{' }}", "${{"))[1:] == list(words)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), max_size=4).map(tuple))
@settings(max_examples=20, deadline=None)
def test_any_command_runs_as_it_was_written(words):
    try:
        cron = cron_command(render("cron", words, Path("/"))[0])
    except SpecError:
        cron = ""
    for line in filter(None, (cron_reads(cron), systemd_reads(render("systemd", words, Path("/"))[1])[2])):
        assert run(line) == ["/", *words]


def test_a_first_word_is_a_program_and_not_shell_syntax(tmp_path):
    for program in ("if", "A=B", "50%", "!"):
        path = tmp_path / program
        path.write_text(f"#!{sys.executable}\n{SHOW}\n")
        path.chmod(0o755)
        schedule = Schedule(
            times=parse_times("daily 2:30"), command=(program, "x"), folder=tmp_path, programs=str(tmp_path)
        )
        (text,) = render_schedule("cron", schedule, Path("crontab")).values()
        assert run(cron_reads(cron_command(text))) == [str(tmp_path), "x"]


def test_programs_are_found_where_a_scheduler_does_not_look():
    """Whatever word comes first: those of this environment, then those of the folder in which the program was found."""
    here, system = str(Path(sys.executable).parent), str(Path(shutil.which("env") or "").parent)

    assert programs_path(sys.executable, ("pytest",)) == here
    assert programs_path(sys.executable, ("./run", "x")) == here
    assert programs_path(sys.executable, ("no-such-program",)) == here
    for command in (("env", "A=1", "pytest"), ("sh", "-c", "pytest -q"), ("nice", "pytest")):
        assert programs_path(sys.executable, command).split(":") == [here, system]


def test_a_program_that_another_one_starts_is_found(tmp_path):
    program = tmp_path / "own" / "measure"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "measured $A"\n')
    program.chmod(0o755)
    command = ("env", "A=1", "measure")

    line = shell_line(command, folder=str(tmp_path), programs=programs_path(str(program.parent / "python"), command))

    done = subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=True
    )
    assert done.stdout == "measured 1\n"


def test_days_are_those_of_each_scheduler(tmp_path):
    assert "\n30 2 * * 1,2,3,4,5 cd " in render("cron", (), tmp_path)[0]
    assert "\n5 23 * * 1,6,0 " in render("cron", (), tmp_path, at="sat-mon 23:05")[0]
    assert 'cron: "30 2 * * *"' in render("github", (), tmp_path, at="02:30")[0]
    assert "OnCalendar=Mon,Tue,Wed,Thu,Fri *-*-* 02:30:00" in render("systemd", (), tmp_path)[0]
    assert "OnCalendar=*-*-* 02:30:00" in render("systemd", (), tmp_path, at="daily 02:30")[0]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path):
    for name, text in zip(("x.timer", "x.service"), render("systemd", WORDS, tmp_path), strict=True):
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "x.timer"), str(tmp_path / "x.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "/x." in line or line.startswith("x.")] == []


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_actionlint_accepts_the_workflow(tmp_path):
    file = tmp_path / "x.yml"
    file.write_text(render("github", WORDS, tmp_path)[0])
    done = subprocess.run(["actionlint", "-shellcheck=", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("mon-fry 02:30", '--at "mon-fry 02:30": unknown day \'fry\': write for example "mon-fri 02:30"'),
        ("mon 24:00", "'24:00' is not a time of day"),
        ("mon", "'mon' is not a time"),
        ("", "'' is not a time"),
        ("mon tue 02:30", "days have no spaces between them"),
        ("mon-tue-wed 02:30", "'mon-tue-wed' is not a range of two days"),
        ("mon, 02:30", "unknown day ''"),
    ],
)
def test_invalid_times_are_refused(at, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        parse_times(at)


def test_next_times_follow_the_clock_of_the_zone():
    berlin = ZoneInfo("Europe/Berlin")
    start = datetime.datetime(2026, 10, 24, 12, tzinfo=datetime.UTC)
    times = next_times(parse_times("06:00"), start, berlin)
    assert [moment.isoformat() for moment in times] == [
        "2026-10-25T06:00:00+01:00",
        "2026-10-26T06:00:00+01:00",
        "2026-10-27T06:00:00+01:00",
    ]
    assert next_times(parse_times("sun 12:00"), start, datetime.UTC, number=1)[0].day == 25


def test_what_a_scheduler_cannot_take_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"write -o nightly\.timer"):
        render("systemd", (), tmp_path, file="nightly.service")
    with pytest.raises(SpecError, match=r"cron cuts lines at 1,000"):
        render("cron", ("x" * 1000,), tmp_path)
    with pytest.raises(SpecError, match="null character"):
        render("github", ("\0",), tmp_path)
