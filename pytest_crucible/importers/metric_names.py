"""Names of metrics, spelled so that quality targets can use them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pytest_crucible.importers.results import Results
from pytest_crucible.records.errors import SpecError

Value = TypeVar("Value")
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_OTHER = re.compile(r"[^\w.\-]+")


def with_our_names(results: Results) -> Results:
    """Return the results with other characters in metric names replaced by `_`. Raises SpecError if two names become one."""
    names = {name for row in results.rows for name in (*row.scores, *row.lost)} | set(results.facts)
    ours = {name: spelling(name) for name in names}
    if all(name == facts_of_metric for name, facts_of_metric in ours.items()):
        return results
    _check(ours)
    rows = [
        replace(row, scores=_rename_keys(row.scores, ours), lost=_rename_keys(row.lost, ours)) for row in results.rows
    ]
    facts = {ours[name]: replace(facts_of_metric, name=ours[name]) for name, facts_of_metric in results.facts.items()}
    return replace(results, rows=rows, facts=facts)


def spelling(name: str) -> str:
    """Return the name as a target can write it.

    >>> spelling("Correctness [GEval]"), spelling("2nd try")
    ('Correctness_GEval', '_2nd_try')
    """
    if _NAME.fullmatch(name):
        return name
    name_part = _OTHER.sub("_", name).strip("_")
    return name_part if _NAME.fullmatch(name_part) else f"_{name_part}"


def _check(ours: Mapping[str, str]) -> None:
    twice = [our_name for our_name, count in Counter(ours.values()).items() if count > 1]
    if twice:
        same = sorted(name for name, our_name in ours.items() if our_name == twice[0])
        raise SpecError(
            f"metrics {' and '.join(map(repr, same))} both become {twice[0]!r}: rename one of them in the file"
        )


def _rename_keys(of: Mapping[str, Value], ours: Mapping[str, str]) -> dict[str, Value]:
    return {ours[name]: value for name, value in of.items()}
