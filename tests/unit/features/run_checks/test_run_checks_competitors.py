"""The members of a sweep are checked on the samples that choose among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arm_columns import arm_columns
from plan_builders import plan_of

from pytest_crucible.features.run_checks.competitors import check_competitors
from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding
from pytest_crucible.records.calls import CallColumns, ReplyColumns
from pytest_crucible.records.plan import HelperReplies
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs


class StoredMembers(NoStoredDetails):
    """The calls and replies of the members of a sweep."""

    def __init__(self, members: Sequence[ArmColumns]) -> None:
        self._members = members

    def calls(self, arm: int) -> CallColumns:
        return self._members[arm].calls

    def reply_columns(self, arm: int) -> ReplyColumns:
        return self._members[arm].replies


def check(*members: ArmColumns) -> list[Finding]:
    """Return the findings on a candidate with a baseline, that was chosen among these members."""
    plan = replace(plan_of("a", "b"), arms=tuple(member.arm for member in members))
    replies = HelperReplies(plan=plan, answers=(), groups=[None] * 3, sample_ids=(), known_kinds={})
    section = SectionInputs(
        plan=plan_of("winner", "v1"),
        answers=(),
        groups=(),
        finished=True,
        alpha=0.05,
        facts={},
        scores={},
        clusters=None,
        stored=NoStoredDetails(),
    )
    arms = (arm_columns("winner", ["a"]), arm_columns("v1", ["b"]))
    return list(check_competitors(CheckInputs(section=section, arms=arms), [(replies, StoredMembers(members))]))


def test_a_parameter_that_the_test_passes_to_one_member_alone_is_named():
    hot = arm_columns("m2", "ab", own=[{"temperature": 1}] * 2)
    (finding,) = check(arm_columns("m1", "ab", own=[{"temperature": 0}] * 2), hot, hot)
    assert finding.cells == ("where it was chosen", "")
    assert finding.differs == "differs: temperature"
    assert finding.problem.startswith(
        "of the members that competed: the test sent different temperature (temperature: m1 0"
    )


def test_of_members_behind_one_name_the_first_pair_is_named():
    members = [
        arm_columns(f"m{k}", "abc", model="any", settings={"model": f"m{k}"}, own=[{"temperature": 0}] * 3)
        for k in range(4)
    ]
    (finding,) = check(*members)
    assert finding.problem.startswith(
        "of the members that competed: the server names one model for m0 and m1, any, although"
    )
    assert finding.problem.endswith("3 of 3 replies are equal (and 2 more)")


def test_members_that_are_as_declared_have_no_line():
    members = [arm_columns(f"m{k}", f"ab{k}", model=f"m{k}", settings={"model": f"m{k}"}) for k in range(3)]
    assert not check(*members)
