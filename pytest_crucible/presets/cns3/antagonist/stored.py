"""Findings as stored text, from which a report shows the rules that held and their evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_crucible.presets.cns3.antagonist.findings import Finding

# The text metric that stores findings.
METRIC = "antagonist_findings"
# The key in a sample's metadata with the names that a person found in its (recorded) reply.
GOLD = "gold_flags"


@dataclass(frozen=True, slots=True)
class Flagged:
    """Findings of the rules in one reply, and those of a person."""

    findings: tuple[Finding, ...]
    gold: frozenset[str] | None = None
    """None if no person has checked the reply."""


def to_text(findings: Sequence[Finding], metadata: Mapping[str, Any]) -> str:
    """Return findings as JSON. Raises ValueError for gold flags that are not a list of names.

    >>> to_text([], {"gold_flags": ["CITATION_INVALID"]})
    '{"findings": [], "gold": ["CITATION_INVALID"]}'
    """
    gold = metadata.get(GOLD)
    if gold is not None and not (isinstance(gold, list | tuple) and all(isinstance(finding, str) for finding in gold)):
        raise ValueError(f"{GOLD} is {gold!r}; expected a list of findings' names, empty if there are none")
    return json.dumps(
        {"findings": [asdict(finding) for finding in findings], "gold": None if gold is None else sorted(gold)}
    )


def from_text(text: str) -> Flagged:
    """Return the findings that `to_text` wrote."""
    plain = json.loads(text)
    gold = None if plain["gold"] is None else frozenset(plain["gold"])
    return Flagged(tuple(Finding(**finding) for finding in plain["findings"]), gold)
