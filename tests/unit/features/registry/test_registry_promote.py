"""Promotion: what each state requires, what each refusal says, and that only stored answers are proof."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from registry_builders import NOW, change_run, changes, measure, register, request, states

from pytest_crucible.features.registry.evidence import load_proof
from pytest_crucible.features.registry.promote import promote_run
from pytest_crucible.features.registry.rules import RegistrySettings, Situation, shortcomings
from pytest_crucible.features.registry.store import load_registry, load_version
from pytest_crucible.records import Contrast
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore


@pytest.fixture
def production(store: RunStore) -> RunStore:
    """v1 is claims@1 and in production, v2 is claims@2."""
    register(store, "v1", "v2")
    promote_run(store, request(measure(store, "first", v1=0.85)))
    return store


def refusal(store: RunStore, *arguments: Any, **facts: Any) -> str:
    with pytest.raises(SpecError) as raised:
        promote_run(store, request(*arguments, **facts))
    return str(raised.value)


def test_states_may_be_skipped_and_a_promotion_retires_the_version_before(production):
    run = measure(production, "second", v2=0.9, v1=0.85)

    assert changes(promote_run(production, request(run, "staged"))) == [("claims@2", "staged")]
    entries = promote_run(production, request(run))
    assert changes(entries) == [("claims@1", "retired"), ("claims@2", "production")]
    assert entries[-1].evidence["production"] == "claims@1"
    assert [verdict["proven"] for verdict in entries[-1].evidence["verdicts"]] == [True, True]
    assert refusal(production, run, "candidate").startswith("claims@2 is in production already: ")


def test_an_adapter_that_is_not_registered_has_no_version_to_promote(production):
    run = measure(production, "other", v3=0.9, v1=0.85)

    assert refusal(production, run) == "v3 is not registered: run crucible models register v3 --model claims"


def test_a_comparison_is_with_the_version_that_is_in_production_now(production):
    """Also when production has changed since the run, and when the run compared with nothing."""
    register(production, "v3")
    early = measure(production, "early", v2=0.9, v1=0.85)
    promote_run(production, request(measure(production, "second", v3=0.9, v1=0.85)))
    since = "claims@3 is in production since 2026-11-24: run it again with --compare=production"

    assert refusal(production, early) == f"run early compared with v1, but {since}"
    assert refusal(production, measure(production, "alone", v2=0.9)) == f"run alone compared with nothing, but {since}"
    assert changes(promote_run(production, request(early, "candidate"))) == [("claims@2", "candidate")]


def test_an_estimate_is_no_comparison(production):
    estimates = (Contrast(metric="exact", baseline="v1", alternative="estimate"),)
    run = measure(production, "estimated", v2=0.9, v1=0.85, contrasts=estimates)

    assert "run estimated compared with v1, but claims@1 is in production" in refusal(production, run, "staged")


PRODUCTION = {
    "uncommitted changes": (
        {"git": {"dirty": True}},
        "run second was made with uncommitted changes: commit, and run it again",
    ),
    "no repository": ({"git": None}, "run second was made outside a repository: commit, and run it again"),
    "old answers": (
        {"started": "2026-09-01T00:00:00+00:00"},
        "run second rests on answers of 2026-09-01, 84 days old, and 30 are allowed: run it again with --crucible-cache=refresh",
    ),
}


@pytest.mark.parametrize(("facts", "sentence"), PRODUCTION.values(), ids=PRODUCTION)
def test_production_refuses_what_staging_accepts(production, facts, sentence):
    run = measure(production, "second", v2=0.9, v1=0.85, **facts)

    assert refusal(production, run) == sentence
    assert changes(promote_run(production, request(run, "staged"))) == [("claims@2", "staged")]


def test_production_wants_proof_and_says_what_would_be(production):
    run = measure(production, "close", v2=0.79, v1=0.85, margin=0.2)

    assert refusal(production, run) == (
        "run close does not prove exact >= 0.75 (n = 240; about 651 would): add samples, or promote to staged"
    )
    assert promote_run(production, request(run, "staged"))[-1].state == "staged"


def test_rules_that_are_weaker_than_those_of_the_gate_are_refused(production):
    run = measure(production, "second", v2=0.9, v1=0.85)
    weaker = {"proven": False, "max_age_days": 90}

    assert refusal(production, run, settings=weaker).splitlines() == [
        "[registry] has max_age_days = 90.0, but gate 1 of claims has 30.0: restore it, or change the gate with "
        "`crucible models gate freeze claims --why TEXT`",
        "[registry] has proven = no, but gate 1 of claims has yes: restore it, or change the gate with "
        "`crucible models gate freeze claims --why TEXT`",
    ]
    stricter = {"max_age_days": 10, "era_alpha": 0.05}
    assert changes(promote_run(production, request(run, settings=stricter)))[-1] == ("claims@2", "production")


def test_a_regression_gate_without_a_margin_proves_nothing(production):
    run = measure(production, "second", v2=0.85, v1=0.85, margin=None)

    assert refusal(production, run) == (
        "run second has exact: v2 vs v1 without a margin, which proves nothing: write "
        '@pytest.mark.ab_compare("exact", margin=0.05), or promote to staged'
    )


def test_a_larger_alpha_of_the_run_proves_no_more(production):
    run = measure(production, "close", v2=0.79, v1=0.85, margin=0.2)
    change_run(production, run, alpha=0.4)

    assert "run close does not prove exact >= 0.75" in refusal(production, run)


def test_weights_that_expire_do_not_reach_production(production):
    run = measure(production, "second", v2=0.9, v1=0.85)
    expiry = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)

    assert (
        refusal(production, run, expiry=lambda version: expiry)
        == "claims@2 expires on 2026-11-27: remove its TTL, then promote"
    )


CANDIDATE = {
    "an interrupted run": (
        {"status": "interrupted"},
        "is interrupted, not finished: continue it with --crucible-resume",
    ),
    "a run of an earlier version": (
        {"manifest": {"settings": {}}},
        "has no record of what it collected: run it again with this version of pytest-crucible",
    ),
}


@pytest.mark.parametrize(("facts", "sentence"), CANDIDATE.values(), ids=CANDIDATE)
def test_a_candidate_wants_a_whole_run(production, facts, sentence):
    run = measure(production, "second", v2=0.9, v1=0.85)
    change_run(production, run, **facts)

    assert f"run second {sentence}" in refusal(production, run, "candidate").splitlines()


def test_a_verdict_that_a_hook_has_set_is_no_proof(production):
    run = measure(production, "waived", v2=0.5, v1=0.85)
    production.execute("UPDATE verdicts SET state = 'met', proven = :proven", proven=True)

    message = refusal(production, run, "candidate").splitlines()
    assert message[0].startswith("run waived has exact >= 0.75 missed when decided again from its answers (")
    assert message[1].startswith("run waived has exact: v2 vs v1 non-inferior by 0.05 missed when decided again")


def test_a_verdict_that_a_hook_has_made_worse_counts_too(production):
    run = measure(production, "second", v2=0.9, v1=0.85)
    production.execute("UPDATE verdicts SET state = 'missed', reason = 'too rude'")

    assert "run second has exact >= 0.75 missed in its session (too rude)" in refusal(production, run, "candidate")


@pytest.mark.slow
def test_force_overrides_rules_and_the_log_names_them(production):
    run = measure(production, "waived", v2=0.5)

    entry = promote_run(production, request(run, force=True, why="demo"))[-1]

    assert (entry.why, len(entry.forced), states(production)["claims@2"]) == ("demo", 2, "production")
    assert entry.forced[1].startswith("run waived compared with nothing, but claims@1 is in production")
    assert load_registry(production).entries[-1] == entry


def test_a_candidate_of_several_models_is_named(production):
    register(production, "v2", model="others")
    run = measure(production, "second", v2=0.9, v1=0.85)

    assert refusal(production, run) == (
        "the candidate of run second is claims@2 and others@1: name one of the models with --model"
    )
    assert changes(promote_run(production, replace(request(run), model="others"))) == [("others@1", "production")]


ERA = {"settings": {"era_alpha": 0.05}}


def test_an_era_decides_each_run_at_its_share(production):
    """The first of two equal runs is decided at 0.025, the second at 0.0083, at which it proves nothing."""
    first = measure(production, "one", v2=0.829, v1=0.85)
    second = measure(production, "two", v2=0.829, v1=0.85)

    assert "exact: v2 vs v1 non-inferior by 0.05 undecided when decided again" in refusal(production, second, **ERA)
    entry = promote_run(production, request(first, **ERA))[-1]
    assert (entry.evidence["look"], entry.evidence["alpha"]) == (1, 0.025)


def test_the_winner_of_a_sweep_is_measured_on_other_samples(production):
    proof = load_proof(production, measure(production, "second", v2=0.9, v1=0.85), alpha=0.05)
    version = load_version(production, "claims", 2)
    assert version is not None
    situation = Situation(version=version, production=None, settings=RegistrySettings(), now=NOW)

    def lacking(members: int) -> list[str]:
        chosen = replace(proof, plans=tuple(replace(plan, chosen_among=members) for plan in proof.plans))
        return shortcomings(chosen, "production", situation)

    assert lacking(1) == []
    assert lacking(3) == [
        "run second chose the winner of a sweep with confirm = 0: measure the winner on samples that did not choose it"
    ]
