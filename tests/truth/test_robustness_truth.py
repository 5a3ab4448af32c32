"""Error rates of attacks: without an effect nothing is claimed or broken, intervals cover, and flips are found."""

from __future__ import annotations

import numpy as np
import pytest
from drop_evals import ALPHA, DROP, EXPERIMENTS, OK, SIZES, as_scores, chances, clusters, count_covered
from run_sizes import choose_runs

from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric
from pytest_crucible.analyse.targets import evaluate_target
from pytest_crucible.analyse.variant_scores import drop_scores
from pytest_crucible.features.robustness.drops import VariantData, compute_breakages, compute_drops
from pytest_crucible.features.robustness.records import PlannedAttack, Robustness
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Arm,
    ArmOutcomes,
    Fingerprint,
    Plan,
    PlannedVariant,
    ScoreColumns,
)
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.stats import holm

pytestmark = pytest.mark.slow
ATTACKS = 25
RUNS = choose_runs(400)


def error(share, runs):
    """Three standard errors of a simulated share."""
    return 3 * (share * (1 - share) / runs) ** 0.5


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
        features={"robustness": to_plain(Robustness(attacks=planned, controls=1))},
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
        excesses.append(np.mean([breakage.excess.value for breakage in compute_breakages(data, ["ok"])]))

    print(f"sessions with a claim: {claimed / runs:.3f} of {runs}; excess of broken: {np.mean(excesses):+.4f}")
    assert claimed / runs <= ALPHA + error(ALPHA, runs)
    assert abs(np.mean(excesses)) <= 3 * np.std(excesses) / runs**0.5 + 1e-9


@pytest.mark.parametrize("case", EXPERIMENTS, ids=lambda case: case.name)
def test_drops_and_differences_of_drops_are_covered(case):
    covered, bounded, differences = count_covered(case, RUNS, seed=case.n + case.group)

    print(f"covered: drop {covered / RUNS:.3f}, bound {bounded / RUNS:.3f}, difference {differences / RUNS:.3f}")
    least = 0.94 - error(0.94, RUNS)
    assert min(covered, bounded, differences) / RUNS >= least, (covered / RUNS, bounded / RUNS, differences / RUNS)


def test_flips_of_8_percent_are_found_with_a_hundred_samples():
    """Each right sample is wrong under attack with chance 8 %, and nothing else changes: an unpaired test finds 19 %."""
    draw, count = np.random.default_rng(0), 0
    for _ in range(RUNS):
        clean = (draw.random(100) < 0.85).astype(float)
        attacked = clean * (draw.random(100) >= 0.08)
        drop = [ScoredMetric(DROP, drop_scores(OK, as_scores(clean), as_scores(attacked)))]
        result = evaluate_target(parse_target("x <= 0.0"), drop, "v2", SampleAttributes(), alpha=ALPHA / 2)
        count += result.evidence.observed.lower > 0

    print(f"power: {count / RUNS:.3f}")
    assert count / RUNS >= 0.70


@pytest.mark.parametrize("queries", [20])
def test_a_confirmed_search_of_a_model_that_no_text_affects_breaks_no_more_than_the_control(queries):
    """The search itself finds a wrong reply to nine of ten samples; the reply that counts is another one."""
    draw = np.random.default_rng(0)
    excess, count = [], []
    for _ in range(RUNS):
        chance = chances(draw, 200, 1)
        clean = draw.random(200) < chance
        count.append((draw.random((queries, 200)) > chance).any(axis=0)[clean].mean())
        confirmed, control = (~(draw.random(200) < chance)[clean] for _ in range(2))
        excess.append(confirmed.mean() - control.mean())

    assert 0.85 < np.mean(count) < 0.97
    assert abs(np.mean(excess)) <= 3 * np.std(excess) / RUNS**0.5
