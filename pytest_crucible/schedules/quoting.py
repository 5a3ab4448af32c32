"""Writes a command so that a shell, cron, systemd and GitHub each run it unchanged, with any characters."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from pytest_crucible.records.errors import SpecError

LONGEST_CRON_LINE = 990
"""Characters. Debian's cron cuts a command at 1,000 without a word (MAX_COMMAND of cron.h)."""
_PLAIN = re.compile(r"[\w@+:,./-]+", re.ASCII)
_PLAIN_ARGUMENT = re.compile(r"[\w@+:,./=-]+", re.ASCII)
_KEYWORDS = frozenset(
    [
        "case",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "fi",
        "for",
        "function",
        "if",
        "in",
        "select",
        "then",
        "time",
        "until",
        "while",
    ]
)
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
    written = _without_percent(line) if "\n" not in line else _through_printf(line)
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


def _through_printf(line: str) -> str:
    escaped = line.replace("\\", "\\\\").replace("\n", "\\n").replace("%", "%%")
    # The quotes come last: _without_percent needs every percent sign within them.
    return f'eval "$(printf {_without_percent(shlex.quote(escaped))})"'


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
