"""Kinds of events that a session observes anyway: what each is computed from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from plan_builders import plan_of

from pytest_crucible.features.provenance.kinds import DECISIONS, KINDS, STAGES
from pytest_crucible.features.provenance.observed import load_observed
from pytest_crucible.features.provenance.search import find_decisions
from pytest_crucible.records import Ancestor, Arm, Event, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.store.runs import RunStore

STEP = {"loss": 0.5, "gradient_norm": 2.0, "tokens": 40}


@pytest.fixture
def store(tmp_path) -> Iterator[RunStore]:
    with closing(RunStore(str(tmp_path / "runs.db"))) as opened:
        plan = plan_of()
        ancestry = (Ancestor(weights="bbb", parent="aaa"), Ancestor(weights="aaa"))
        arms = (Arm(name="v2", role="candidate", adapter="v2", identity="i", ancestry=ancestry),)
        opened.begin_run(
            "run", started="2026-01-01T00:00:00+00:00", seed=0, alpha=0.05, correction="holm", environment={}
        )
        key = opened.add_experiment("run", replace(plan, arms=arms), [Sample(id="q", input=1)])
        arm = opened.add_arm(key, 0, "v2", "")
        with closing(opened.writer()) as writer:
            unit = Unit(0, 0, 0, 0)
            writer.add(Outcome(unit, reply=Reply(text="4")), arm, [Observation(unit, "exact", True)], [])
            for event in events(plan.nodeid):
                writer.tell("run", event)
        opened.end_run("run", finished="2026-01-01T00:01:00+00:00", status="finished")
        yield opened


def events(nodeid: str) -> Iterator[Event]:
    yield Event(name="train.step", at=12.0, seconds=2.0, arm="v2", facts={**STEP, "step": 1})
    policy = {"step": 2, "loss": 0.25, "gradient_norm": None, "tokens": 50, "samples": 8, "advantage": 0.125}
    yield Event(name="train.step", at=14.0, seconds=2.0, arm="v2", facts=policy)
    yield Event(
        name="checkpoint", at=15.0, seconds=5.0, arm="v2", facts={"path": "adapters/v2", "steps": 2, "planned_steps": 9}
    )
    yield Event(name="checkpoint", at=16.0, seconds=5.0, arm="v3", facts={"path": "adapters/v3", "steps": 2})
    for at, error in ((20.0, "429"), (21.0, None), (22.0, None)):
        facts = {} if error is None else {"error": error}
        yield Event(name="request.stop", at=at, seconds=0.5, experiment=nodeid, arm="v2", sample="q", facts=facts)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("training_started", [("v2", "", "v2", 10.0)]),
        ("training_completed", [("v2", "", "2 steps", 15.0), ("v3", "", "2 steps", 16.0)]),
        ("batch_processed", [("v2", "", "step 1: 40 tokens", 12.0), ("v2", "", "step 2: 50 tokens", 14.0)]),
        ("loss_computed", [("v2", "", "step 1: 0.5", 12.0), ("v2", "", "step 2: 0.25", 14.0)]),
        ("gradient_computed", [("v2", "", "step 1: 2", 12.0)]),
        ("metric_recorded", [("v2", "q", "exact = 1.0", None)]),
        ("checkpoint_saved", [("v2", "", "adapters/v2", 15.0), ("v3", "", "adapters/v3", 16.0)]),
        ("early_stopped", [("v2", "", "after 2 of 9 steps", 15.0)]),
        ("checkpoint_loaded", [("v2", "", "aaa", None)]),
        ("model_loaded", [("v2", "", "v2", 20.5)]),
        ("inference_completed", [("v2", "q", "answered after 0.5 s", 21.0), ("v2", "q", "answered after 0.5 s", 22.0)]),
        ("reward_received", [("v2", "", "step 2: mean advantage 0.125", 14.0)]),
        ("policy_updated", [("v2", "", "step 2", 14.0)]),
        ("experience_sampled", [("v2", "", "step 2: 8 samples", 14.0)]),
        ("epoch_started", []),
        ("epoch_completed", []),
    ],
)
def test_each_kind_is_computed_from_what_is_stored(store, kind, expected):
    chains = load_observed(store, "run", [kind])

    observed = [(chain.arm, chain.sample, event.decision, event.at) for chain in chains for event in chain.decisions]
    assert observed == expected
    assert bool(KINDS[kind].recorded_by) == bool(expected)
    assert len(find_decisions(store, "run", f"kind = {kind}")) == len(expected)


def test_arms_are_deployed_from_the_start_of_a_run_to_its_end(store):
    (chain,) = (
        each for each in load_observed(store, "run", ["deployment_started", "deployment_completed"]) if each.arm == "v2"
    )

    started, completed = chain.decisions
    assert (started.kind, completed.kind, completed.at - started.at) == (
        "deployment_started",
        "deployment_completed",
        60.0,
    )


def test_there_are_26_kinds_in_seven_groups():
    groups = [kind.group for kind in KINDS.values()]

    assert len(KINDS) == 26
    assert {group: groups.count(group) for group in groups} == {
        "reasoning": 6, "training": 5, "metrics": 3, "checkpoint": 3, "deployment": 4, "reinforcement": 3, "stage": 2
    }  # fmt: skip
    assert set(DECISIONS) - {"decision"} == {name for name, kind in KINDS.items() if kind.group == "reasoning"}
    assert set(STAGES) == {name for name, kind in KINDS.items() if kind.group == "stage"}
