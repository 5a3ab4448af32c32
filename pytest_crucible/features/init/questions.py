"""Questions of `crucible init` on a terminal, where an option is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pytest_crucible.backends.openai.settings import DEFAULT_KEY
from pytest_crucible.report.printable import aligned_lines, printable

# Characters of a field's first value: enough to recognise it.
A_LOOK = 60
NONE = "-"
"""The answer for no field."""


def is_interactive() -> bool:
    """Return whether somebody can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_source() -> tuple[str, Path | None]:
    """Return the URL of a server, or a results file; empty and None for the embedded model."""
    answer = _ask("Server URL (https://HOST/v1) or results file of another harness (Enter: the model in this package)")
    if answer.startswith(("http://", "https://")):
        return answer, None
    return "", Path(answer) if answer else None


def ask_key() -> str:
    """Return the environment variable with the server's key; empty for the default one, or none."""
    if DEFAULT_KEY in os.environ:
        return ""
    return _ask("Environment variable with its key (Enter: it needs none)")


def ask_model() -> str:
    """Return the name of the server's model; empty for its only one."""
    return _ask("Model (Enter: the server's only one)")


def ask_data() -> str:
    """Return a data file; empty for the example."""
    return _ask("Data file: .jsonl, .json, .csv, .tsv or .parquet (Enter: example questions)")


def ask_fields(row: Mapping[str, Any], guessed: Mapping[str, str]) -> dict[str, str]:
    """Return the file's names of input and expected answer, beside those of id and group that were guessed."""
    answers = dict(guessed)
    for field, question in (
        ("input", "Field of the input"),
        ("expected", f"Field of the expected answer ({NONE}: none)"),
    ):
        choices = click.Choice([*map(str, row), NONE])
        answers[field] = click.prompt(question, default=guessed.get(field, NONE), type=choices, show_choices=False)
    return {field: name for field, name in answers.items() if name != NONE}


def field_lines(row: Mapping[str, Any]) -> list[str]:
    """Return the fields of a file with the first value of each."""
    return [f"  {line}" for line in aligned_lines([("field", "first value"), *_values(row)])]


def _values(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (printable(str(name), A_LOOK), printable(str(value).replace("\n", " "), A_LOOK)) for name, value in row.items()
    ]


def _ask(question: str) -> str:
    answer: str = click.prompt(question, default="", show_default=False)
    return answer.strip()
