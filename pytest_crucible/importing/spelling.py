"""Names of metrics as targets can name them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.results import Results

Value = TypeVar("Value")
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_OTHER = re.compile(r"[^\w.\-]+")


def spelled(results: Results) -> Results:
    """Whatever is no letter, digit, `_`, `.` or `-` is an underscore. Raises SpecError where two names become one."""
    names = {name for row in results.rows for name in (*row.scores, *row.lost)} | set(results.facts)
    ours = {name: spelling(name) for name in names}
    if all(name == one for name, one in ours.items()):
        return results
    _check(ours)
    rows = [replace(row, scores=_renamed(row.scores, ours), lost=_renamed(row.lost, ours)) for row in results.rows]
    facts = {ours[name]: replace(one, name=ours[name]) for name, one in results.facts.items()}
    return replace(results, rows=rows, facts=facts)


def spelling(name: str) -> str:
    """As a target can write it.

    >>> spelling("Correctness [GEval]"), spelling("2nd try")
    ('Correctness_GEval', '_2nd_try')
    """
    if _NAME.fullmatch(name):
        return name
    found = _OTHER.sub("_", name).strip("_")
    return found if _NAME.fullmatch(found) else f"_{found}"


def _check(ours: Mapping[str, str]) -> None:
    twice = [one for one, count in Counter(ours.values()).items() if count > 1]
    if twice:
        same = sorted(name for name, one in ours.items() if one == twice[0])
        raise SpecError(
            f"metrics {' and '.join(map(repr, same))} both become {twice[0]!r}: rename one of them in the file"
        )


def _renamed(of: Mapping[str, Value], ours: Mapping[str, str]) -> dict[str, Value]:
    return {ours[name]: value for name, value in of.items()}
