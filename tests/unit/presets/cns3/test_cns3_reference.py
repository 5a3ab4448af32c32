"""Frozen reference statistics: of whom, of what, and unchanged."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from pytest_crucible.metrics.models.scorers import configure
from pytest_crucible.presets.cns3 import chirality, named_metrics
from pytest_crucible.presets.cns3.chirality import (
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
from pytest_crucible.records.errors import SpecError

MINILM = "embeddings:all-MiniLM-L6-v2@:b5c9b60c7a7a67a1"


class Scorer:
    """Embeds a text as its length, over and over."""

    def __init__(self, identity: str, dimensions: int = 384) -> None:
        self.identity = identity
        self._dimensions = dimensions

    async def embed(self, texts):
        return np.array([[float(len(text))] * self._dimensions for text in texts])

    async def similarity(self, pairs):
        return [1.0 for _ in pairs]


@pytest.fixture(autouse=True)
def unconfigured():
    yield
    configure()


def test_minilm_is_frozen_in_whatever_precision():
    for precision in ("float32", "bfloat16"):
        found = find_reference(f"{MINILM}:{precision}")
        assert (found.n, len(found.variances)) == (809, 384)
        assert 0.5 < sum(found.variances) < 1.0  # of vectors of length 1: the rest is their mean's
    assert find_reference("embeddings:other@:b5c9b60c7a7a67a1:float32") is None
    assert find_reference(f"{MINILM}0:float32") is None


def test_every_frozen_file_is_what_its_hash_says():
    assert [read(path).sha256 for path in FROZEN.glob("*.json")]


def test_a_file_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "x.json"
    save(freeze("x", np.eye(3), texts="three"), path)
    assert read(path).variances == pytest.approx([0.2222] * 3)

    path.write_text(path.read_text().replace("0.2222", "0.3333", 1))
    with pytest.raises(
        SpecError, match=r"the reference statistics in .*x.json have the hash .*; expected .*: make them again"
    ):
        read(path)


def test_a_hash_is_of_everything():
    one = freeze("x", np.eye(3), texts="three")

    assert one.sha256 != freeze("y", np.eye(3), texts="three").sha256
    assert one.sha256 != freeze("x", np.eye(3), texts="others").sha256
    assert one.sha256 != freeze("x", np.eye(3) * 1.001, texts="three").sha256


def test_the_distance_is_in_frozen_units_and_does_not_know_the_batch():
    scorer = Scorer(f"{MINILM}:float32")
    found = asyncio.run(measure_chirality(scorer, "abc", "abcde", overlap=1.0, conflict=False))

    expected = distance(np.full(384, 3.0), np.full(384, 5.0), frozen_variances(scorer.identity))
    assert found.distance == expected
    assert frozen_variances(scorer.identity).min() >= JITTER


@pytest.mark.parametrize("name", ["chirality", "fisher_rao", "high_flags", "antagonist_findings"])
def test_the_hash_is_part_of_the_metric_s_version(name, monkeypatch):
    """Stored replies that were judged with others are not compared with: their metrics have changed."""
    configure(similarity=lambda: Scorer(f"{MINILM}:float32"))
    before = named_metrics.strict_metric(name).facts.version
    other = freeze(MINILM, np.eye(3), texts="others")
    monkeypatch.setattr(chirality, "_frozen", lambda: [other])

    assert find_reference(f"{MINILM}:float32") is other
    assert named_metrics.strict_metric(name).facts.version == before.replace(
        read(FROZEN / "minilm.json").sha256[:12], other.sha256[:12]
    )
    assert named_metrics.strict_metric(name).facts.version != before
    assert named_metrics.strict_metric("similarity").facts.version.endswith(":float32")


def test_the_frozen_file_says_what_it_is_made_of():
    plain = json.loads((FROZEN / "minilm.json").read_text())

    assert plain["texts"].startswith("the claims of scifact-train, CC BY 4.0, sha256 f4c8fa82")
