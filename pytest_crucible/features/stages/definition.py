"""Stages: reads `crucible_stages`, gives each look its share of alpha, and cuts samples in look order."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.plan import PlanValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage: the experiments' samples until its number, in look order."""

    name: str
    samples: int | None = None
    """Number of samples, those of earlier stages included; None for all of them."""


StageEnd = Literal["", "miss", "out of reach", "until"]
"""Why a session ends after or within a stage; empty if it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDecision:
    """The decision at the end of a stage, or within it: whether the session goes on."""

    stage: int
    """From 0, among the stages of the configuration."""
    end: StageEnd = ""
    nodeid: str = ""
    """The experiment whose claim ends the session."""
    subject: str = ""
    """The target or the comparison that ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """The progress of one experiment of a session with stages."""

    decision: StageDecision
    """The decision that ended the session; without an `end` it reached the last stage."""
    lengths: tuple[int, ...]
    """The number of samples of each stage, those of earlier stages included."""
    replies: tuple[int, ...]
    """The number of replies, of all arms, to the samples that each stage added."""
    samples: int
    """The samples that the results rest on."""
    alpha: float
    """The error rate of all claims of the session together at this stage."""
    ended: str = ""
    """Why the session ended before the last stage, in the words of verdicts; empty if it did not."""
    out_of_reach: tuple[str, ...] = ()
    """The texts of the targets that could not be met any more."""


STAGES = PlanValue[tuple[Stage, ...]]("stages", tuple[Stage, ...], ())
"""The stages of the session; empty if all samples are sent at once."""
FIRST_STAGE = PlanValue[int]("first_stage", int, 0)
"""The stage at which the experiment begins."""


EXAMPLE = "smoke: 20, dev: 100, full"
# Equal shares of three stages would leave the last one a power of .66 where a run without stages has .80. This leaves .77.
SHARE_BEFORE_LAST = 0.2
"""The share of alpha that all looks before the last stage spend together."""
_STAGE = re.compile(r"(?P<name>[A-Za-z_][\w-]*)\s*(:\s*(?P<samples>\d+))?")


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Return the stages of a text such as "smoke: 20, dev: 100, full". Raises SpecError.

    >>> [(stage.name, stage.samples) for stage in parse_stages("smoke: 20, full")]
    [('smoke', 20), ('full', None)]
    """
    setting = f'crucible_stages = "{text}"'
    stages = tuple(_parse_stage(part.strip(), setting) for part in text.split(","))
    names = [stage.name for stage in stages]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"{setting}: two stages are named {twice!r}: give each a name of its own")
    # A stage without a number has all samples.
    sizes = [math.inf if stage.samples is None else stage.samples for stage in stages]
    if any(larger <= smaller for smaller, larger in itertools.pairwise([0, *sizes])):
        raise SpecError(f'{setting}: stages must grow, for example "{EXAMPLE}"')
    if stages[-1].samples is not None:
        raise SpecError(
            f"{setting}: the last stage has all samples: write it without a number, for example "
            f'"{", ".join(part.strip() for part in text.split(","))}, full"'
        )
    return stages


def _parse_stage(part: str, setting: str) -> Stage:
    match = _STAGE.fullmatch(part)
    if match is None:
        raise SpecError(
            f'{setting}: {part!r} is not a stage: write a name and a number of samples, such as "{EXAMPLE}"'
        )
    return Stage(name=match["name"], samples=None if match["samples"] is None else int(match["samples"]))


def stage_number(stages: Sequence[Stage], name: str, where: str) -> int:
    """Return the place of a stage; `where` names the option or the marker that asks for it. Raises SpecError."""
    names = [stage.name for stage in stages]
    if not names:
        raise SpecError(
            f'{where} needs stages: set crucible_stages = "{EXAMPLE}" in pytest\'s configuration, or leave it out'
        )
    if name not in names:
        hint = suggest(str(name), names, always=f"the stages are {', '.join(names)}")
        raise SpecError(f"{where}: crucible_stages has no stage {name!r}: {hint}")
    return names.index(name)


def stage_alpha(alpha: float, stages: int, number: int) -> float:
    """Return the error rate of the claims of one stage. Those of all stages add up to alpha (Bonferroni over looks).

    >>> [round(stage_alpha(0.05, 3, number), 4) for number in range(3)]
    [0.005, 0.005, 0.04]
    """
    if stages == 1:
        return alpha
    return alpha * (1 - SHARE_BEFORE_LAST) if number == stages - 1 else alpha * SHARE_BEFORE_LAST / (stages - 1)


def stage_length(order: Sequence[int], groups: Sequence[str | None], samples: int | None) -> int:
    """Return how many samples of the look order a stage has. The group that it ends in is whole.

    >>> stage_length([0, 1, 2, 3], ["a", "b", "b", "c"], 2)
    3
    """
    end = len(order) if samples is None else min(samples, len(order))
    while 0 < end < len(order) and groups[order[end]] is not None and groups[order[end]] == groups[order[end - 1]]:
        end += 1
    return end


def option_conflicts(values: Mapping[str, Any]) -> tuple[tuple[bool, str], ...]:
    """Return each conflict: whether the values of the options have it, and the sentence that reports it."""
    return (
        (
            values["stop"] and values.get("rounds", 1) > 1,
            "--crucible-stop ends an experiment sample by sample, and --crucible-rounds repeats it as a whole: give one of them",
        ),
        (
            values["stop"] and values["memory"] == "pool",
            '--crucible-stop looks at one session, and crucible_memory = "pool" at all: give one of them',
        ),
        *_stage_conflicts(values),
    )


def _stage_conflicts(values: Mapping[str, Any]) -> tuple[tuple[bool, str], ...]:
    if not values["stages"] and values["until"] is None:
        return ()
    problem = _stage_problem(values["stages"] or None, values["until"])
    return (
        (bool(problem), problem),
        (values["stop"], "--crucible-stop cannot be combined with crucible_stages: remove one of them"),
        (
            values.get("rounds", 1) > 1,
            "crucible_stages ends the session between stages, and --crucible-rounds repeats experiments as a whole: "
            "give one of them",
        ),
        (
            values["memory"] == "pool",
            'crucible_stages looks at one session, and crucible_memory = "pool" at all: give one of them',
        ),
    )


def _stage_problem(stages: str | None, until: str | None) -> str:
    """Return the error in the stages, or in the one to end after; empty if there is none."""
    try:
        parsed = () if stages is None else parse_stages(stages)
        if until is not None:
            stage_number(parsed, until, f"--crucible-until={until}")
    except SpecError as error:
        return str(error)
    return ""
