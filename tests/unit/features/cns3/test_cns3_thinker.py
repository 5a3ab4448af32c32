"""Published numbers of Thinker's evaluations come out digit for digit; the strict policy differs where it should."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pytest_crucible.features.cns3 import thinker
from pytest_crucible.features.cns3.chirality import chirality
from pytest_crucible.features.cns3.judgement import MIN_ENTAILMENT, MIN_SIMILARITY

RUNS = {
    path.stem: json.loads(path.read_text())["payload"]["metrics"] for path in Path(__file__).parent.glob("runs/*.json")
}
LAST = "eval_20251119T023617.442984Z"


def staged(schema: bool, citation: bool, entailment: float, similarity: float) -> thinker.Stages:
    """The stages of a reply of which models say this."""

    async def entailed() -> float:
        return entailment

    async def alike() -> float:
        return similarity

    return asyncio.run(thinker.stages(schema=schema, citation=citation, entailment=entailed, similarity=alike))


def restaged(metrics) -> list[thinker.Stages]:
    """The stages again, from the scores of a run. It gives counts of valid schemas and citations, so that all or none is told."""
    several = metrics.get("per_sample_metrics")
    valid = [(one["schema_valid"], one["citation_valid"]) for one in several] if several else None
    if valid is None:
        total = len(metrics["entailment_scores"])
        valid = [(k < metrics["schema_valid"], k < metrics["citation_valid"]) for k in range(total)]
    scores = zip(metrics["entailment_scores"], metrics["similarity_scores"], strict=True)
    return [staged(schema, citation, e, s) for (schema, citation), (e, s) in zip(valid, scores, strict=True)]


@pytest.mark.parametrize("run", RUNS)
def test_every_rate_and_mean_of_a_published_run_is_reproduced(run):
    computed = thinker.aggregate(restaged(RUNS[run]))

    assert {name: RUNS[run][name] for name in computed if name in RUNS[run]} == pytest.approx(
        {name: value for name, value in computed.items() if name in RUNS[run]}, rel=1e-12
    )
    assert len([name for name in computed if name in RUNS[run]]) >= 8


def test_every_flag_of_every_sample_is_reproduced():
    for one, again in zip(RUNS[LAST]["per_sample_metrics"], restaged(RUNS[LAST]), strict=True):
        assert {name: one[name] for name in thinker.Stages.__slots__} == {
            name: getattr(again, name) for name in thinker.Stages.__slots__
        }


def test_every_chirality_is_reproduced():
    for one in RUNS[LAST]["per_sample_metrics"]:
        again = chirality(one["fisher_rao_distance"], one["evidence_overlap"], one["chirality_polarity_conflict"])
        assert again == pytest.approx(one["chirality_score"], rel=1e-12)


@pytest.mark.parametrize("run", RUNS)
def test_chirality_means_are_those_of_the_distances(run):
    metrics = RUNS[run]

    assert sum(metrics["fisher_rao_distances"]) / 5 == pytest.approx(metrics["mean_fisher_rao_distance"], rel=1e-12)
    assert sum(metrics["chirality_scores"]) / 5 == pytest.approx(metrics["mean_chirality_score"], rel=1e-12)


def test_thinker_passes_three_of_five_samples_and_the_strict_policy_one():
    samples = RUNS[LAST]["per_sample_metrics"]
    strict = [
        one["schema_valid"]
        and one["citation_valid"]
        and one["entailment_score"] >= MIN_ENTAILMENT
        and one["semantic_similarity"] >= MIN_SIMILARITY
        for one in samples
    ]

    assert sum(one.overall_pass for one in restaged(RUNS[LAST])) == 3
    assert sum(strict) == 1


def test_a_failed_citation_leaves_zeros_behind_it():
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
