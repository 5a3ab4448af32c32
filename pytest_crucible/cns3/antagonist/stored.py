"""Findings as a text: what is stored of each reply, so that a report can say which rules fired and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_crucible.cns3.antagonist.findings import Finding

METRIC = "antagonist_findings"
"""The metric of texts that has them."""
GOLD = "gold_flags"
"""Where a sample's metadata has the names of what a person found in its (recorded) reply."""


@dataclass(frozen=True, slots=True)
class Flagged:
    """What the rules found in one reply, and what a person did."""

    findings: tuple[Finding, ...]
    gold: frozenset[str] | None = None
    """None where nobody has looked."""


def to_text(findings: Sequence[Finding], metadata: Mapping[str, Any]) -> str:
    """JSON. Raises ValueError for gold flags that are no list of names.

    >>> to_text([], {"gold_flags": ["CITATION_INVALID"]})
    '{"findings": [], "gold": ["CITATION_INVALID"]}'
    """
    gold = metadata.get(GOLD)
    if gold is not None and not (isinstance(gold, list | tuple) and all(isinstance(one, str) for one in gold)):
        raise ValueError(f"{GOLD} is {gold!r}: write a list of names of findings, empty where there are none")
    return json.dumps({"findings": [asdict(one) for one in findings], "gold": None if gold is None else sorted(gold)})


def from_text(text: str) -> Flagged:
    """What `to_text` was given."""
    plain = json.loads(text)
    gold = None if plain["gold"] is None else frozenset(plain["gold"])
    return Flagged(tuple(Finding(**one) for one in plain["findings"]), gold)
