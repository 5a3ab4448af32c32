"""Checks of settings that a sweep excludes. Each raises SpecError, with the remedy."""

from __future__ import annotations

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.sweeps.records import Sweep
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import Settings


def check_whole_experiments(family: OpenedArm, settings: Settings, *, has_joined_tests: bool) -> None:
    """Raise SpecError if single samples are sent: the winner is chosen by all samples of an experiment."""
    if not has_joined_tests and settings.sample is None:
        return
    sender = "a joined test sends" if has_joined_tests else "--crucible-sample sends"
    raise SpecError(
        f"{sender} single samples, and {family.arm.name!r} is a family, of which an experiment chooses the winner: name a "
        f"member, such as --crucible-adapter='{family.competitors[0].arm.name}'"
    )


def check_confirmed(sweep: Sweep, settings: Settings) -> None:
    """Raise SpecError for looks at samples that have also chosen the winner: their verdicts would come too early."""
    looks = "--crucible-stop" if settings.option("stop") else "crucible_stages" if settings.option("stages") else ""
    if looks and not sweep.confirm:
        raise SpecError(
            f"{looks} needs samples that have not chosen, and the sweep of {sweep.family!r} has confirm = 0: leave "
            "it out, or set confirm = 0.5"
        )
