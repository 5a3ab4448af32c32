"""Stages: reads `crucible_stages`, gives each look its share of alpha, and cuts samples in look order."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

from pytest_crucible.features.stages.records import Stage
from pytest_crucible.records.errors import SpecError, suggest

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
    given = f'crucible_stages = "{text}"'
    stages = tuple(_parse_stage(part.strip(), given) for part in text.split(","))
    names = [stage.name for stage in stages]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"{given}: two stages are named {twice!r}: give each a name of its own")
    # A stage without a number has all samples.
    sizes = [math.inf if stage.samples is None else stage.samples for stage in stages]
    if any(larger <= smaller for smaller, larger in itertools.pairwise([0, *sizes])):
        raise SpecError(f'{given}: stages must grow, for example "{EXAMPLE}"')
    if stages[-1].samples is not None:
        raise SpecError(
            f"{given}: the last stage has all samples: write it without a number, for example "
            f'"{", ".join(part.strip() for part in text.split(","))}, full"'
        )
    return stages


def _parse_stage(part: str, given: str) -> Stage:
    match = _STAGE.fullmatch(part)
    if match is None:
        raise SpecError(f'{given}: {part!r} is not a stage: write a name and a number of samples, such as "{EXAMPLE}"')
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
