"""Stored replies that an experiment may use instead of new requests: their key, their run, and the units that they answer."""

from __future__ import annotations

import hashlib
import json

from pytest_crucible.records import ArmOutcomes, Plan
from pytest_crucible.records.plan import ANSWERED_BY
from pytest_crucible.records.settings import Settings
from pytest_crucible.store.decisions import find_member
from pytest_crucible.store.experiments import StoredExperiment
from pytest_crucible.store.reused_outcomes import find_arm
from pytest_crucible.store.runs import RunStore


def stored_units(stored: StoredExperiment) -> list[set[tuple[int, int]]]:
    """Return, by arm, the (position, place) of the units that are answered or lost, those of variants included."""
    plan = stored.plan
    return [
        done_units(answers)
        | {
            (position, plan.draws(number).size * twin + repeat)
            for twin, of_arms in enumerate(stored.variants.values(), start=1)
            for position, repeat in done_units(of_arms[number])
        }
        for number, answers in enumerate(stored.arms)
    ]


def done_units(answers: ArmOutcomes) -> set[tuple[int, int]]:
    """Return (position, repeat) of the units that an arm has answered or lost."""
    lost = {(loss.unit.position, loss.unit.repeat) for loss in answers.lost if loss.metric is None}
    return lost | set(zip(answers.positions, answers.repeats, strict=True))


def find_stored_replies(
    store: RunStore, settings: Settings, plan: Plan, number: int, variant: int, *, run: str
) -> tuple[int, str] | None:
    """Return key and run of the stored replies that an arm may use; None without any.

    A baseline may, unless --crucible-fresh; with --crucible-resume every arm may. The winner of a sweep has answered the samples
    that chose it.
    """
    arm, fingerprint = plan.arms[number], arm_fingerprint(plan, number, variant)
    source = None
    twin = plan.draws(number).twin(variant)
    helper = ANSWERED_BY.of(plan)
    if run and not number and helper and not twin:
        source = find_member(store, run, helper, arm.name, variant)
    if source is not None:
        return source
    if arm.stored_run is not None and twin:
        return store.stored_twins(arm.stored_run, plan.nodeid, variant, plan.variants[twin - 1].sha256)
    if arm.stored_run is not None:
        source = store.stored_candidate(arm.stored_run, plan.nodeid, variant)[:2]
    elif settings.resume:
        source = find_arm(store, fingerprint, run=run, latest=True)
    # A refreshed cache would be pointless if stored replies were used instead.
    fresh = settings.fresh or settings.cache == "refresh"
    if source is None and arm.role == "baseline" and not fresh:
        source = find_arm(store, fingerprint, run=run)
    return source


def arm_fingerprint(plan: Plan, number: int, variant: int = 0) -> str:
    """Return the key of an arm's stored replies to one form of the prompt: a hash of everything that they depend on."""
    arm, parts = plan.arms[number], plan.fingerprint
    parts_of_key = [parts.dataset, parts.function, parts.metrics, parts.sampling, arm.identity, dict(arm.parameters)]
    parts_of_key += [parts.reasoning] if parts.reasoning else []
    twin = plan.draws(number).twin(variant)
    if plan.prompts:
        form = variant % len(plan.prompts)
        parts_of_key += [{"prompts": [prompt.sha256 for prompt in plan.prompts], "variant": form}]
    if twin:
        # Not a part of the samples' own key: a new variant leaves the replies to them in use.
        parts_of_key += [{"twins": plan.variants[twin - 1].sha256}]
    if arm.name in plan.arm_prompts:
        # The arm's identity has the name of a file only, whose text may change.
        parts_of_key += [{"prompt": plan.arm_prompts[arm.name]}]
    return hashlib.sha256(json.dumps(parts_of_key, sort_keys=True, default=repr).encode()).hexdigest()
