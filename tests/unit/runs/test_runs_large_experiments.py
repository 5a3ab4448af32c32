"""An experiment that is read in batches has the numbers and verdicts of the same one in memory, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from plan_builders import plan_of

from pytest_crucible.plan.targets import parse_target
from pytest_crucible.plan.variants import VariantNames, variant_terms
from pytest_crucible.records import (
    Contrast,
    Lost,
    MetricFacts,
    NoTwin,
    Observation,
    Outcome,
    PlannedVariant,
    Reply,
    Run,
    Sample,
    Twin,
    Unit,
    Value,
    Variant,
)
from pytest_crucible.records.datasets import AppliesTo
from pytest_crucible.records.errors import StoreError
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.json import run_document
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore

SAMPLES = 130
Draw = Callable[[random.Random, int], Value | None]
"""Returns a score of the arm with a number; None does not apply."""
KINDS: dict[str, tuple[MetricFacts, Draw]] = {
    "binary": (MetricFacts(name="score", kind="binary", low=0, high=1), lambda rng, arm: rng.random() < 0.8 - arm / 8),
    "undeclared": (MetricFacts(name="score"), lambda rng, arm: rng.random() < 0.7 + arm / 10),
    "bounded": (MetricFacts(name="score", kind="bounded", low=0, high=1), lambda rng, arm: rng.betavariate(3, 1 + arm)),
    "ordinal": (MetricFacts(name="score", kind="ordinal", low=1, high=5), lambda rng, arm: rng.randint(1 + arm % 2, 5)),
    "count": (
        MetricFacts(name="score", kind="count", low=0, direction="lower"),
        lambda rng, arm: min(int(rng.expovariate(0.5)), 9),
    ),
    "positive": (
        MetricFacts(name="score", kind="positive", low=0, direction="lower"),
        lambda rng, arm: rng.lognormvariate(arm / 5, 1),
    ),
    "reach": (MetricFacts(name="score", kind="bounded", low=0, high=1, reach=0.9), lambda rng, arm: rng.random()),
}
REGRESSION = (Contrast(metric="score", baseline="v1"),)
LEFT_OUT = ("effects", "detectable_falls", "needed", "note", "suggested_reach")


def store_scores(
    store: RunStore,
    facts: MetricFacts,
    draw: Draw,
    *,
    arms: Sequence[str] = ("v2", "v1"),
    groups: int = 0,
    lost: float = 0.0,
    failed: float = 0.0,
    skipped: float = 0.0,
    **fields: Any,
) -> None:
    """Store a finished run with scores drawn by chance; shares of its replies are lost, failed and skipped."""
    rng = random.Random(7)
    samples = [
        Sample(
            id=f"q{k}",
            input=k,
            group=f"g{rng.randrange(groups)}" if groups else None,
            expected=("approve", "deny", None)[k % 3],
        )
        for k in range(SAMPLES)
    ]
    plan = plan_of(*arms, n=SAMPLES, groups=groups or None, metrics=(facts,), **fields)
    settings = {"seed": 3, "alpha": 0.05, "correction": "holm", "git": None, "environment": {"rules": RULES_VERSION}}
    store.begin_run("first", started="2026-01-01", **settings)
    key = store.add_experiment("first", plan, samples)
    writer = store.writer()
    for number, name in enumerate(arms):
        own = store.add_arm(key, number, name, name)
        for position in range(SAMPLES):
            for repeat in range(plan.repeats):
                unit, chance = Unit(position, 0, number, repeat), rng.random()
                if chance < lost:
                    writer.add(Outcome(unit, lost="error"), own, [], [Lost(unit, None, "error", "gone")])
                elif chance < lost + failed:
                    writer.add(Outcome(unit, failure="assertion"), own, [], [])
                elif chance < lost + failed + skipped:
                    writer.add(Outcome(unit, skipped=True), own, [], [])
                else:
                    scored = [Observation(unit, "score", draw(rng, number))]
                    writer.add(Outcome(unit, reply=Reply(text="")), own, scored, [])
    writer.close()
    store.finish_experiment(key)


def store_twins(store: RunStore, facts: MetricFacts, draw: Draw, *terms: str) -> None:
    """Store a finished run of one arm on samples and on their twins, which every fourth sample lacks; targets name them."""
    rng = random.Random(5)
    samples = [Sample(id=f"q{k}", input=k) for k in range(SAMPLES)]
    twins = {f"q{k}": NoTwin("none") if k % 4 == 0 else Twin(input=-k) for k in range(SAMPLES)}
    planned = PlannedVariant(name="she", sha256="she", samples=SAMPLES - 33, reasons={"none": 33})
    names = VariantNames(("she",), {})
    plan = plan_of(
        "v2", n=SAMPLES, metrics=(facts,), variants=(planned,), targets=tuple(map(parse_target, terms)),
        variant_terms=variant_terms([parse_target(term).metric for term in terms], {"score": facts}, names, open_metrics=False),
    )  # fmt: skip
    settings = {"seed": 3, "alpha": 0.05, "correction": "holm", "git": None, "environment": {"rules": RULES_VERSION}}
    store.begin_run("first", started="2026-01-01", **settings)
    key = store.add_experiment("first", plan, samples, (Variant(name="she", twins=twins),))
    own = store.add_arm(key, 0, "v2", "v2")
    of_twins = store.add_arm(key, 1, "v2", "v2 she", variant=1, original=own)
    writer = store.writer()
    for position in range(SAMPLES):
        for arm, variant in ((own, 0), (of_twins, 1)):
            unit = Unit(position, variant, 0, 0)
            if variant == 0 or position % 4:
                writer.add(
                    Outcome(unit, reply=Reply(text="")), arm, [Observation(unit, "score", draw(rng, variant))], []
                )
    writer.close()
    store.finish_experiment(key)


def conclude_run(store: RunStore, **settings: Any) -> Run:
    return conclude(store, "first", alpha=0.05, strict=False, interrupted=False, amend=lambda verdict: None, **settings)


def document_of(run: Run) -> Any:
    """Return a run's experiment as JSON, without what batches leave out."""
    (experiment,) = to_plain(run_document(run))["experiments"]
    sections = {name: part for name, part in experiment["sections"].items() if name == "losses"}
    return {
        **experiment,
        "sections": sections,
        "comparisons": [
            {name: value for name, value in comparison.items() if name not in LEFT_OUT}
            for comparison in experiment["comparisons"]
        ],
        # Its reason may name what is left out.
        "verdicts": [{**verdict, "reason": ""} for verdict in experiment["verdicts"]],
    }


def check_equal(store: RunStore) -> Any:
    in_memory = document_of(conclude_run(store))
    assert document_of(conclude_run(store, most_in_memory=100)) == in_memory
    return in_memory


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [0, 40])
def test_batches_have_the_verdicts_of_memory(store, kind, groups):
    targets = (parse_target("score >= 0.7"), parse_target("score <= 0.7"))
    store_scores(store, *KINDS[kind], groups=groups, targets=targets, contrasts=REGRESSION)

    assert check_equal(store)["comparisons"][0]["pairs"] == SAMPLES


@pytest.mark.parametrize("kind", KINDS)
def test_lost_failed_and_skipped_replies_count_as_in_memory(store, kind):
    shares = {"lost": 0.05, "failed": 0.1, "skipped": 0.05}
    store_scores(store, *KINDS[kind], **shares, targets=(parse_target("score >= 0.5"),), contrasts=REGRESSION)

    document = check_equal(store)
    assert document["comparisons"][0]["lost"] > 0
    assert document["sections"]["losses"]["failures"]["v2"]


@pytest.mark.parametrize("kind", KINDS)
def test_repeats_are_averaged_in_their_samples(store, kind):
    store_scores(
        store, *KINDS[kind], repeats=3, lost=0.02, targets=(parse_target("score >= 0.5"),), contrasts=REGRESSION
    )

    assert check_equal(store)["estimates"][0]["n"] == SAMPLES


@pytest.mark.parametrize(
    "limits",
    [{"margin": 0.1, "alternative": "non-inferior"}, {"margin": 0.3, "alternative": "equivalent"},
     {"alternative": "superior"}, {"relevant": 0.2}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", ["binary", "bounded", "ordinal"])
def test_margins_are_decided_by_the_same_bounds(store, kind, limits):
    store_scores(store, *KINDS[kind], contrasts=(Contrast(metric="score", baseline="v1", **limits),))

    assert check_equal(store)["verdicts"]


def test_each_baseline_is_compared(store):
    contrasts = tuple(Contrast(metric="score", baseline=name) for name in ("v1", "v0", "old"))
    store_scores(store, *KINDS["bounded"], arms=("v2", "v1", "v0", "old"), contrasts=contrasts)

    assert len(check_equal(store)["comparisons"]) == 3


@pytest.mark.parametrize("text", ["rate(score >= 0.5) >= 0.3", "p50(score) <= 0.9", "count(score > 0.5) <= 200"])
def test_other_statistics_have_their_form_for_batches_or_none(store, text):
    store_scores(store, *KINDS["bounded"], targets=(parse_target(text),))
    (result,) = conclude_run(store, most_in_memory=100).experiments[0].targets

    if "not computed above" in result.note:
        assert result.evidence.observed.value is None
    else:
        check_equal(store)


@pytest.mark.parametrize("groups", [0, 40])
@pytest.mark.parametrize("statistic", ["pass^", "pass@"])
def test_chances_of_draws_are_those_of_memory(store, statistic, groups):
    targets = (parse_target(f"{statistic}2(score) >= 0.3"), parse_target(f"{statistic}3(score) >= 0.3"))
    contrast = Contrast(metric="score", baseline="v1", statistic=statistic, draws=2)
    shares = {"repeats": 3, "lost": 0.05, "failed": 0.05, "groups": groups}
    store_scores(store, *KINDS["binary"], **shares, targets=targets, contrasts=(contrast,))

    check_equal(store)
    (comparison,) = conclude_run(store, most_in_memory=100).experiments[0].comparisons
    assert comparison.evidence.observed.value is not None


@pytest.mark.parametrize("kind", ["binary", "bounded"])
def test_rates_of_samples_with_unequal_numbers_of_replies_are_those_of_memory_or_undecided(store, kind):
    target = parse_target("rate(score >= 0.5) >= 0.3")
    store_scores(store, *KINDS[kind], repeats=3, lost=0.1, targets=(target,))
    (result,) = conclude_run(store, most_in_memory=100).experiments[0].targets

    assert "unequal numbers of replies" in result.note or check_equal(store)


def test_a_sample_beyond_a_declared_reach_is_found_in_any_batch(store):
    facts, draw = KINDS["reach"]
    store_scores(store, replace(facts, reach=0.5), draw, contrasts=REGRESSION)

    assert check_equal(store)["comparisons"][0]["beyond_reach"] is not None


def test_a_metric_that_no_reply_has_a_value_of_is_an_error_with_its_message(store):
    store_scores(
        store, MetricFacts(name="score", kind="bounded", low=0, high=1), lambda rng, arm: None, contrasts=REGRESSION
    )

    assert check_equal(store)["estimates"][0]["inapplicable"] == SAMPLES


def test_a_metric_of_some_samples_is_not_about_the_others(store):
    facts = MetricFacts(name="score", kind="binary", low=0, high=1, applies_to=AppliesTo("approve", is_expected=True))
    store_scores(store, facts, lambda rng, arm: rng.random() < 0.5, failed=0.3, targets=(parse_target("score >= 0.5"),))

    assert check_equal(store)["estimates"][0]["inapplicable"] > 0


def test_arms_that_a_metric_applies_to_other_samples_of_are_not_compared_in_batches(store):
    facts = MetricFacts(name="score", kind="bounded", low=0, high=1)
    store_scores(store, facts, lambda rng, arm: rng.choice([None, 0.5, 1.0]), contrasts=REGRESSION)
    (verdict,) = conclude_run(store, most_in_memory=100).verdicts

    assert verdict.state == "undecided"
    assert "score applies to other samples in each arm" in verdict.reason


def test_a_statistic_that_needs_all_values_is_undecided_and_says_above_which_number(store):
    facts, draw = KINDS["bounded"]
    store_scores(store, facts, draw, targets=(parse_target("auroc(score) >= 0.7"),))
    (verdict,) = conclude_run(store, most_in_memory=100).verdicts

    assert verdict.state == "undecided"
    assert "auroc(score) is not computed for so many" in verdict.reason


@pytest.mark.parametrize("kind", ["binary", "bounded"])
def test_samples_without_a_twin_are_skipped(store, kind):
    store_twins(store, *KINDS[kind], "score.drop[she] <= 0.5", "score[she] >= 0.1")

    document = check_equal(store)
    assert [estimate["inapplicable"] for estimate in document["estimates"]] == [0, 33, 33]


def test_a_large_run_says_what_is_left_out(store):
    store_scores(store, *KINDS["bounded"], contrasts=REGRESSION)
    sections = conclude_run(store, most_in_memory=100).experiments[0].sections

    assert {"worst_samples", "drift"} <= set(sections["large_run"].result.sections)
    assert "260 replies, more than 100, were analysed in batches" in sections["large_run"].view.notes[0].text
    assert (
        "run_checks, which can fail a run by its doubts, has checked nothing"
        in sections["large_run"].view.notes[0].text
    )
    assert "worst_samples" not in sections


def test_rows_in_parquet_parts_have_the_same_numbers(store, tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    from pytest_crucible.store.part_moves import move_rows
    from pytest_crucible.store.parts import ResultsFolder

    shares = {"lost": 0.05, "failed": 0.1, "skipped": 0.05, "repeats": 2}
    store_scores(store, *KINDS["bounded"], **shares, targets=(parse_target("score >= 0.5"),), contrasts=REGRESSION)
    in_memory = document_of(conclude_run(store))
    move_rows(store, ResultsFolder(str(tmp_path / "parts")), "first")

    assert document_of(conclude_run(store, most_in_memory=100)) == in_memory


@pytest.mark.parametrize("place", [{"position": SAMPLES + 3}, {"epoch": 1}], ids=str)
def test_a_row_of_no_planned_reply_in_parquet_parts_is_an_error_and_no_score_of_another(store, tmp_path, place):
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    from pytest_crucible.store.part_moves import move_rows
    from pytest_crucible.store.parts import ResultsFolder

    store_scores(store, *KINDS["bounded"], contrasts=REGRESSION)
    arm = store.scalar("SELECT MIN(id) FROM arms")
    row = {"arm": arm, "position": 0, "epoch": 0, "metric": "score", "value": 0.5, "is_bool": False}
    store.insert(schema.observations, [row | place])
    move_rows(store, ResultsFolder(str(tmp_path / "parts")), "first")

    with pytest.raises(StoreError, match="have replies that its plan does not have: restore the files"):
        conclude_run(store, most_in_memory=100)


def test_a_postgresql_store_has_the_same_numbers(postgresql):
    with closing(RunStore(postgresql)) as store:
        store_scores(store, *KINDS["undeclared"], lost=0.05, failed=0.1, groups=20, contrasts=REGRESSION)

        check_equal(store)
