"""Published numbers of Thinker's evaluations come out digit for digit; the strict policy differs where it should."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from pytest_crucible.features.cns3 import thinker
from pytest_crucible.features.cns3.chirality import chirality
from pytest_crucible.features.cns3.judgement import MIN_ENTAILMENT, MIN_SIMILARITY

RUNS = {
    path.stem: json.loads(path.read_text())["payload"]["metrics"] for path in Path(__file__).parent.glob("runs/*.json")
}
LAST = "eval_20251119T023617.442984Z"


async def value(number: float) -> float:
    return number


def stages_of(metrics) -> list[thinker.Stages]:
    """The stages again, from the scores of a run. It gives counts of valid schemas and citations, which are of all or none."""
    several = metrics.get("per_sample_metrics")
    if several:
        valid = [(sample["schema_valid"], sample["citation_valid"]) for sample in several]
    else:
        total = range(len(metrics["entailment_scores"]))
        valid = [(k < metrics["schema_valid"], k < metrics["citation_valid"]) for k in total]
    scores = zip(metrics["entailment_scores"], metrics["similarity_scores"], strict=True)
    return [
        asyncio.run(
            thinker.stages(schema=schema, citation=citation, entailment=partial(value, e), similarity=partial(value, s))
        )
        for (schema, citation), (e, s) in zip(valid, scores, strict=True)
    ]


AGGREGATES = {
    "schema_compliance_rate": (fmean, "schema_valid"),
    "citation_accuracy_rate": (fmean, "citation_valid"),
    "entailment_pass_rate": (fmean, "entailment_pass"),
    "semantic_similarity_rate": (fmean, "similarity_pass"),
    "paraphrase_acceptance_rate": (fmean, "paraphrase_accepted"),
    "overall_pass_rate": (fmean, "overall_pass"),
    "mean_entailment_score": (fmean, "entailment_score"),
    "mean_semantic_similarity": (fmean, "semantic_similarity"),
    "std_entailment_score": (pstdev, "entailment_score"),
    "std_semantic_similarity": (pstdev, "semantic_similarity"),
}
"""Thinker's rates and means, which are over all samples, zeros included."""


@pytest.mark.parametrize("run", RUNS)
def test_every_rate_and_mean_of_a_published_run_is_reproduced(run):
    several = stages_of(RUNS[run])
    computed = {
        name: statistic([getattr(stages, field) for stages in several])
        for name, (statistic, field) in AGGREGATES.items()
        if name in RUNS[run]
    }

    assert {name: RUNS[run][name] for name in computed} == pytest.approx(computed, rel=1e-12)
    assert len(computed) >= 8


def test_every_flag_and_chirality_of_every_sample_is_reproduced():
    for sample, stages in zip(RUNS[LAST]["per_sample_metrics"], stages_of(RUNS[LAST]), strict=True):
        assert {name: sample[name] for name in thinker.Stages.__slots__} == asdict(stages)
        parts = sample["fisher_rao_distance"], sample["evidence_overlap"], sample["chirality_polarity_conflict"]
        assert chirality(*parts) == pytest.approx(sample["chirality_score"], rel=1e-12)


@pytest.mark.parametrize("run", RUNS)
def test_chirality_means_are_those_of_the_distances(run):
    metrics = RUNS[run]

    assert sum(metrics["fisher_rao_distances"]) / 5 == pytest.approx(metrics["mean_fisher_rao_distance"], rel=1e-12)
    assert sum(metrics["chirality_scores"]) / 5 == pytest.approx(metrics["mean_chirality_score"], rel=1e-12)


def test_thinker_passes_three_of_five_samples_and_the_strict_policy_one():
    samples = RUNS[LAST]["per_sample_metrics"]
    strict = [
        sample["schema_valid"]
        and sample["citation_valid"]
        and sample["entailment_score"] >= MIN_ENTAILMENT
        and sample["semantic_similarity"] >= MIN_SIMILARITY
        for sample in samples
    ]

    assert sum(stages.overall_pass for stages in stages_of(RUNS[LAST])) == 3
    assert sum(strict) == 1


def test_a_failed_citation_leaves_zeros_and_calls_no_model():
    async def never() -> float:
        raise AssertionError("it is not measured")

    scored = asyncio.run(thinker.stages(schema=True, citation=False, entailment=never, similarity=never))

    assert (scored.entailment_score, scored.semantic_similarity, scored.overall_pass) == (0.0, 0.0, False)


@pytest.mark.parametrize(
    ("reply", "valid"),
    [
        ("CLAIM[c1]: a\nRELATION: c2 supports c1", True),
        ("I will not write CLAIM[c1] nor any relation", True),
        ("CLAIM[c1]: a", False),
        ("CLAIM[c2]: a\nRELATION: c2 supports c1", False),
        ("", False),
    ],
)
def test_the_schema_is_a_search_for_words(reply, valid):
    assert thinker.schema_valid(reply) is valid


def test_thinker_reads_an_id_with_a_full_stop_as_another_id():
    assert thinker.shape("CLAIM[c1]: a\nCLAIM[c2]: b\nRELATION: c2 supports c1.\nRELATION: c1 supports c2") == (
        0,
        False,
    )
