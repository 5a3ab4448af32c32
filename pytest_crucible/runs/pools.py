"""Loads the replies of all sessions with one candidate and one baseline: the setting crucible_memory = "pool"."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.pool import Part, Pool, pool_arms
from pytest_crucible.records import ArmOutcomes, Contrast, Look, Target
from pytest_crucible.store.experiments import StoredExperiment
from pytest_crucible.store.outcomes import load_arm
from pytest_crucible.store.past_comparisons import arm_key, claim_of, past_targets, reply_sources


class _History:
    """The arms of past sessions, as the store has them. All comparisons of a session ask for the same ones: each is read once."""

    def __init__(self, stored: StoredExperiment) -> None:
        self.stored = stored
        self.load: Callable[[int | None], ArmOutcomes] = functools.cache(lambda arm: load_arm(stored.store, arm, 0))
        self.sources: Callable[[int, str], Mapping[tuple[int, int], str]] = functools.cache(
            lambda arm, run: reply_sources(stored.store, arm, run)
        )


def add_pools(inputs: AnalysisInputs, stored: StoredExperiment, *, strict: bool) -> AnalysisInputs:
    """Return the inputs with the pools of deciding comparisons, and of targets that must be proven (all if `strict`).

    An interrupted session decides nothing.
    """
    plan = inputs.plan
    if not inputs.finished or plan.selected < plan.planned:
        return inputs
    history = _History(stored)
    pools = {contrast: _load_pool(history, contrast) for contrast in plan.contrasts if contrast.decides}
    targets = [target for target in plan.targets if (strict or target.decide == "bound") and target.relation != "=="]
    return dataclasses.replace(
        inputs, pools=pools, target_pools={target: _load_target_pool(history, target) for target in targets}
    )


def _load_target_pool(history: _History, target: Target) -> Pool:
    stored = history.stored
    past = past_targets(stored.store, stored.key, target.text)
    arms = [*(arm for _, _, arm in past), arm_key(stored.store, stored.key, 0)]
    parts = _parts(history, arms, [run for run, _, _ in past])
    since = past[0][1] if past else ""
    look = Look(number=max(sum(bool(part.new) for part in parts), 1), replies=(_count(parts),), since=since)
    return pool_arms([parts], look)


def _load_pool(history: _History, contrast: Contrast) -> Pool:
    """Return the replies of all sessions until this one. A look is a session that brought new replies."""
    stored = history.stored
    past = stored.past_comparisons(contrast)
    number = [arm.name for arm in stored.plan.arms].index(contrast.baseline)
    own = arm_key(stored.store, stored.key, 0), arm_key(stored.store, stored.key, number)
    runs = [one.run for one in past]
    sides = [_parts(history, [*(one.arms[side] for one in past), own[side]], runs) for side in (0, 1)]
    grew = [any(part.new for part in session) for session in zip(*sides, strict=True)]
    claim = claim_of(contrast.subject(stored.plan.candidate.name), stored.plan.candidate.name, contrast.baseline)
    look = Look(
        number=max(sum(grew), 1),
        replies=(_count(sides[0]), _count(sides[1])),
        since=past[0].started if past else "",
        proven_in=next((one for one in past if one.is_pooled and one.missed and one.subject == claim), None),
    )
    return pool_arms(sides, look)


def _parts(history: _History, arms: Sequence[int], earlier: Sequence[str]) -> list[Part]:
    """Return what each session adds to one arm, oldest first: the `earlier` runs, and this session."""
    runs = [*earlier, history.stored.run]
    seen: set[tuple[tuple[int, int], str]] = set()
    parts = []
    for arm, run in zip(arms, runs, strict=True):
        sources = set(history.sources(arm, run).items())
        new = frozenset(place for place, _ in sources - seen)
        seen |= sources
        # A stored baseline is copied into every session, so reading it again would add nothing.
        adds = new or arm == arms[-1]
        parts.append(Part(history.load(arm if adds else None), new))
    return parts


def _count(parts: Sequence[Part]) -> int:
    return sum(len(part.new) for part in parts)
