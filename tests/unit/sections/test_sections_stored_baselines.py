"""A stored baseline that has served many sessions is suggested for a fresh run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import arm, inputs_of

from pytest_crucible.sections.inputs import NoStoredDetails
from pytest_crucible.sections.replies import MANY, RISK, STORED_BASELINES


class Served(NoStoredDetails):
    def __init__(self, sessions: int) -> None:
        self.sessions = sessions

    def sessions_with_same_replies(self, baseline: int) -> int:
        return self.sessions


@pytest.mark.parametrize(("sessions", "suggested"), [(MANY - 1, False), (MANY, True)])
def test_a_baseline_that_has_served_many_sessions_is_suggested_for_a_fresh_run(sessions, suggested):
    baselines = STORED_BASELINES.compute(inputs_of(arm(a=[True]), arm(a=[True]), stored=Served(sessions)))
    notes = [note.text for note in STORED_BASELINES.view(baselines or (), ()).notes]

    sentence = f"v1: 10 sessions have compared with the same stored replies of it; {RISK}: --crucible-fresh calls its model again"
    assert notes == ([sentence] if suggested else [])


def test_a_baseline_of_recorded_replies_is_never_suggested():
    inputs = inputs_of(arm(a=[True]), arm(a=[True]), stored=Served(100))
    candidate, baseline = inputs.plan.arms
    recorded = replace(inputs, plan=replace(inputs.plan, arms=(candidate, replace(baseline, recorded=True))))

    assert STORED_BASELINES.compute(recorded) is None
