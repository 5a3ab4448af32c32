"""Error rates of attacks: without an effect nothing is claimed or broken, intervals cover, and flips are found."""

from __future__ import annotations

import numpy as np
import pytest
from run_sizes import choose_runs

from pytest_crucible.analyse.comparisons import compare
from pytest_crucible.analyse.drops import VariantData, compute_breakages, compute_drops
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric
from pytest_crucible.analyse.targets import evaluate_target
from pytest_crucible.analyse.variant_scores import drop_scores
from pytest_crucible.plan.contrasts import parse_contrast
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Arm,
    ArmOutcomes,
    Fingerprint,
    MetricFacts,
    Plan,
    PlannedAttack,
    PlannedVariant,
    Robustness,
    ScoreColumns,
)
from pytest_crucible.records.variant_views import term_facts
from pytest_crucible.stats import holm

pytestmark = pytest.mark.slow
ATTACKS, ALPHA = 25, 0.05
OK = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)
DROP = term_facts("ok.drop[a]", "drop", OK)
SIZES = [(50, 1), (100, 1), (100, 4), (400, 8), (1000, 1)]
"""Samples, and how many are in a group."""
RUNS = choose_runs(400)


def error(share, runs):
    """Three standard errors of a simulated share."""
    return 3 * (share * (1 - share) / runs) ** 0.5


def chances(draw, n, size):
    """Each sample's chance of being right, beta(8, 2); samples of a group share most of theirs."""
    own = draw.beta(8, 2, n)
    return own if size == 1 else np.repeat(draw.beta(8, 2, -(-n // size)), size)[:n] * 0.8 + own * 0.2


def answers(draw, chance):
    values, places = (draw.random(len(chance)) < chance).tolist(), list(range(len(chance)))
    zeros = [0] * len(chance)
    column = ScoreColumns(positions=places, repeats=zeros, values=values, is_bool=[True] * len(chance))
    return ArmOutcomes(
        positions=places,
        repeats=zeros,
        failures=[None] * len(chance),
        skipped=[False] * len(chance),
        scores={"ok": column},
        lost=[],
    )


def as_scores(values):
    none = np.zeros(len(values), dtype=bool)
    values = np.asarray(values, dtype=float)
    return Scores(values, values, values, none, none)


def clusters(n, size):
    return None if size == 1 else np.arange(n) // size


def experiment(draw, n, size, attacks=ATTACKS, attacked=None):
    """One arm under attacks; `attacked` returns the chances under an attack, by default those without."""
    chance = chances(draw, n, size)
    names = [f"attack {k}" for k in range(attacks)]
    planned = tuple(PlannedAttack(name=name, attack=name, kind="words", strength=None, draws=1) for name in names)
    variants = tuple(PlannedVariant(name=name, sha256="", samples=n) for name in (*names, "control"))
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=0, dataset="d", dataset_sha256="", planned=n, selected=n, groups=None, repeats=1,
        arms=(Arm(name="v2", role="candidate", adapter="v2", identity="v2"),), metrics=(OK,), targets=(), contrasts=(),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""), open_metrics=False, variants=variants,
        robustness=Robustness(attacks=planned, controls=1),
    )  # fmt: skip
    originals = as_scores((draw.random(n) < chance).astype(float))
    of_attack = chance if attacked is None else attacked(chance)
    twins = {name: (answers(draw, of_attack),) for name in names} | {"control": (answers(draw, chance),)}
    return VariantData(plan, {"ok": OK}, {"ok": (originals,)}, twins, SampleAttributes(clusters(n, size)), n, ALPHA)


@pytest.mark.parametrize(("n", "size"), SIZES)
def test_attacks_without_effect_are_claimed_in_few_sessions_and_break_nothing(n, size):
    draw, runs = np.random.default_rng(n + size), choose_runs(200 if n < 1000 else 60)
    claimed, excesses = 0, []
    for _ in range(runs):
        data = experiment(draw, n, size)
        drops = [drop for drop in compute_drops(data, ["ok"]) if drop.attack != "control"]
        claimed += min(holm([drop.p_value for drop in drops])) <= ALPHA
        excesses.append(np.mean([one.excess.value for one in compute_breakages(data, ["ok"])]))

    print(f"sessions with a claim: {claimed / runs:.3f} of {runs}; excess of broken: {np.mean(excesses):+.4f}")
    assert claimed / runs <= ALPHA + error(ALPHA, runs)
    assert abs(np.mean(excesses)) <= 3 * np.std(excesses) / runs**0.5 + 1e-9


@pytest.mark.parametrize(("n", "size"), SIZES)
@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_drops_and_differences_of_drops_are_covered(n, size, effect):
    draw, groups = np.random.default_rng(n + size), clusters(n, size)
    attributes, target, contrast = SampleAttributes(groups), parse_target("x <= 0.5"), parse_contrast("x", margin=0.1)
    covered = differences = bounded = 0
    for _ in range(RUNS):
        of_arms, truths = [], []
        for share in (effect, effect / 2):
            chance = chances(draw, n, size)
            clean, attacked = (as_scores((draw.random(n) < of).astype(float)) for of in (chance, chance * (1 - share)))
            of_arms.append([ScoredMetric(DROP, drop_scores(OK, clean, attacked))])
            # The mean chance of beta(8, 2) is .8.
            truths.append(0.8 * share)
        result = evaluate_target(target, of_arms[0], "v2", attributes, alpha=ALPHA)
        interval, bounds = result.estimate.interval, result.evidence.observed
        covered += interval.low <= truths[0] <= interval.high
        bounded += bounds.upper >= truths[0]
        compared = compare(contrast, "v2", (of_arms[0], of_arms[1]), attributes, alpha=ALPHA, family_size=1)
        # Signed so that positive is better, and a smaller drop is better.
        differences += compared.interval.low <= truths[1] - truths[0] <= compared.interval.high

    print(f"covered: drop {covered / RUNS:.3f}, bound {bounded / RUNS:.3f}, difference {differences / RUNS:.3f}")
    least = 0.94 - error(0.94, RUNS)
    assert min(covered, bounded, differences) / RUNS >= least, (covered / RUNS, bounded / RUNS, differences / RUNS)


def test_flips_of_8_percent_are_found_with_a_hundred_samples():
    """Each right sample is wrong under attack with chance 8 %, and nothing else changes: an unpaired test finds 19 %."""
    draw, found = np.random.default_rng(0), 0
    for _ in range(RUNS):
        clean = (draw.random(100) < 0.85).astype(float)
        attacked = clean * (draw.random(100) >= 0.08)
        drop = [ScoredMetric(DROP, drop_scores(OK, as_scores(clean), as_scores(attacked)))]
        result = evaluate_target(parse_target("x <= 0.0"), drop, "v2", SampleAttributes(), alpha=ALPHA / 2)
        found += result.evidence.observed.lower > 0

    print(f"power: {found / RUNS:.3f}")
    assert found / RUNS >= 0.70


@pytest.mark.parametrize("queries", [20])
def test_a_confirmed_search_of_a_model_that_no_text_affects_breaks_no_more_than_the_control(queries):
    """The search itself finds a wrong reply to nine of ten samples; the reply that counts is another one."""
    draw = np.random.default_rng(0)
    excess, found = [], []
    for _ in range(RUNS):
        chance = chances(draw, 200, 1)
        clean = draw.random(200) < chance
        found.append((draw.random((queries, 200)) > chance).any(axis=0)[clean].mean())
        confirmed, control = (~(draw.random(200) < chance)[clean] for _ in range(2))
        excess.append(confirmed.mean() - control.mean())

    assert 0.85 < np.mean(found) < 0.97
    assert abs(np.mean(excess)) <= 3 * np.std(excess) / RUNS**0.5
