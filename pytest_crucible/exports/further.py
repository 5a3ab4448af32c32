"""Exports of features that are not tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_crucible.quick_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class FurtherExport:
    """Files of stored runs that are not tables. A row that a feature adds to `further_exports`."""

    names: tuple[str, ...]
    """What `--what` may be for them."""
    noun: str
    """What such a file is: a training set."""
    tasks: tuple[str, ...]
    """The names that an error suggests."""
    options: tuple[Callable[[Any], Any], ...]
    """Further options of the command, in the order of the help. Their defaults are None."""
    write: Callable[..., tuple[list[str], Mapping[str, Any]]]
    """Takes runs, store, output, name and the options that were given; returns the lines to print, and a JSON document."""
