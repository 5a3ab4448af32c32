"""Options and lines that the commands of the model registry share."""

from __future__ import annotations

import datetime
import getpass
from pathlib import Path

import click

from pytest_crucible.adapters.context import REGISTRY, files_folder
from pytest_crucible.records.model_gates import GateEntry
from pytest_crucible.records.registry import LogEntry
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.runs.pytest_configuration import find_configuration
from pytest_crucible.stats.number_format import quantity

why_option = click.option("--why", required=True, metavar="TEXT", help="The reason, for the log.")


def project_root() -> Path:
    """Return pytest's root directory for this folder: configuration and weights are below it."""
    return find_configuration(Path.cwd())[0]


def registry_folder(store: str) -> Path:
    """Return the folder with the copied weights of a run store."""
    return files_folder(project_root(), store) / REGISTRY


def project_alpha() -> float:
    """Return crucible_alpha of pytest's configuration."""
    return float(find_configuration(Path.cwd())[1].get("crucible_alpha") or DEFAULT_ALPHA)


def utc_time() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def user_name() -> str:
    """Return the user of the operating system, for the log; empty where it has none."""
    try:
        return getpass.getuser()
    # A container may run as a number without a name.
    except (KeyError, OSError):
        return ""


def gate_line(entry: GateEntry) -> str:
    """Return a gate in a line: `gate 1 of claims: 2 experiments of tests/evals`."""
    suite = " ".join(entry.gate.suite) or "all that pytest collects"
    return f"{entry.name}: {quantity(len(entry.gate.experiments), 'experiment')} of {suite}"


def is_withdrawal(entry: LogEntry) -> bool:
    """Return whether an entry keeps a version, which a promotion had retired, from being restored by a rollback."""
    return entry.action == "retire" and entry.former == "retired"


def entry_line(entry: LogEntry | GateEntry) -> str:
    """Return what happened to a version, `claims@4 is in production, was a draft`, or which gate was frozen."""
    if isinstance(entry, GateEntry):
        return gate_line(entry)
    if is_withdrawal(entry):
        return f"{entry.version} was retired by a promotion; from now on no rollback restores it"
    place = "in production" if entry.state == "production" else entry.state
    former = (
        "" if entry.former is None else f", was {'in production' if entry.former == 'production' else entry.former}"
    )
    return f"{entry.version} is {place}{former}"
