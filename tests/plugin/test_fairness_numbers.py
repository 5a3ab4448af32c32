"""Every number of `crucible show --by --json` on random decisions with ties, beside those of fairlearn, scikit-learn and others."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from pytest_crucible.cli import main

SEXES = "fmx"
TEST = """
    import pytest

    from pytest_crucible import fairness

    DECISION = fairness.decision(
        lambda reply: reply.text.split()[0],
        favourable="1",
        confidence=lambda reply: None if reply.text.endswith("none") else float(reply.text.split()[1]),
    )

    @pytest.mark.crucible(dataset="people.jsonl", metrics=DECISION)
    @pytest.mark.quality_target(fairness.demographic_parity(by="sex"))
    @pytest.mark.ab_compare("gap(selected by sex)")
    async def test_loans(sample, sampler):
        return await sampler.generate(sample.input)
"""


def draw_people(seed, n=240):
    """Return sexes, expected answers, and each arm's decisions and probabilities; NaN is a probability that is not stated."""
    rng = np.random.default_rng(seed)
    sex = rng.permutation(np.resize(list(SEXES), n))
    label = rng.permutation(np.resize([0, 1], n))
    arms = {}
    for arm, noise in (("v2", 0.3), ("v1", 0.6)):
        # Nine values make ties; every other seed mixes them with values that have none.
        stated = np.clip(0.5 + 0.3 * (label - 0.5) + rng.normal(0, noise, n), 0, 1)
        stated = np.where(rng.random(n) < (0.5 if seed % 2 else 1.0), np.clip(np.round(stated, 1), 0, 1), stated)
        arms[arm] = (stated > 0.45).astype(int), np.where(rng.random(n) < 0.1, np.nan, stated)
    return sex, label, arms


@pytest.fixture(params=[1, 2])
def people(request, suite, capsys):
    """Run the suite on random decisions; return them with what `crucible show --by --json` prints."""
    sex, label, arms = draw_people(request.param)
    suite.write_rows(
        "people.jsonl",
        [
            {"id": f"s{k}", "input": f"q{k}", "expected": str(y), "sex": s}
            for k, (y, s) in enumerate(zip(label, sex, strict=True))
        ],
    )
    for arm, (decision, stated) in arms.items():
        texts = [f"{d} {'none' if np.isnan(p) else repr(float(p))}" for d, p in zip(decision, stated, strict=True)]
        suite.write_rows(f"answers/{arm}.jsonl", [{"sample_id": f"s{k}", "text": text} for k, text in enumerate(texts)])
    suite.test(TEST, name="test_sums")
    suite.run("--crucible-adapter=v2", "--compare=v1")
    capsys.readouterr()
    assert main(["show", "--by", "sex", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)["experiments"]
    return sex, label, arms, document


def rates_of(label, decision, sex):
    """Return fairlearn's frame of scikit-learn's metrics."""
    fairlearn, sklearn = pytest.importorskip("fairlearn.metrics"), pytest.importorskip("sklearn.metrics")
    metrics = {
        "n": fairlearn.count,
        "base_rate": lambda y_true, y_pred: float(np.mean(y_true)),
        "selected": fairlearn.selection_rate,
        "true_positive": fairlearn.true_positive_rate,
        "false_positive": fairlearn.false_positive_rate,
        "right_if_selected": sklearn.precision_score,
        "correct": sklearn.accuracy_score,
    }
    return fairlearn.MetricFrame(metrics=metrics, y_true=label, y_pred=decision, sensitive_features=sex)


def overconfidence_of(label, stated, sex):
    """Return fairlearn's frame of the mean distance of the probability from the outcome."""
    fairlearn = pytest.importorskip("fairlearn.metrics")
    has = ~np.isnan(stated)
    return fairlearn.MetricFrame(
        metrics=lambda y_true, y_pred: float(np.mean(y_pred - y_true)),
        y_true=label[has], y_pred=stated[has], sensitive_features=sex[has],
    )  # fmt: skip


def reliability_of(label, stated):
    """Return scikit-learn's reliability of some probabilities."""
    from scipy.stats import foldnorm

    metrics, calibration = pytest.importorskip("sklearn.metrics"), pytest.importorskip("sklearn.calibration")
    label, stated = label[~np.isnan(stated)], stated[~np.isnan(stated)]
    observed, mean_stated = calibration.calibration_curve(label, stated, n_bins=10)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, 11)[1:-1], stated), minlength=10)
    counts = counts[counts > 0]
    gaps = np.abs(observed - mean_stated)
    deviations = np.sqrt(observed * (1 - observed) / counts)
    biased = [foldnorm.mean(gap / sd, scale=sd) if sd else gap for gap, sd in zip(gaps, deviations, strict=True)]
    bins = zip(counts, mean_stated, observed, strict=True)
    return {
        "n": len(label),
        "bins": [{"n": n, "confidence": confidence, "rate": rate} for n, confidence, rate in bins],
        "ece": np.average(gaps, weights=counts),
        "ece_debiased": max(0.0, np.average(2 * gaps - biased, weights=counts)),
        "auroc": metrics.roc_auc_score(label, stated),
    }


def theil_of(label, decision):
    """AIF360's definition."""
    benefits = decision - label + 1
    shares = benefits[benefits > 0] / benefits.mean()
    return float(np.sum(shares * np.log(shares)) / len(benefits))


def assert_alike(computed, expected):
    """Compare all leaves of two documents: a number that is found and not expected fails too."""
    computed, expected = dict(leaves(computed)), dict(leaves(expected))
    numbers = {path: value for path, value in expected.items() if not isinstance(value, str)}
    assert computed.keys() == expected.keys()
    assert {path: computed[path] for path in numbers} == pytest.approx(numbers, rel=1e-9, abs=1e-12)
    assert all(computed[path] == value for path, value in expected.items() if path not in numbers)


def leaves(value, path=""):
    if not isinstance(value, list | dict):
        yield path, value
        return
    for name, part in enumerate(value) if isinstance(value, list) else value.items():
        yield from leaves(part, f"{path}/{name}")


def test_decisions_by_slice(people):
    sex, label, arms, document = people
    for result, (arm, (decision, stated)) in zip(document["fairness"], arms.items(), strict=True):
        frame = rates_of(label, decision, sex).by_group
        reference, rows = frame.loc["f"], {name: frame.loc[name] for name in SEXES}

        def minus(name, metric, reference=reference, rows=rows):
            return rows[name][metric] - reference[metric]

        expected = {
            "arm": arm,
            "field": "sex",
            "slices": [{"slice": name, **row} for name, row in rows.items()],
            "reference": "f",
            "differences": [
                {
                    "slice": name,
                    "demographic_parity": minus(name, "selected"),
                    "disparate_impact": rows[name]["selected"] / reference["selected"],
                    "equal_opportunity": minus(name, "true_positive"),
                    "average_odds": (minus(name, "true_positive") + minus(name, "false_positive")) / 2,
                    "predictive_parity": minus(name, "right_if_selected"),
                }
                for name in "mx"
            ],
            "theil": theil_of(label, decision),
            "reliability": [
                {"slice": name, **reliability_of(label[sex == name], stated[sex == name])} for name in SEXES
            ],
            "base_rates_differ": result["base_rates_differ"],
        }
        assert_alike(result, expected)


def test_means_of_slices_and_their_intervals(people):
    from scipy import stats
    from statsmodels.stats.proportion import proportion_confint

    sex, label, arms, document = people
    decision, stated = arms["v2"]
    of_slices = [row for row in document["slices"] if "slice" in row]
    values = {
        "selected": decision * 1.0,
        "true_positive": np.where(label == 1, decision, np.nan),
        "false_positive": np.where(label == 0, decision, np.nan),
        "right_if_selected": np.where(decision == 1, label, np.nan),
        "overconfidence": stated - label,
        "correct": (decision == label) * 1.0,
    }
    assert {(row["metric"], row["slice"]) for row in of_slices} == {
        (metric, name) for metric in values for name in SEXES
    }
    for row in of_slices:
        inside = values[row["metric"]][sex == row["slice"]]
        inside = inside[~np.isnan(inside)]
        n, mean = len(inside), inside.mean()
        if row["metric"] == "overconfidence":
            interval = stats.t.interval(0.95, n - 1, loc=mean, scale=stats.sem(inside))
        else:
            interval = proportion_confint(inside.sum(), n, method="wilson")
        assert (row["n"], row["lost"]) == (n, 0)
        assert (row["value"], row["low"], row["high"]) == pytest.approx((mean, *interval), abs=1e-9)


def test_extremes_and_their_changes(people):
    fairlearn = pytest.importorskip("fairlearn.metrics")
    sex, label, arms, document = people
    expected = {}
    for arm, (decision, stated) in arms.items():
        frame, fields = rates_of(label, decision, sex), {"y_true": label, "y_pred": decision, "sensitive_features": sex}
        expected[arm] = {
            "gap(selected by sex)": fairlearn.demographic_parity_difference(**fields),
            "ratio(selected by sex)": fairlearn.demographic_parity_ratio(**fields),
            "gap(true_positive, false_positive by sex)": fairlearn.equalized_odds_difference(**fields),
            "gap(right_if_selected by sex)": frame.difference()["right_if_selected"],
            "gap(overconfidence by sex)": overconfidence_of(label, stated, sex).difference(),
            "worst(correct by sex)": frame.group_min()["correct"],
        }
    slices = [row for row in document["slices"] if "expression" in row]
    assert len(slices) == 12
    for row in slices:
        assert row["value"] == pytest.approx(expected[row["arm"]][row["expression"]])
        assert row["quality"] == pytest.approx(np.mean(arms[row["arm"]][0] == label))
        assert row["low"] <= row["value"] <= row["high"]
    assert len(document["changes"]) == 6
    for change in document["changes"]:
        new, old = (expected[arm][change["measure"]] for arm in ("v2", "v1"))
        # Positive is fairer, or better.
        by_statistic = {"gap": old - new, "ratio": math.log(new / old), "worst": new - old}
        assert change["difference"] == pytest.approx(by_statistic[change["measure"].partition("(")[0]])
        assert change["low"] <= change["difference"] <= change["high"]
