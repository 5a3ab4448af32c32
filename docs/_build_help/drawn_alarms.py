"""Figures of many runs without a difference: the rate of false claims."""

from __future__ import annotations

import numpy as np
from drawing import choose_runs, curves, nominal, ticks
from matplotlib.figure import Figure

from pytest_crucible import stats
from pytest_crucible.stats.means.clustered import clustered_p_value


def alarms_of_a_switch(figure: Figure) -> None:
    """Share of runs that claim a difference against the number of pairs, from 20 to 1,000.

    By the paired t test it stays near 0.05. By Wilcoxon's test, and by the switch between both, it climbs to about 0.7.
    """
    axes, sizes = figure.subplots(), (20, 50, 100, 200, 500, 1000)
    curves(
        axes,
        sizes,
        [_of_a_switch(n, choose_runs(500)) for n in sizes],
        ("paired t", "Wilcoxon", "switch by Shapiro-Wilk"),
    )
    nominal(axes, 0.05)
    axes.set(xscale="log", xlabel="pairs", ylabel="runs that claim a difference", ylim=(0, None))
    ticks(axes, sizes)
    axes.legend(loc="upper left")


def _of_a_switch(n: int, runs: int) -> list[float]:
    """Return the false claims of paired t, Wilcoxon, and a switch between both by Shapiro-Wilk.

    The scores have one mean (0.49) and two shapes.
    """
    rng, alarms = np.random.default_rng(n), np.zeros(3)
    for _ in range(runs):
        new = np.where(rng.random(n) < 0.45, 0.0, rng.uniform(0.7818, 1.0, n))
        old = np.where(rng.random(n) < 0.30, 0.0, rng.uniform(0.5, 0.9, n))
        by_mean, by_rank = stats.paired_t(new, old).p_value or 0, stats.wilcoxon_signed_rank(new, old).p_value or 0
        normal = (stats.shapiro_wilk(new - old).p_value or 0) > 0.05
        alarms += np.array([by_mean, by_rank, by_mean if normal else by_rank]) <= 0.05
    return [float(share) for share in alarms / runs]


def cost_of_ignoring_clusters(figure: Figure) -> None:
    """Share of runs that claim a difference against the number of samples in each of twenty clusters.

    As if independent it climbs from 0.05 for single samples to 0.4 for twenty. By CR2 it stays near 0.05.
    """
    axes, sizes = figure.subplots(), (1, 2, 3, 5, 10, 20)
    curves(axes, sizes, [_in_clusters(size, choose_runs(1000)) for size in sizes], ("CR2", "as if independent"))
    nominal(axes, 0.05)
    axes.set(xscale="log", xlabel="samples in a cluster", ylabel="runs that claim a difference", ylim=(0, None))
    ticks(axes, sizes)
    axes.legend()


def _in_clusters(size: int, runs: int) -> tuple[float, float]:
    """Return the false claims of CR2 and paired t, in twenty clusters of differences that correlate with 0.2."""
    rng, labels = np.random.default_rng(size), np.repeat(np.arange(20), size)
    robust = ignoring = 0
    for _ in range(runs):
        differences = 0.5 * rng.standard_normal(20)[labels] + rng.standard_normal(labels.size)
        robust += clustered_p_value(stats.clustered_mean(differences, labels)) <= 0.05
        ignoring += (stats.paired_t(differences).p_value or 0) <= 0.05
    return robust / runs, ignoring / runs


def alarms_of_many_questions(figure: Figure) -> None:
    """Probability of any false claim against the number of tests, from 1 to 40.

    Uncorrected it climbs from 0.05 to 0.85; by Holm it stays at 0.05.
    """
    axes, counts = figure.subplots(), (1, 2, 3, 5, 7, 10, 15, 20, 30, 40)
    rows = np.random.default_rng(8).random((choose_runs(1000), max(counts)))
    chances = [
        (
            np.mean([min(stats.holm(row[:count].tolist())) <= 0.05 for row in rows]),
            (rows[:, :count].min(1) <= 0.05).mean(),
        )
        for count in counts
    ]
    curves(axes, counts, chances, ("Holm", "uncorrected"))
    nominal(axes, 0.05)
    axes.set(xlabel="tests without a difference", ylabel="probability of any false claim", ylim=(0, 1))
    axes.legend()


def alarms_of_peeking(figure: Figure) -> None:
    """Share of runs that have claimed a difference so far against the number of replies, up to 400.

    With a t test after every ten answers it climbs to about 0.3. By a betting sequence it stays below 0.05.
    """
    axes, looks, rng = figure.subplots(), np.arange(10, 401, 10), np.random.default_rng(4)
    claims = np.array([_first_claims(rng, looks) for _ in range(choose_runs(400))])
    for name, line, first in zip(("betting sequence", "t test after every ten"), ("-", "--"), claims.T, strict=True):
        axes.plot(looks, [np.mean(first <= n) for n in looks], line, label=name)
    nominal(axes, 0.05)
    axes.set(xlabel="replies so far", ylabel="runs that claimed a difference", ylim=(0, None))
    axes.legend()


def _first_claims(rng: np.random.Generator, looks: np.ndarray) -> tuple[float, float]:
    """Return after how many replies a betting sequence, and a t test at every look, claim a difference."""
    old, new = (rng.random((2, int(looks[-1]))) < 0.7).astype(float)
    p_values = ((n, stats.paired_t(new[:n], old[:n]).p_value) for n in looks)
    peeked = next((float(n) for n, p in p_values if p is not None and p <= 0.05), np.inf)
    return stats.paired_sequence(new, old).first_exclusion(0.0) or np.inf, peeked


def lead_of_the_best(figure: Figure) -> None:
    """Two panels against the number of candidates, from 1 to 20.

    Left, the average lead of the best climbs from 0 to 8, 6 and 4 points for 100, 200 and 500 samples. Right, false claims
    climb from 0.05 to 0.45 uncorrected; by Holm they stay at or below 0.05.
    """
    left, right = figure.subplots(1, 2)
    counts, rng = tuple(range(1, 21)), np.random.default_rng(5)
    curves(
        left, counts, np.array([_leads(rng, n) for n in (100, 200, 500)]).T, [f"{n} samples" for n in (100, 200, 500)]
    )
    candidate_counts = (1, 2, 5, 10, 20)
    curves(
        right,
        candidate_counts,
        [_claims_of_some_candidate(count, choose_runs(200)) for count in candidate_counts],
        ("Holm", "uncorrected"),
    )
    nominal(right, 0.05)
    left.set(xlabel="candidates", ylabel="lead of the best (points)", ylim=(-0.3, None))
    right.set(xlabel="candidates", ylabel="runs with a false claim", ylim=(0, None))
    for axes in (left, right):
        ticks(axes, (1, 5, 10, 15, 20))
        axes.legend()


def _leads(rng: np.random.Generator, samples: int) -> np.ndarray:
    """Return the average lead, in points, of the best of 1 to 20 candidates that equal the baseline at 70 %."""
    rates = 100 * rng.binomial(samples, 0.7, (20_000, 21)) / samples
    return np.mean(np.maximum.accumulate(rates[:, 1:], axis=1) - rates[:, :1], axis=0)


def _claims_of_some_candidate(candidates: int, runs: int) -> tuple[float, float]:
    """Return the share of runs with any p at most 0.05, by Holm and single, of equal arms on 100 samples."""
    rng, corrected, single = np.random.default_rng(candidates), 0, 0
    for _ in range(runs):
        arms = (0.5 * rng.random((candidates + 1, 100)) + 0.5 * rng.random(100) < 0.63).astype(float)
        p_values = [stats.compare(arm, arms[0], kind="binary").p_value or 0 for arm in arms[1:]]
        corrected += min(p or 0 for p in stats.holm(p_values)) <= 0.05
        single += min(p_values) <= 0.05
    return corrected / runs, single / runs


def alarms_of_a_suite(figure: Figure) -> None:
    """Rate of false alarms of two suites, one of yes or no and one of scores, at nominal rates from 0.01 to 0.2.

    All points lie on the diagonal within their intervals.
    """
    axes, alphas, rng = figure.subplots(), np.array([0.01, 0.02, 0.05, 0.10, 0.20]), np.random.default_rng(7)
    right = (rng.random((120, 2)) < rng.beta(3, 1, (120, 1))).astype(float)
    scores = np.clip(rng.beta(7, 3, (60, 1)) + rng.uniform(-0.1, 0.1, (60, 2)), 0, 1)
    # Zeros in either arm alone, as when one of two replies cannot be parsed.
    scores[rng.random((60, 2)) < 0.3] = 0
    suites = {"120 samples, yes or no": (right, 0.97, "o"), "60 scores, 30 % zeros": (scores, 1.03, "s")}
    for name, (values, aside, marker) in suites.items():
        results = [
            stats.false_alarm_rate(values, bounds=(0, 1), alpha=alpha, replicates=choose_runs(1000)) for alpha in alphas
        ]
        reach = np.array(
            [[alarms.rate - alarms.interval.low, alarms.interval.high - alarms.rate] for alarms in results]
        ).T
        axes.errorbar(alphas * aside, [alarms.rate for alarms in results], reach, fmt=marker, label=name)
    axes.plot(alphas, alphas, color="grey", linewidth=0.9, label="alarms = alpha")
    axes.set(xscale="log", yscale="log", xlabel="alpha", ylabel="false alarms")
    axes.set_yticks(alphas, [f"{alpha:g}" for alpha in alphas])
    ticks(axes, alphas)
    axes.legend()
