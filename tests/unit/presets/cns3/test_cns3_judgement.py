"""What is said of a reply, with and without models that score it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from pytest_crucible import Metric, NotApplicable, Reply, Sample, cns3
from pytest_crucible.builtin import METRICS
from pytest_crucible.metrics.models.scorers import Entailment, EntailmentScorer, SimilarityScorer, configure
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.presets.cns3 import chirality, named_metrics
from pytest_crucible.presets.cns3.judgement import get_judgement
from pytest_crucible.records.object_reference import load_object

GOOD = """\
CLAIM[c1]: Tea shortens colds.
CLAIM[c2] (Document 7): In adults tea shortened colds.
RELATION: c2 supports c1
"""
DOCUMENTS = {
    "7": {"title": "Tea", "abstract": ["In adults tea shortened colds."]},
    "8": {"title": "Coffee", "abstract": ["Coffee did nothing."]},
}


class Reader:
    """A model that is sure of entailment where the premise says `tea`, and of contradiction where it says `Coffee`."""

    identity = "reader:1"
    premise = "abstract"

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        return [
            Entailment(0.9, 0.08, 0.02) if " tea " in premise else Entailment(0.02, 0.08, 0.9) for premise, _ in pairs
        ]


class Letters:
    """Embeds by the counts of letters."""

    identity = "letters:1"

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(
            [[text.casefold().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float
        )

    async def similarity(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [float(one == other) for one, other in pairs]


@pytest.fixture
def scorers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both scorers configured, with frozen reference statistics."""
    configure(entailment=Reader, similarity=Letters)
    frozen = chirality.Reference(scorer="letters:1", texts="letters", n=2, variances=(4.0,) * 26)
    monkeypatch.setattr(chirality, "_frozen", lambda: [frozen])
    yield
    configure()


def sample(label: str = "SUPPORT", **expected) -> Sample:
    evidence = {} if label == "NEI" else {"7": [0]}
    gold = {"claim": "Tea shortens colds.", "label": label, "cited": ["7", "8"], "evidence": evidence, **expected}
    return Sample(id="1", input="?", expected=gold, metadata={"documents": DOCUMENTS})


async def asked(metric: Metric, reply: Reply, about: Sample) -> object:
    said = metric(reply, about)
    return await said if inspect.isawaitable(said) else said


def value(metric: Metric, text: str, about: Sample | None = None) -> object:
    return asyncio.run(asked(metric, Reply(text=text), about or sample()))


def values(text: str, about: Sample | None = None) -> dict[str, object]:
    async def all_of_them() -> dict[str, object]:
        reply, known = Reply(text=text), about or sample()
        return {name: await asked(named_metrics.strict_metric(name), reply, known) for name in cns3.METRICS}

    return asyncio.run(all_of_them())


def test_the_stand_ins_are_scorers():
    assert isinstance(Reader(), EntailmentScorer)
    assert isinstance(Letters(), SimilarityScorer)


def test_a_good_reply_passes_every_stage(scorers):
    assert values(GOOD) == {
        "schema_compliance": True,
        "citation_accuracy": True,
        "citation_precision": 1.0,
        "citation_recall": 1.0,
        "entailment": 0.9,
        "entailment_pass": True,
        "similarity": 1.0,
        "similarity_pass": True,
        "overall_pass": True,
        "chirality": 0.0,
        "high_flags": 0,
        "antagonist_findings": '{"findings": [], "gold": null}',
    }


def test_a_failed_citation_stops_nothing(scorers):
    said = values(GOOD.replace("Document 7", "Document 7, Document 8"))

    assert (said["citation_accuracy"], said["citation_precision"], said["overall_pass"]) == (False, 0.5, False)
    assert (said["entailment"], said["similarity"]) == (0.9, 1.0)
    assert said["high_flags"] == 1


def test_what_is_said_to_refute_is_scored_by_contradiction(scorers):
    refuting = GOOD.replace("Document 7", "Document 8").replace("supports", "refutes")

    assert values(refuting)["entailment"] == 0.9


def test_support_that_the_document_contradicts_is_weak(scorers):
    assert values(GOOD.replace("Document 7", "Document 8"))["entailment"] == 0.02


def test_where_there_is_nothing_to_cite_no_citation_is_right_or_wrong(scorers):
    said = values(GOOD, sample("NEI"))

    assert isinstance(said["citation_accuracy"], NotApplicable)
    assert isinstance(said["citation_recall"], NotApplicable)
    assert said["overall_pass"] is True


def test_what_a_reply_leaves_out_does_not_pass(scorers):
    said = values("I would rather not.")

    assert said["entailment"] == NotApplicable("the reply has no central claim")
    assert (said["entailment_pass"], said["similarity_pass"], said["overall_pass"]) == (False, False, False)


def test_without_models_nothing_stands_in_for_them():
    said = values(GOOD)

    assert "pytest-crucible[nli]" in said["entailment"].reason
    assert said["entailment_pass"] == said["overall_pass"] == said["entailment"]
    assert "similarity scorer" in said["similarity"].reason
    assert said["schema_compliance"] is True
    assert get_judgement(Reply(text=GOOD), sample()).entailment_overlap == pytest.approx(2 / 3)


def test_without_models_nothing_is_said_of_replies_that_would_fail_anyway():
    """A rate over the failures alone would be 0, whatever the model is like."""
    assert isinstance(values(GOOD.replace("Document 7", "Document 8"))["overall_pass"], NotApplicable)


def test_a_metric_with_another_scorer_is_another_metric(scorers):
    with_model = named_metrics.strict_metric("entailment").facts.version
    configure()

    assert "reader:1" in with_model
    assert named_metrics.strict_metric("entailment").facts.version != with_model
    assert named_metrics.strict_metric("schema_compliance").facts.version == "1"


def test_chirality_does_not_depend_on_the_samples_beside_it(scorers):
    one = value(named_metrics.strict_metric("chirality"), GOOD.replace("shortens", "ends"))
    values(GOOD.replace("colds", "everything"))

    assert value(named_metrics.strict_metric("chirality"), GOOD.replace("shortens", "ends")) == one
    assert 0 < one < 0.6


def test_without_frozen_statistics_there_is_no_chirality(scorers, monkeypatch):
    monkeypatch.setattr(chirality, "_frozen", list)

    assert values(GOOD)["chirality"] == NotApplicable("there are no frozen reference statistics for scorer 'letters:1'")


def test_thinker_reads_the_probability_of_neutral(scorers):
    said = {name: value(named_metrics.thinker_metric(name), GOOD) for name in named_metrics.THINKER}

    assert said["entailment"] == 0.0  # it stops at the citation: documents 7 and 8 are asked for, and 7 is cited
    assert said["evidence_overlap"] == 0.5
    whole = value(named_metrics.thinker_metric("entailment"), GOOD, sample(cited=["7"]))
    assert whole == 0.08


@pytest.mark.parametrize("policy", ["strict", "thinker-compat"])
def test_every_metric_and_target_of_a_policy_exists(policy):
    names = cns3.metrics(policy)

    assert {load_object(METRICS[name]).name for name in names} == set(names)
    assert {parse_target(one).metric for one in cns3.targets(policy)} <= set(names)


@pytest.mark.parametrize("name", METRICS)
def test_what_is_registered_under_a_name_is_the_metric_of_that_name(name):
    assert load_object(METRICS[name]).name == name


def test_a_sample_without_gold_says_what_is_wanted():
    with pytest.raises(ValueError, match="the CNS3 metrics need a mapping with 'claim'"):
        named_metrics.strict_metric("citation_accuracy")(Reply(text=GOOD), Sample(id="1", input="?", expected="Tea"))
