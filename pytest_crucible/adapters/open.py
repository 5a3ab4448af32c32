"""The arms of a session: the candidate and the baselines that it is compared with, each with its backend."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.adapters.opener import Opener
from pytest_crucible.adapters.preparations import explain_missing, find_pending
from pytest_crucible.plan.arms import check_arms
from pytest_crucible.records import Arm, Role
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import Settings

NAMELESS = "candidate"
"""The arm of a session without an adapter: tests that call a model of their own need none."""


def open_arms(opener: Opener, settings: Settings) -> tuple[OpenedArm, ...]:
    """Open the candidate, then the baselines; some may have to be prepared yet.

    Raises SpecError, which names every adapter that is unknown or missing. `check_distinct` comes after it.
    """
    if settings.adapter is None:
        if settings.compare:
            raise SpecError(
                f"--compare={settings.compare[0]} has no candidate to compare with: name one with --crucible-adapter=NAME"
            )
        return (OpenedArm(Arm(name=NAMELESS, role="candidate", adapter="", identity=""), None),)
    roles: list[tuple[str, Role]] = [(settings.adapter, "candidate")]
    roles += [(name, "baseline") for name in settings.compare]
    opened, problems = _open_all(opener, roles)
    # A missing preparation is one problem among the others; if the session prepares, it does so after all checks.
    problems += explain_missing(opened, settings.option)
    if problems:
        # Two arms may have one problem, such as an unknown member of two ensembles.
        raise SpecError("\n".join(dict.fromkeys(problems)))
    return tuple(opened)


def check_distinct(opened: Sequence[OpenedArm], typed: Mapping[str, str]) -> None:
    """Raise SpecError for an arm that would be compared with itself, also as a member of a family."""
    candidate, *baselines = opened
    for competitor in candidate.competitors or (candidate,):
        check_arms([competitor.arm, *(arm.arm for arm in baselines)], typed)


def _open_all(opener: Opener, roles: Sequence[tuple[str, Role]]) -> tuple[list[OpenedArm], list[str]]:
    """Collect the problems of all arms, so that a user can mend them together."""
    opened, problems = [], []
    for name, role in roles:
        try:
            opened.append(opener.open(name, role))
        except SpecError as error:
            problems.append(str(error))
    return opened, problems


def prepare_arms(opener: Opener, opened: Sequence[OpenedArm], names: Container[str]) -> tuple[OpenedArm, ...]:
    """Prepare the named arms that cannot answer yet; under --collect-only, show that they would be.

    Raises SpecError when a preparation fails, or when it makes the same adapter as another arm's.
    """
    all_again = opener.prepare(find_pending([arm for arm in opened if arm.arm.name in names]))
    prepared = tuple(
        opener.open(arm.arm.name, arm.arm.role) if all_again or find_pending([arm]) else arm for arm in opened
    )
    check_distinct(prepared, opener.typed_names)
    return prepared
