"""AUROC and calibration error as targets and as comparisons, from the marker to the report and back from the store."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from pytest_crucible.cli import main

SAMPLES = """
    import pytest
    from pytest_crucible import Reply, Sample, metric

    def draw(k):
        return [Sample(id=f"q{n:02}", input=str(n), expected="yes" if n % 2 else "no") for n in range(k)]

    # The candidate is sure of every second answer more; the baseline is not, and errs more often.
    SCORES = {"v2": lambda n: 0.2 + 0.6 * (n % 2) + 0.01 * (n % 7), "v1": lambda n: 0.3 + 0.05 * (n % 5)}
    RIGHT = {"v2": lambda n: n % 10 != 0, "v1": lambda n: n % 3 != 0}

    @pytest.mark.crucible(dataset=draw(60))
"""


def experiment(*marks: str) -> str:
    body = """
    async def test_claims(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        n, arm = int(sample.id[1:]), reply.text
        score(score=SCORES[arm](n), confidence=0.95 if arm == "v1" else 0.9, accuracy=RIGHT[arm](n))
    """
    return SAMPLES + "".join(f"    @pytest.mark.{mark}\n" for mark in marks) + body


@pytest.fixture
def claims(suite):
    """Two scripted arms that say their own names."""
    for name in ("v1", "v2"):
        suite.write_rows(f"answers/{name}.jsonl", [{"sample_id": f"q{n:02}", "text": name} for n in range(60)])
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2")})
    return suite


ARMS = ("--crucible-adapter=v2", "--compare=v1")
TARGETS = 'quality_target("auroc(score) >= 0.9", "ece(confidence, accuracy) <= 0.1")'
COMPARED = 'ab_compare("auroc(score)", "ece(confidence, accuracy)", "rate(confidence >= 0.93)", "accuracy")'


def test_both_are_targets_and_comparisons(claims):
    claims.test(experiment(TARGETS, COMPARED), name="test_sums")

    (document,) = claims.json(*ARMS)["experiments"]

    verdicts = {verdict["subject"]: (verdict["state"], verdict["proven"]) for verdict in document["verdicts"]}
    assert verdicts == {
        "auroc(score) >= 0.9": ("met", True),
        "ece(confidence, accuracy) <= 0.1": ("met", True),
        "auroc(score): v2 vs v1": ("met", True),
        "ece(confidence, accuracy): v2 vs v1": ("met", True),
        "rate(confidence >= 0.93): v2 vs v1": ("missed", True),
        "accuracy: v2 vs v1": ("met", True),
    }
    labels = [(comparison["metric"], comparison["statistic"]) for comparison in document["comparisons"]]
    assert labels == [
        ("score", "auroc"), ("confidence", "ece vs accuracy"), ("confidence", "rate >= 0.93"), ("accuracy", "mean")
    ]  # fmt: skip


def test_a_missed_comparison_fails_the_session(claims):
    claims.test(experiment(COMPARED), name="test_sums")

    result = claims.run(*ARMS)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*rate(confidence >= 0.93): v2 vs v1 - missed: *"])


def test_a_stored_run_is_shown_with_the_same_verdicts(claims, monkeypatch, capsys):
    claims.test(experiment(TARGETS, COMPARED), name="test_sums")
    (before,) = claims.json(*ARMS, "--crucible-report=run.html")["experiments"]
    monkeypatch.chdir(claims.path)
    capsys.readouterr()

    main(["show", "latest", "--json"])

    (output,) = json.loads(capsys.readouterr().out)["experiments"]
    assert (output["verdicts"], output["comparisons"]) == (before["verdicts"], before["comparisons"])
    assert "auroc(score) &gt;= 0.9" in (claims.path / "run.html").read_text(encoding="utf-8")


@pytest.mark.uses("slices")
@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        (
            'quality_target("auroc(score) >= 90")',
            "target 'auroc(score) >= 90' asks for 90, but 'auroc(score)' lies between 0 and 1: "
            "write a value in that range, a percentage as a fraction",
        ),
        (
            'ab_compare("auroc(score)", margin=1.0)',
            "ab_compare('auroc(score)') has margin=1, and no two values are further apart than 1: "
            "write how much worse is still good enough, such as 0.05",
        ),
        (
            'quality_target("auroc(score by topic) >= 0.9")',
            "target 'auroc(score by topic) >= 0.9' has 'by topic' outside of a statistic of slices: "
            "write worst(score by topic), gap(score by topic), ratio(score by topic) or overall(score by topic, macro)",
        ),
    ],
)
def test_an_invalid_statistic_is_refused_before_sampling(claims, mark, sentence):
    claims.test(experiment(mark), name="test_sums")

    result = claims.run(*ARMS)

    assert result.ret == 4
    assert sentence in str(result.stderr)


def test_samples_without_labels_have_no_area(claims):
    claims.test(experiment('quality_target("auroc(score) >= 0.9")').replace('"yes"', '"SUPPORTS"'), name="test_sums")

    result = claims.run("--crucible-adapter=v2")

    assert result.ret == 4
    assert (
        "target 'auroc(score) >= 0.9' needs a yes-or-no expected, and sample 'q01' has 'SUPPORTS': "
        "write true or false, yes or no, 1 or 0" in str(result.stderr)
    )


def test_a_confidence_in_percent_leaves_the_target_undecided_with_a_reason(claims):
    text = experiment('quality_target("ece(confidence, accuracy) <= 0.1")').replace("else 0.9", "else 90")
    claims.test(text, name="test_sums")

    (verdict,) = claims.json("--crucible-adapter=v2")["experiments"][0]["verdicts"]

    assert (verdict["state"], verdict["reason"]) == ("undecided", "a confidence or an accuracy lies outside 0 to 1")


# -- kinds that only the values show ----------------------------------------------------------------------------------

MARGIN_ERROR = (
    "ab_compare('accuracy') has margin=5, and no two values are further apart than 1: "
    "write how much worse is still good enough, such as 0.05"
)
TARGET_ERROR = (
    "target 'accuracy <= 80' asks for 80, but 'accuracy' lies between 0 and 1: "
    "write a value in that range, a percentage as a fraction"
)
IMPOSSIBLE = 'quality_target("accuracy <= 80")', 'ab_compare("accuracy", margin=5)'


def test_a_target_and_a_margin_that_nothing_could_miss_are_errors_of_the_suite(claims, monkeypatch, capsys):
    """The kind is inferred, so the marker alone cannot be refused; the values show that accuracy is yes or no."""
    claims.test(experiment(*IMPOSSIBLE), name="test_sums")

    result = claims.run(*ARMS)

    assert result.ret == 1
    text = result.stdout.str()
    assert MARGIN_ERROR in text
    assert TARGET_ERROR in text
    assert "met, proven" not in text

    monkeypatch.chdir(claims.path)
    capsys.readouterr()
    main(["show", "latest", "--json"])
    verdicts = json.loads(capsys.readouterr().out)["experiments"][0]["verdicts"]
    assert [
        (verdict["state"], verdict["proven"], verdict["suite_error"], verdict["reason"]) for verdict in verdicts
    ] == [
        ("undecided", False, True, TARGET_ERROR),
        ("undecided", False, True, MARGIN_ERROR),
    ]


def test_a_stored_proof_of_an_impossible_margin_is_not_repeated(claims, monkeypatch, capsys):
    """A run of an earlier version has stored it as met and proven."""
    claims.test(experiment('ab_compare("accuracy", margin=5)'), name="test_sums")
    claims.run(*ARMS)
    with contextlib.closing(sqlite3.connect(claims.path / ".crucible" / "crucible.db")) as store, store:
        store.execute("UPDATE verdicts SET state = 'met', proven = 1, reason = 'one-sided bounds'")

    monkeypatch.chdir(claims.path)
    capsys.readouterr()
    main(["show", "latest", "--json"])
    (verdict,) = json.loads(capsys.readouterr().out)["experiments"][0]["verdicts"]
    assert (verdict["state"], verdict["proven"], verdict["suite_error"]) == ("undecided", False, True)


def test_stored_runs_are_not_compared_by_an_impossible_margin(claims, monkeypatch, capsys):
    claims.test(experiment('ab_compare("accuracy")'), name="test_sums")
    claims.run(*ARMS)

    monkeypatch.chdir(claims.path)
    capsys.readouterr()
    status = main(["compare", "latest", "latest:v1", "--metric", "accuracy", "--margin", "5"])
    out, err = capsys.readouterr()
    assert (status, err) == (1, "")
    assert MARGIN_ERROR in out
    assert "error in the suite" in out
