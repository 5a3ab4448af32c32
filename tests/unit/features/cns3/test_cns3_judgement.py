"""Measurements of a reply, with and without models, and their frozen reference statistics."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import Metric, NotApplicable, Reply, Sample, cns3
from pytest_crucible.features.cns3 import chirality, named_metrics
from pytest_crucible.features.cns3.chirality import (
    FROZEN,
    JITTER,
    distance,
    find_reference,
    freeze,
    frozen_variances,
    measure_chirality,
    read,
    save,
)
from pytest_crucible.features.cns3.judgement import get_judgement, tfidf_cosine
from pytest_crucible.metrics.models.scorers import Entailment, configure
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.plugins import metrics

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
        return [float(first == second) for first, second in pairs]


@pytest.fixture
def scorers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both scorers configured, with frozen reference statistics."""
    configure(entailment=Reader, similarity=Letters)
    frozen = chirality.Reference(scorer="letters:1", texts="letters", n=2, variances=(4.0,) * 26)
    monkeypatch.setattr(chirality, "_frozen", lambda: [frozen])


def sample(label: str = "SUPPORT", **expected) -> Sample:
    evidence = {} if label == "NEI" else {"7": [0]}
    gold = {"claim": "Tea shortens colds.", "label": label, "cited": ["7", "8"], "evidence": evidence, **expected}
    return Sample(id="1", input="?", expected=gold, metadata={"documents": DOCUMENTS})


async def score(metric: Metric, reply: Reply, about: Sample) -> object:
    result = metric(reply, about)
    return await result if inspect.isawaitable(result) else result


def value(metric: Metric, text: str, about: Sample | None = None) -> object:
    return asyncio.run(score(metric, Reply(text=text), about or sample()))


def values(text: str, about: Sample | None = None) -> dict[str, object]:
    return {name: value(named_metrics.strict_metric(name), text, about) for name in cns3.metrics()}


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


def test_a_failed_citation_does_not_stop_the_other_metrics(scorers):
    scores = values(GOOD.replace("Document 7", "Document 7, Document 8"))

    assert (scores["citation_accuracy"], scores["citation_precision"], scores["overall_pass"]) == (False, 0.5, False)
    assert (scores["entailment"], scores["similarity"]) == (0.9, 1.0)
    assert scores["high_flags"] == 1


def test_contradiction_is_entailment_of_a_refuted_claim_only(scorers):
    contradicting = GOOD.replace("Document 7", "Document 8")

    assert values(contradicting)["entailment"] == 0.02
    assert values(contradicting.replace("supports", "refutes"))["entailment"] == 0.9


def test_without_evidence_citation_metrics_do_not_apply(scorers):
    scores = values(GOOD, sample("NEI"))

    assert isinstance(scores["citation_accuracy"], NotApplicable)
    assert isinstance(scores["citation_recall"], NotApplicable)
    assert scores["overall_pass"] is True


def test_a_reply_without_a_central_claim_does_not_pass(scorers):
    scores = values("I would rather not.")

    assert scores["entailment"] == NotApplicable("the reply has no central claim")
    assert (scores["entailment_pass"], scores["similarity_pass"], scores["overall_pass"]) == (False, False, False)


def test_without_models_their_metrics_do_not_apply():
    scores = values(GOOD)

    assert "pytest-crucible[nli]" in scores["entailment"].reason
    assert scores["entailment_pass"] == scores["overall_pass"] == scores["entailment"]
    assert "similarity scorer" in scores["similarity"].reason
    assert scores["schema_compliance"] is True
    assert get_judgement(Reply(text=GOOD), sample()).entailment_overlap == pytest.approx(2 / 3)


def test_without_models_overall_pass_never_applies():
    """A rate over the failures alone would be 0, whatever the model is like."""
    assert isinstance(values(GOOD.replace("Document 7", "Document 8"))["overall_pass"], NotApplicable)


def test_the_version_of_a_metric_names_its_scorer(scorers):
    with_model = named_metrics.strict_metric("entailment").facts.version
    configure()

    assert "reader:1" in with_model
    assert named_metrics.strict_metric("entailment").facts.version != with_model
    assert named_metrics.strict_metric("schema_compliance").facts.version == "1"


def test_chirality_does_not_depend_on_other_samples(scorers):
    alone = value(named_metrics.strict_metric("chirality"), GOOD.replace("shortens", "ends"))
    values(GOOD.replace("colds", "everything"))

    assert value(named_metrics.strict_metric("chirality"), GOOD.replace("shortens", "ends")) == alone
    assert 0 < alone < 0.6


def test_without_frozen_statistics_there_is_no_chirality(scorers, monkeypatch):
    monkeypatch.setattr(chirality, "_frozen", list)

    assert values(GOOD)["chirality"] == NotApplicable("there are no frozen reference statistics for scorer 'letters:1'")


def test_thinker_reads_the_probability_of_neutral(scorers):
    scores = {name: value(named_metrics.thinker_metric(name), GOOD) for name in named_metrics.THINKER}

    assert scores["entailment"] == 0.0  # it stops at the citation: documents 7 and 8 are asked for, and 7 is cited
    assert scores["evidence_overlap"] == 0.5
    whole = value(named_metrics.thinker_metric("entailment"), GOOD, sample(cited=["7"]))
    assert whole == 0.08


@pytest.mark.parametrize("policy", ["strict", "thinker-compat"])
def test_every_metric_and_target_of_a_policy_exists(policy):
    names = cns3.metrics(policy)

    assert {load_object(metrics()[name]).name for name in names} == set(names)
    assert {parse_target(target).metric for target in cns3.targets(policy)} <= set(names)


@pytest.mark.parametrize("name", metrics())
def test_every_registered_metric_has_its_registered_name(name):
    assert load_object(metrics()[name]).name == name


def test_a_sample_without_a_gold_answer_is_an_error():
    with pytest.raises(ValueError, match="the CNS3 metrics need a mapping with 'claim'"):
        named_metrics.strict_metric("citation_accuracy")(Reply(text=GOOD), Sample(id="1", input="?", expected="Tea"))


texts = st.lists(st.sampled_from(["tea", "Tea", "colds", "the", "flu"]), max_size=6).map(" ".join)


@given(texts, texts, st.lists(texts, max_size=3))
def test_tfidf_similarity_is_a_cosine(first, second, corpus):
    cosine = tfidf_cosine(first, second, corpus)

    assert 0 <= cosine <= 1
    assert cosine == pytest.approx(tfidf_cosine(second, first, corpus))
    assert tfidf_cosine(first, first.upper(), corpus) == pytest.approx(1.0 if first else 0.0)


def test_frequent_words_weigh_less():
    rare, common = math.log(4 / 2) + 1, math.log(4 / 4) + 1  # three texts: "tea" in each, the others in one
    expected = common**2 / (math.hypot(common, rare) ** 2)

    assert tfidf_cosine("tea shortens", "tea helps", ["tea"]) == pytest.approx(expected)


MINILM = "embeddings:all-MiniLM-L6-v2@:b5c9b60c7a7a67a1"


class Scorer(Letters):
    """Embeds a text as its length, over and over."""

    identity = f"{MINILM}:float32"

    async def embed(self, texts):
        return np.array([[float(len(text))] * 384 for text in texts])


@pytest.fixture(autouse=True)
def unconfigured():
    yield
    configure()


def test_minilm_statistics_apply_to_every_precision():
    for precision in ("float32", "bfloat16"):
        reference = find_reference(f"{MINILM}:{precision}")
        assert (reference.n, len(reference.variances)) == (809, 384)
        assert 0.5 < sum(reference.variances) < 1.0  # of vectors of length 1: the rest is their mean's
    assert find_reference("embeddings:other@:b5c9b60c7a7a67a1:float32") is None
    assert find_reference(f"{MINILM}0:float32") is None


def test_every_frozen_file_matches_its_hash():
    assert [read(path).sha256 for path in FROZEN.glob("*.json")]


def test_a_changed_file_is_an_error(tmp_path):
    path = tmp_path / "x.json"
    save(freeze("x", np.eye(3), texts="three"), path)
    assert read(path).variances == pytest.approx([0.2222] * 3)

    path.write_text(path.read_text().replace("0.2222", "0.3333", 1))
    with pytest.raises(
        SpecError, match=r"the reference statistics in .*x.json have the hash .*; expected .*: make them again"
    ):
        read(path)


def test_the_distance_uses_frozen_variances():
    result = asyncio.run(measure_chirality(Scorer(), "abc", "abcde", overlap=1.0, conflict=False))

    expected = distance(np.full(384, 3.0), np.full(384, 5.0), frozen_variances(Scorer.identity))
    assert result.distance == expected
    assert frozen_variances(Scorer.identity).min() >= JITTER


@pytest.mark.parametrize("name", ["chirality", "fisher_rao", "high_flags", "antagonist_findings"])
def test_the_hash_is_part_of_the_metric_s_version(name, monkeypatch):
    """Stored replies that were judged with others are not compared with: their metrics have changed."""
    configure(similarity=Scorer)
    before = named_metrics.strict_metric(name).facts.version
    other = freeze(MINILM, np.eye(3), texts="others")
    monkeypatch.setattr(chirality, "_frozen", lambda: [other])

    assert find_reference(f"{MINILM}:float32") is other
    assert named_metrics.strict_metric(name).facts.version == before.replace(
        read(FROZEN / "minilm.json").sha256[:12], other.sha256[:12]
    )
    assert named_metrics.strict_metric(name).facts.version != before
    assert named_metrics.strict_metric("similarity").facts.version.endswith(":float32")
