"""Options that exclude stages or the early stop, and the stages that options name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_crucible.features.stages.definition import parse_stages, stage_number
from pytest_crucible.records.errors import SpecError


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
