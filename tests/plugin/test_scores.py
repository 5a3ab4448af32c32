"""Scores, labels and invalid values of metrics."""

from __future__ import annotations

RETURNED = {
    "nothing": ("None", None),
    "no_unit": ("NotApplicable('no unit')", None),
    "text": ("'yes'", "returned the string 'yes': return a boolean, a number or None, or declare kind='text'"),
    "nan": ("math.nan", "returned nan: a score is a finite number; return None where the metric does not apply"),
    "infinity": ("-math.inf", "returned -inf: a score is a finite number; return None where the metric does not apply"),
    "a_list": ("[1]", "returned a list: return a boolean, a number or None"),
    "error": ("1 / 0", "raised ZeroDivisionError: division by zero"),
    "large": ("2.5", "returned 2.5, outside its bounds [0, 1]: correct the metric or its bounds"),
}
METRIC = """
@metric(bounds=(0, 1))
def {name}(reply, sample):
    return {returned} if sample.id == "q07" else 0.5
"""
METRICS = f"""
import math, pytest
from pytest_crucible import NotApplicable, metric
{"".join(METRIC.format(name=name, returned=returned) for name, (returned, _) in RETURNED.items())}
@pytest.mark.crucible(dataset="questions.jsonl", metrics=[{", ".join(RETURNED)}])
async def test_sums(sample):
    return "reply"
"""


def test_an_invalid_return_value_of_a_metric_is_lost(suite):
    suite.test(METRICS)

    document = suite.json()

    estimates = document["experiments"][0]["estimates"]
    assert document["exit_status"] == 0
    assert {
        estimate["metric"]: (estimate["n"], estimate["lost"], estimate["inapplicable"]) for estimate in estimates
    } == {name: (19, int(detail is not None), int(detail is None)) for name, (_, detail) in RETURNED.items()}
    output = suite.run("--crucible-sample=q07").stdout.str()
    assert output.count(" lost: metric ") == 6
    for name, (_, detail) in RETURNED.items():
        assert detail is None or f"{name} lost: metric '{name}' {detail}" in output


SCORED = {
    "nan": ("right=float('nan')", "score(right=...) was given nan: a score is a finite number; *"),
    "list": ("right=[1]", "score(right=...) was given a list: return a boolean, a number or None"),
    "text": ("exact_match='yes'", "score(exact_match=...) was given the string 'yes': *"),
}
EXPERIMENT = """
@pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
def test_{name}(sample, score):
    if sample.id == "q07":
        score({scored})
    return sample.expected
"""


def test_an_invalid_score_is_refused_at_its_line(suite):
    suite.test(
        "import pytest\n" + "".join(EXPERIMENT.format(name=name, scored=scored) for name, (scored, _) in SCORED.items())
    )

    experiments = suite.json()["experiments"]

    assert [(estimate["n"], estimate["lost"]) for part in experiments for estimate in part["estimates"]] == [
        (19, 1)
    ] * 3
    result = suite.run("--crucible-sample=q07")
    result.stdout.fnmatch_lines([f"E*ValueError: {error}" for _, error in SCORED.values()])


def test_labels_are_kept_and_not_judged(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl")
        @pytest.mark.quality_target("right == 1")
        def test_sums(sample, score):
            score(right=True, style="terse")
        """
    )

    document = suite.json()

    assert [estimate["metric"] for estimate in document["experiments"][0]["estimates"]] == ["right"]
