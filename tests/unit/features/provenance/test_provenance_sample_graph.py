"""The part of one sample in verdicts: its scores, its weight, and what it decides, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from experiment_builders import store_run

from pytest_crucible.features.provenance.build_graph import build_graph
from pytest_crucible.features.provenance.graph import targets
from pytest_crucible.features.provenance.load_verdict_facts import load_verdict_facts
from pytest_crucible.features.provenance.sample_graph import build_sample_graph
from pytest_crucible.features.provenance.why_command import sample_lines
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Contrast, MetricFacts, Run, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.load_run import load_verdicts
from pytest_crucible.store.runs import RunStore

SAMPLES = [Sample(id=f"q{k}", input="?") for k in range(8)]
FACTS: dict[str, Any] = {
    "contrasts": (Contrast(metric="exact", baseline="v1"),),
    "targets": (parse_target("exact >= 0.75"),),
    "metrics": (MetricFacts(name="exact", kind="binary", low=0.0, high=1.0),),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgresql")
    with closing(RunStore(where)) as opened:
        yield opened


@pytest.fixture
def run(store: RunStore) -> Run:
    # Six of eight: without any right one the target is missed.
    store_run(store, "r1", SAMPLES, v2=[True] * 6 + [False] * 2, v1=["lost"] + [False] * 7, **FACTS)
    conclude(store, "r1", alpha=0.05, strict=False, interrupted=False, amend=lambda _: None)
    return load_verdicts(store, "r1")


def test_a_sample_that_decides_alone_is_named(store: RunStore, run: Run):
    lines = list(sample_lines(build_sample_graph(store, run, "q1"), "r1", "q1"))

    assert lines[:3] == ["sample q1 in run r1", "", "test_sums.py::test_sums"]
    assert lines[4].split() == "exact >= 0.75 met 1 of 8 (12 %) v2 1 missed yes".split()


def test_a_failed_reply_without_a_score_is_shown_as_failed(store: RunStore, run: Run):
    store.execute("DELETE FROM observations WHERE position = 6")
    store.execute("UPDATE replies SET failure = 'truncated' WHERE position = 6")

    lines = list(sample_lines(build_sample_graph(store, run, "q6"), "r1", "q6"))

    assert " v2 failed (truncated) " in lines[4]


def test_an_unknown_suite_is_not_an_unknown_sample(store: RunStore, run: Run):
    with pytest.raises(SpecError, match="has no experiment whose name contains 'other': it has test_sums"):
        build_sample_graph(store, run, "q1", "other")


def test_a_sample_that_a_verdict_does_not_count_is_told_apart(store: RunStore, run: Run):
    lines = list(sample_lines(build_sample_graph(store, run, "q0"), "r1", "q0"))

    assert lines[-1].startswith("exact: v2 vs v1: not weighed, its score is lost in an arm")


def test_scores_of_a_sample_are_nodes_that_lead_to_its_replies(store: RunStore, run: Run):
    graph = build_sample_graph(store, run, "q1")

    [pair] = [node for node in graph.nodes.values() if node.label == "exact: v2 vs v1"]
    scores = targets(graph, pair.key, "derived from")
    assert [(node.facts["arm"], node.facts["value"]) for node in scores] == [("v2", 1.0), ("v1", 0.0)]
    [sample] = {target.key for score in scores for reply in targets(graph, score.key, "derived from")
                for target in targets(graph, reply.key, "derived from")}  # fmt: skip
    assert graph.nodes[sample].label == "q1"


def test_an_unknown_sample_is_refused(store: RunStore, run: Run):
    with pytest.raises(SpecError, match="run r1 has no sample 'q11': did you mean 'q1'"):
        build_sample_graph(store, run, "q11")


def test_a_graph_of_verdicts_is_built_from_either_database(store: RunStore, run: Run):
    graph = build_graph(store, run, load_verdict_facts(store, run).values())

    [lost] = [node.facts["lost_by_reason"] for node in graph.nodes.values() if node.label == "exact of v1"]
    assert lost == {"error": 1}
