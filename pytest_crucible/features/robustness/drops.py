"""The effects of attacks on each arm: levels, drops, broken samples against the control, and obeyed injections. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pytest_crucible.analyse.scores import Flags, Pair, Scores, scores, scores_with_units
from pytest_crucible.analyse.slices import keep_slice
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, mean_of, prepare, row_of
from pytest_crucible.analyse.targets import drop_difference, estimate_drop
from pytest_crucible.analyse.variant_scores import broken_scores, combine, drop_scores
from pytest_crucible.features.robustness.records import (
    CONTROL,
    LEAKED,
    OBEYED,
    ROBUSTNESS,
    WORST,
    PlannedAttack,
    is_attacked,
)
from pytest_crucible.features.robustness.terms import ALIASES, CERTIFIED, SMOOTHED
from pytest_crucible.measures.row import Measured
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes, MetricFacts, Plan
from pytest_crucible.records.datasets import VariantRules
from pytest_crucible.records.measures import BROKEN, term_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """One metric of one arm with and without one attack, on the samples that have both."""

    metric: str
    attack: str
    arm: str
    clean: Measured
    attacked: Measured
    drop: Measured
    """Clean minus attacked, signed so that positive is worse."""
    p_value: float | None
    n: int
    inapplicable: int
    lost: int
    simultaneous: Measured | None = None
    """The largest drop with an interval that holds for all drops of the experiment at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """The share of the right samples that an attack turns wrong, against the same of a mere repetition."""

    metric: str
    attack: str
    arm: str
    broken: Measured
    control: Measured
    excess: Measured
    """Broken minus control, paired."""
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A metric that only replies to twins have: `obeyed`, `leaked` or `same_answer`."""

    metric: str
    attack: str
    arm: str
    share: Measured
    n: int
    lost: int


@dataclass(frozen=True, slots=True)
class VariantData:
    """The scores of an experiment with variants."""

    plan: Plan
    facts: Mapping[str, MetricFacts]
    originals: Mapping[str, tuple[Scores, ...]]
    variants: Mapping[str, tuple[ArmOutcomes, ...]]
    attributes: SampleAttributes
    samples: int
    alpha: float

    def twins(self, facts: MetricFacts, names: Sequence[str], arm: int, *, is_worst: bool = False) -> Scores:
        """Return a metric of an arm on some variants together."""
        draws = self.plan.draws(arm)
        with_units = bool(self.plan.random_factors) or draws.size > 1
        of_variants = [
            scores_with_units(facts, self.variants[name][arm], samples=self.samples, draws=draws)
            if with_units
            else scores(facts, self.variants[name][arm], samples=self.samples, repeats=draws.size)
            for name in names
        ]
        return combine(facts, of_variants, is_worst=is_worst)

    def measure(self, facts: MetricFacts, of: Scores, chosen: np.ndarray | None = None) -> Measured:
        """Return the mean of a metric with its interval, over chosen samples or all that have a score."""
        at = of.seen if chosen is None else chosen & of.seen
        return row_of(mean_of(facts)).estimate(
            prepare(mean_of(facts), [ScoredMetric(facts, of)], self.attributes, at), 1 - self.alpha
        )


def attack_variants(plan: Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name of each attack with the names of its variants, and last the control with its variants."""
    names = [variant.name for variant in plan.variants]
    robustness = ROBUSTNESS.of(plan)
    attacks: Sequence[PlannedAttack] = robustness.attacks if robustness else ()
    for attack in attacks:
        yield attack.name, tuple(name for name in names if _is_draw_of(name, attack.name))
    controls = tuple(name for name in names if _is_draw_of(name, CONTROL))
    if controls:
        yield CONTROL, controls


def compute_drops(data: VariantData, metrics: Sequence[str]) -> list[Drop]:
    """Return the drop of each metric under each attack and the control, arm by arm; the largest one with its own interval."""
    drops = []
    for metric in metrics:
        of_metric = [
            (drop, pair) for attack, names in _with_worst(data.plan) for drop, pair in _drops(data, metric, attack, names)
        ]  # fmt: skip
        drops += _with_simultaneous(data, of_metric)
    return drops


def _with_worst(plan: Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    groups, robustness = dict(attack_variants(plan)), ROBUSTNESS.of(plan)
    yield from groups.items()
    if robustness is not None and robustness.controls > 1:
        attacked = tuple(name for attack, names in groups.items() if attack != CONTROL for name in names)
        yield WORST, attacked
        yield f"{WORST} of {CONTROL}", groups[CONTROL]


def _drops(data: VariantData, metric: str, attack: str, names: tuple[str, ...]) -> Iterator[tuple[Drop, Pair]]:
    for arm, scored in _drop_scores(data, metric, names, is_worst=attack.startswith(WORST)):
        if scored.seen.any() or scored.lost.any():
            assert scored.pair is not None
            yield _drop(data, attack, arm, scored, np.ones(data.samples, dtype=bool)), scored.pair


def compute_slice_drops(data: VariantData, metric: str, slices: Mapping[str, Flags]) -> Iterator[tuple[str, Drop]]:
    """Yield the name of a slice and a drop in it: of each attack and the control, arm by arm, where the slice has a score."""
    for attack, names in attack_variants(data.plan):
        for arm, scored in _drop_scores(data, metric, names):
            for name, inside in slices.items():
                if (scored.seen & inside).any():
                    yield name, _drop(data, attack, arm, scored, inside)


def _drop_scores(
    data: VariantData, metric: str, names: tuple[str, ...], *, is_worst: bool = False
) -> Iterator[tuple[str, Scores]]:
    """Yield each arm's name and its drops by sample."""
    facts = data.facts[metric]
    for number, arm in enumerate(data.plan.arms):
        twins = data.twins(facts, names, number, is_worst=is_worst)
        yield arm.name, drop_scores(facts, data.originals[metric][number], twins)


def _drop(data: VariantData, attack: str, arm: str, scored: Scores, inside: Flags) -> Drop:
    scored = keep_slice(scored, inside)
    pair = scored.pair
    assert pair is not None
    scored_samples = scored.seen
    difference = drop_difference(pair, data.attributes, scored_samples, "observed", data.alpha)
    return Drop(
        metric=pair.facts.name,
        attack=attack,
        arm=arm,
        clean=data.measure(pair.facts, pair.originals, scored_samples),
        attacked=data.measure(pair.facts, pair.twins, scored_samples),
        drop=estimate_drop(difference),
        p_value=None if difference is None else difference.p_value,
        n=difference.n if difference else int(scored_samples.sum()),
        inapplicable=int((scored.inapplicable & inside).sum()),
        lost=int(scored.lost.sum()),
    )


def _with_simultaneous(data: VariantData, drops: Sequence[tuple[Drop, Pair]]) -> list[Drop]:
    """Return the drops, the largest of the attacks with an interval that holds for all of them (Bonferroni)."""
    # The worst of all attacks is at least as large as each of them, and no attack of its own.
    of_attacks = [
        (k, drop)
        for k, (drop, _) in enumerate(drops)
        if CONTROL not in drop.attack and drop.attack != WORST and drop.drop.value is not None
    ]
    result = [drop for drop, _ in drops]
    if len(of_attacks) > 1:
        largest = max(of_attacks, key=lambda entry: entry[1].drop.value or 0.0)[0]
        pair = drops[largest][1]
        chosen = ~(pair.originals.inapplicable | pair.twins.inapplicable) & pair.originals.seen & pair.twins.seen
        wider = drop_difference(pair, data.attributes, chosen, "observed", data.alpha / len(of_attacks))
        result[largest] = replace(result[largest], simultaneous=estimate_drop(wider))
    return result


def compute_breakages(data: VariantData, metrics: Sequence[str]) -> list[Breakage]:
    """Return how many of the right samples each attack breaks, for binary metrics."""
    groups = dict(attack_variants(data.plan))
    controls = groups.pop(CONTROL, ())
    return [
        breakage
        for metric in metrics
        if data.facts[metric].kind == "binary" and controls
        for attack, names in groups.items()
        for breakage in _breakages(data, metric, attack, names, controls)
    ]


def _breakages(
    data: VariantData, metric: str, attack: str, names: tuple[str, ...], controls: tuple[str, ...]
) -> Iterator[Breakage]:
    facts = data.facts[metric]
    for number, arm in enumerate(data.plan.arms):
        originals = data.originals[metric][number]
        broken, of_control = (
            broken_scores(facts, originals, data.twins(facts, of, number)) for of in (names, controls)
        )
        both = broken.seen & of_control.seen
        if not both.any():
            continue
        of_broken = term_facts(metric, BROKEN, facts, max(len(names), len(controls), data.plan.draws(number).size))
        difference = drop_difference(Pair(of_broken, of_control, broken), data.attributes, both, "observed", data.alpha)
        yield Breakage(
            metric=metric,
            attack=attack,
            arm=arm.name,
            broken=data.measure(of_broken, broken, both),
            control=data.measure(of_broken, of_control, both),
            excess=estimate_drop(difference),
            n=int(both.sum()),
        )


def compute_shares(data: VariantData, metrics: Sequence[MetricFacts]) -> list[Share]:
    """Return the metrics that only twins have, attack by attack; of `obeyed` and `leaked` only the injections and the control."""
    robustness = ROBUSTNESS.of(data.plan)
    attacks = robustness.attacks if robustness else ()
    asking = {attack.name for attack in attacks if attack.asks_for} | {CONTROL}
    shares = []
    for facts in metrics:
        for attack, names in attack_variants(data.plan):
            if facts.name in (OBEYED, LEAKED) and attack not in asking:
                continue
            for number, arm in enumerate(data.plan.arms):
                if not any(facts.name in data.variants[name][number].scores for name in names):
                    continue
                of_arm = data.twins(facts, names, number)
                share, n = data.measure(facts, of_arm), int(of_arm.seen.sum())
                shares.append(
                    Share(metric=facts.name, attack=attack, arm=arm.name, share=share, n=n, lost=int(of_arm.lost.sum()))
                )
    return shares


def count_certificates(data: VariantData) -> Mapping[str, Mapping[int, int]]:
    """Return, by arm, how many samples have each number of certified word edits; empty without certificates."""
    facts = next((facts for facts in data.plan.variant_metrics if facts.name == CERTIFIED), None)
    if facts is None or SMOOTHED not in data.variants:
        return {}
    counts = {}
    for number, arm in enumerate(data.plan.arms):
        values = data.twins(facts, (SMOOTHED,), number).values
        counts[arm.name] = dict(Counter(values[~np.isnan(values)].astype(int).tolist()))
    return counts


def _is_draw_of(variant: str, attack: str) -> bool:
    return variant == attack or variant.startswith(f"{attack}, draw ")


def variant_rules(plan: Plan) -> VariantRules | None:
    """Return what is known of the attacked variants of a plan; None for a plan without attacks."""
    robustness = ROBUSTNESS.of(plan)
    if robustness is None:
        return None
    return VariantRules(
        normalise=robustness.normalise,
        kept=robustness.kept,
        groups=dict(attack_variants(plan)),
        attacked=tuple(variant.name for variant in plan.variants if is_attacked(variant.name)),
        aliases=ALIASES,
    )


def with_common_attacks(plan: Plan, ours: Plan) -> Plan:
    """Return the plan, which has the variants that two runs have in common, with those attacks of ours that are complete."""
    robustness, names = ROBUSTNESS.of(ours), {variant.name for variant in plan.variants}
    if robustness is None or not names:
        return ROBUSTNESS.on(plan, None)
    complete = {attack for attack, variants in attack_variants(ours) if names.issuperset(variants)}
    attacks = tuple(attack for attack in robustness.attacks if attack.name in complete)
    # The worst of some variants needs as many controls as these.
    is_whole = len(names) == len(ours.variants)
    controls = robustness.controls if is_whole else min(robustness.controls, CONTROL in names)
    return ROBUSTNESS.on(plan, replace(robustness, attacks=attacks, controls=controls))
