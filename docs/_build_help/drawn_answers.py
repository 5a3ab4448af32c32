"""Figures of single results, and of what a number of samples can detect."""

from __future__ import annotations

import numpy as np
from drawing import curves, ticks, whisker
from matplotlib.figure import Figure

from pytest_crucible import stats


def reading_a_comparison(figure: Figure) -> None:
    """Two panels on one scale.

    Left, the intervals of the arms, 0.61 to 0.74 and 0.64 to 0.77, overlap widely. Right, the interval of their
    difference, from -0.01 to 0.07, is about half as long and includes 0.
    """
    # The example of the page: 186 samples with equal results, 4 lost and 10 gained.
    agreed = [1] * 132 + [0] * 54
    arms = {"baseline": agreed + [1] * 4 + [0] * 10, "candidate": agreed + [0] * 4 + [1] * 10}
    compared = stats.compare(arms["candidate"], arms["baseline"])
    left, right = figure.subplots(1, 2)
    for row, (arm, values) in enumerate(arms.items()):
        estimate = stats.estimate(values)
        whisker(left, row, estimate.estimate, estimate.interval, f"C{row}")
        left.text(estimate.estimate, row + 0.15, arm, ha="center")
    whisker(right, 0.5, compared.estimate, compared.interval, "C2")
    right.text(compared.estimate, 0.65, "candidate - baseline", ha="center")
    right.axvline(0, color="C3", linestyle="--")
    for axes, label, ends in ((left, "rate", (0.58, 0.80)), (right, "difference of the rates", (-0.11, 0.11))):
        axes.set(xlabel=label, xlim=ends, ylim=(-0.5, 1.6), yticks=[])
        axes.spines["left"].set_visible(False)


def budget_of_repeats(figure: Figure) -> None:
    """Standard error against repeats of each sample, from 1 to 15, for three prices of a new sample.

    Where samples are free it only rises. At a price of 2 calls it is least at 3 repeats, at 20 calls at 10, and
    flat around both.
    """
    axes, repeats, between, within = figure.subplots(), np.arange(1, 16), 0.05, 0.40
    for price, line in ((0, "o-"), (2, "s--"), (20, "^:")):
        errors = np.sqrt((between + within / repeats) / np.floor(2000 / (price + 2 * repeats)))
        axes.plot(repeats, errors, line, label=f"a new sample costs {price} calls")
        best = stats.split_budget(2000, between=between, within=within, sample_cost=price)
        axes.plot(best.repeats, best.se, "o", markersize=13, fillstyle="none", color="C3")
    axes.set(xlabel="repeats of each sample", ylabel="standard error of the difference", ylim=(0, None))
    axes.legend()


def rule_of_three(figure: Figure) -> None:
    """Largest failure rate that n samples without a failure leave possible, on logarithmic axes.

    It falls from 0.26 at 10 samples to 0.01 at 300, nearly along the straight line 3 / n.
    """
    axes, sizes = figure.subplots(), np.array([3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000])
    limits = [stats.clopper_pearson_bound(0, int(n), alpha=0.05, side="upper") for n in sizes]
    axes.plot(sizes, limits, "o-", label="Clopper-Pearson bound, 95 %")
    axes.plot(sizes, 3 / sizes, "--", label="3 / n")
    axes.set(xscale="log", yscale="log", xlabel="samples without a failure", ylabel="failure rate at most")
    axes.set_yticks([0.003, 0.01, 0.03, 0.1, 0.3, 1], ["0.3 %", "1 %", "3 %", "10 %", "30 %", "100 %"])
    ticks(axes, (3, 10, 30, 100, 300, 1000))
    axes.legend()


def detectable_differences(figure: Figure) -> None:
    """Smallest detectable difference against the number of samples, from 50 to 2,000, for three discordances.

    At 100 samples it is 9, 12 and 15 points where 10, 20 and 30 % of the results change; at 1,000 it is 3, 4 and 5.
    """
    axes, sizes = figure.subplots(), [50, 70, 100, 150, 200, 300, 500, 700, 1000, 2000]
    shares = (0.30, 0.20, 0.10)
    differences = [[100 * (stats.detectable_paired_proportions(n, share) or np.nan) for share in shares] for n in sizes]
    curves(axes, sizes, differences, [f"{100 * share:.0f} % of the results change" for share in shares])
    axes.set(xscale="log", xlabel="samples", ylabel="detectable difference (points)", ylim=(0, None))
    ticks(axes, [*sizes[::2], 2000])
    axes.legend()


def coefficients_and_prevalence(figure: Figure) -> None:
    """Raw agreement and Cohen's kappa against the share of good replies, from 0.5 to 0.99.

    Raw agreement is 0.9 throughout, kappa falls from 0.80 to 0.14.
    """
    axes, shares = figure.subplots(), (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
    coefficients = []
    for share in shares:
        good = round(1000 * share)
        caught, passed = round(0.9 * good), round(0.1 * (1000 - good))
        labels = [1] * good + [0] * (1000 - good)
        judged = [1] * caught + [0] * (good - caught) + [1] * passed + [0] * (1000 - good - passed)
        kappa = stats.cohen_kappa(judged, labels)
        coefficients.append((kappa.raw, kappa.value))
    curves(axes, shares, coefficients, ("raw agreement", "Cohen's kappa"))
    axes.set(xlabel="share of good replies", ylabel="agreement", ylim=(0, 1))
    axes.legend(loc="lower left")


def vote_of_three(figure: Figure) -> None:
    """Accuracy of a majority of three against the correlation of their errors, for members that are right on 0.6, 0.75 and 0.9.

    At 0 the vote is right on 0.65, 0.84 and 0.97. Each curve falls, ever more slowly, to the members' own accuracy at 1.
    """
    axes, correlation = figure.subplots(), np.linspace(0.001, 0.999, 200)
    # The members' accuracies on a sample follow a beta distribution, whose parameters sum to this.
    total = 1 / correlation - 1
    for accuracy, line in ((0.9, "-"), (0.75, "--"), (0.6, ":")):
        right = accuracy * total
        both = accuracy * (right + 1) / (total + 1)
        vote = 3 * both - 2 * both * (right + 2) / (total + 2)
        axes.plot(correlation, vote, line, label=f"members right on {accuracy:g}")
    axes.set(xlabel="correlation of the members' errors", ylabel="accuracy of the vote", xlim=(0, 1), ylim=(0.5, 1))
    axes.legend()
