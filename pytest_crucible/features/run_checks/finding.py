"""Findings of the checks of a run, their inputs, and how severe each check is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Arm, Plan
from pytest_crucible.records.calls import CallColumns, ReplyColumns, TextKey
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.plan import PlanValue
from pytest_crucible.records.usage import JUDGE
from pytest_crucible.sections.inputs import SectionInputs

Severity = Literal["note", "warn", "fail"]
"""fail: the session fails, and no verdict of the experiment is decided; warn: shown before the verdicts; note: with -v."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of what was measured."""

    check: str
    """The check that found it, by which its severity is set."""
    cells: tuple[str, ...]
    """What is so in each arm, in the order of the arms; empty where nothing is known."""
    differs: str = ""
    """What is remarkable, in a word or two."""
    problem: str = ""
    """A sentence, if it is not as it should be."""
    severity: Severity | None = None
    """The severity of this very finding; None for that of its check."""
    document: Any = None
    """Its numbers in the JSON report."""
    remarks: Mapping[str, str] | None = None
    """Sentences that explain verdicts, by the verdict's subject."""


@dataclass(frozen=True, kw_only=True)
class ArmColumns:
    """One arm with all of its stored calls and replies to the original samples."""

    arm: Arm
    calls: CallColumns
    replies: ReplyColumns

    @cached_property
    def own_calls(self) -> list[int]:
        """The rows of the calls of the test, without those of judges and of an ensemble's members."""
        return [row for row, member in enumerate(self.calls.members) if not member]

    @cached_property
    def members(self) -> tuple[ArmColumns, ...]:
        """The members of an ensemble as arms, with the calls of each."""
        names = dict.fromkeys(name for name in self.calls.members if name and not name.startswith(JUDGE))
        return tuple(self._member(name) for name in names) if self.arm.members else ()

    def _member(self, name: str) -> ArmColumns:
        rows = [row for row, member in enumerate(self.calls.members) if member == name]
        columns = {each.name: [getattr(self.calls, each.name)[row] for row in rows] for each in fields(CallColumns)}
        settings = self.arm.member_settings.get(name, {})
        arm = replace(self.arm, name=name, members=(), member_settings={}, settings=settings, parameters={})
        return ArmColumns(arm=arm, calls=CallColumns(**columns | {"members": [""] * len(rows)}), replies=ReplyColumns())

    def judge_calls(self) -> Iterator[int]:
        """Yield the rows of the calls of judges."""
        return (row for row, member in enumerate(self.calls.members) if member.startswith(JUDGE))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInputs:
    """The inputs of the checks of one experiment."""

    section: SectionInputs
    arms: tuple[ArmColumns, ...]
    """In the order of the plan: the candidate first."""

    @property
    def plan(self) -> Plan:
        return self.section.plan


def text_of(key: TextKey, long_texts: Mapping[bytes, str]) -> str:
    """Return the text of a call or a reply: `long_texts` has those that keys stand for."""
    return long_texts.get(key, "") if isinstance(key, bytes) else key or ""


SEVERITIES: Mapping[str, Severity] = {
    "sent": "warn",
    "answered by": "warn",
    "equal replies": "fail",
    "repeats that differ": "warn",
    "refreshed replies": "warn",
    "judges": "warn",
    "ends": "warn",
    "prompts": "warn",
    "reasoning": "warn",
    "training prompts": "warn",
    "renderer": "fail",
    "sampler drift": "warn",
}
"""The checks in the order of their lines, and how severe a problem of each is unless the project says otherwise."""
OWN_SEVERITIES = PlanValue[Mapping[str, str]]("run_checks", Mapping[str, str], {})
"""What the project has set, by the name of the check."""


def read_severities(text: str) -> dict[str, str]:
    """Return the severities in a setting. Raises SpecError.

    >>> read_severities("equal replies: warn, sent: fail")
    {'equal replies': 'warn', 'sent': 'fail'}
    """
    severities = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, severity = (word.strip() for word in part.partition(":"))
        if name not in SEVERITIES:
            hint = suggest(name, SEVERITIES, otherwise=f"the checks are {', '.join(SEVERITIES)}")
            raise SpecError(f"crucible_checks_of_runs names the check {name!r}: {hint}")
        if severity not in get_args(Severity):
            raise SpecError(
                f"crucible_checks_of_runs has {part!r}; expected '{name}: fail', '{name}: warn' or '{name}: note'"
            )
        severities[name] = severity
    return severities


def share_text(count: int, n: int) -> str:
    """Return the exact interval of a share in words (Clopper and Pearson 1934).

    >>> share_text(12, 240)
    '2.6 to 8.6 % at 95 %'
    """
    # The module is loaded by sessions that check nothing, too.
    from pytest_crucible.stats.proportions.one import clopper_pearson_interval

    interval = clopper_pearson_interval(count, n)
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f} % at 95 %"
