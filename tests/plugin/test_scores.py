"""Scores, labels and invalid values of metrics."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("returned", "detail"),
    [
        ("None", None),
        ("NotApplicable('no unit')", None),
        ("'yes'", "returned the string 'yes': return a boolean, a number or None, or declare kind='text'"),
        ("math.nan", "returned nan: a score is a finite number; return None where the metric does not apply"),
        ("-math.inf", "returned -inf: a score is a finite number; return None where the metric does not apply"),
        ("[1]", "returned a list: return a boolean, a number or None"),
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("2.5", "returned 2.5, outside its bounds [0, 1]: correct the metric or its bounds"),
    ],
)
def test_an_invalid_return_value_of_a_metric_is_lost(suite, returned, detail):
    suite.test(
        f"""
        import math, pytest
        from pytest_crucible import NotApplicable, metric

        @metric(bounds=(0, 1))
        def graded(reply, sample):
            return {returned} if sample.id == "q07" else 0.5

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=[graded])
        async def test_sums(sample):
            return "reply"
        """
    )

    result = suite.run("--crucible-json=run.json")

    (estimate,) = suite.json()["experiments"][0]["estimates"]
    lost = int(detail is not None)
    assert (estimate["n"], estimate["lost"], estimate["inapplicable"]) == (19, lost, 1 - lost)
    assert result.ret == 0
    if detail:
        suite.run("--crucible-sample=q07").stdout.fnmatch_lines(
            [f"graded lost: metric 'graded' {detail}".replace("[", "[[]").replace("0, 1]", "0, 1[]]")]
        )


@pytest.mark.parametrize(
    ("scored", "error"),
    [
        ("right=float('nan')", "score(right=...) was given nan: a score is a finite number; *"),
        ("right=[1]", "score(right=...) was given a list: return a boolean, a number or None"),
        ("exact_match='yes'", "score(exact_match=...) was given the string 'yes': *"),
    ],
    ids=["nan", "list", "text"],
)
def test_an_invalid_score_is_refused_at_its_line(suite, scored, error):
    suite.test(
        f"""
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        def test_sums(sample, score):
            if sample.id == "q07":
                score({scored})
            return sample.expected
        """
    )

    (estimate,) = suite.json()["experiments"][0]["estimates"]
    assert (estimate["n"], estimate["lost"]) == (19, 1)
    suite.run("--crucible-sample=q07").stdout.fnmatch_lines([f"E*ValueError: {error}"])


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
