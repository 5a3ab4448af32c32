"""The graph behind verdicts: each number is that of the stored observations and replies to which its edges lead."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from experiment_builders import store_run
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.provenance.build_graph import build_graph
from pytest_crucible.features.provenance.graph import Graph, Node, ancestors, targets
from pytest_crucible.features.provenance.load_verdict_facts import load_verdict_facts
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Contrast, MetricFacts, Run, Sample
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.load_run import load_verdicts
from pytest_crucible.store.runs import RunStore

EXACT = Contrast(metric="exact", baseline="v1")
BINARY = MetricFacts(name="exact", kind="binary", low=0.0, high=1.0)
TARGET = parse_target("exact >= 0.75")
PAIR = "exact: v2 vs v1"


def conclude_run(store: RunStore, run: str, v2: list[Any], v1: list[Any], **facts: Any) -> Run:
    samples = [Sample(id=f"q{k:02}", input=f"{k} + {k}") for k in range(len(v2))]
    claims = {"contrasts": (EXACT,), "targets": (TARGET,), "metrics": (BINARY,)}
    store_run(store, run, samples, v2=v2, v1=v1, **claims, **facts)
    conclude(store, run, alpha=0.05, strict=False, interrupted=False, amend=lambda _: None)
    return load_verdicts(store, run)


def graph_of(store: RunStore, run: Run) -> Graph:
    return build_graph(store, run, load_verdict_facts(store, run).values())


def evidence(graph: Graph, subject: str) -> tuple[Node, list[Node]]:
    """Return what decides a verdict, and the observations that it is derived from."""
    [verdict] = [node for node in graph.nodes.values() if node.type == "verdict" and node.label == subject]
    [node] = targets(graph, verdict.key, "derived from")
    return node, targets(graph, node.key, "derived from")


def stored_scores(store: RunStore, observations: Node) -> dict[int, float]:
    query = "SELECT position, value FROM observations WHERE arm IN (:rows) AND metric = :metric"
    return dict(store.rows(query, rows=observations.facts["rows"], metric=observations.facts["metric"]))


def stored_losses(store: RunStore, observations: Node) -> set[int]:
    return set(store.scalars("SELECT position FROM lost WHERE arm IN (:rows)", rows=observations.facts["rows"]))


values = st.lists(st.tuples(*[st.sampled_from([True, False, "lost"])] * 2), min_size=2, max_size=12)


@given(values)
def test_each_number_is_recomputed_by_walking_to_the_stored_observations(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]]
):
    with closing(RunStore(str(tmp_path_factory.mktemp("store") / "runs.db"))) as store:
        run = conclude_run(store, "r1", [row[0] for row in rows], [row[1] for row in rows])

        graph = graph_of(store, run)

        comparison, arms = evidence(graph, PAIR)
        ours, theirs = (stored_scores(store, arm) for arm in arms)
        pairs = ours.keys() & theirs.keys()
        differences = [ours[position] - theirs[position] for position in pairs]
        expected = pytest.approx(sum(differences) / len(differences)) if differences else None
        assert [arm.facts["arm"] for arm in arms] == ["v2", "v1"]
        for arm in arms:
            replies = sum(node.facts["replies"] for node in targets(graph, arm.key, "derived from"))
            query = "SELECT COUNT(*) FROM replies WHERE arm IN (:rows)"
            assert replies == store.scalar(query, rows=arm.facts["rows"])
        assert comparison.facts["n"] == len(pairs)
        assert comparison.facts["lost"] == len(set.union(*(stored_losses(store, arm) for arm in arms)))
        assert comparison.facts["estimate"] == expected
        counts = Counter((bool(ours[position]), bool(theirs[position])) for position in pairs)
        counted = {
            "both": counts[True, True],
            "only_candidate": counts[True, False],
            "only_baseline": counts[False, True],
            "neither": counts[False, False],
        }
        assert comparison.facts["pairs"] == (counted if pairs else None)
        estimate, [observations] = evidence(graph, TARGET.text)
        scores = stored_scores(store, observations)
        assert estimate.facts["n"] == len(scores)
        assert estimate.facts["lost"] == len(stored_losses(store, observations))
        assert estimate.facts["estimate"] == (pytest.approx(sum(scores.values()) / len(scores)) if scores else None)
        assert observations.facts["lost_by_reason"].get("error", 0) == estimate.facts["lost"]


def test_replies_lead_to_the_run_that_requested_them(tmp_path: Path):
    with closing(RunStore(str(tmp_path / "runs.db"))) as store:
        conclude_run(store, "first", [True] * 8, [False] * 8)
        conclude_run(store, "second", [True] * 8, [False] * 8, reused={"v1": "first"})
        third = conclude_run(store, "third", [True] * 8, [False] * 8, reused={"v1": "second"})

        graph = graph_of(store, third)

        replies = {node.facts["arm"]: node for node in graph.nodes.values() if node.type == "replies"}
        assert replies["v2"].label == "8 made in this run, without a stored request"
        # The run that copied them in between did not request them.
        assert replies["v1"].label == "8 reused from run first, without a stored request"
        [requests] = targets(graph, replies["v1"].key, "generated by")
        assert requests.facts["run"] == "first"


def test_an_adapter_is_shown_only_where_a_verdict_depends_on_it(tmp_path: Path):
    with closing(RunStore(str(tmp_path / "runs.db"))) as store:
        run = conclude_run(store, "r1", [True] * 8, [False] * 8)

        graph = graph_of(store, run)

        [of_target, of_pair] = (
            [
                node.label
                for node in ancestors(graph, f"verdict:test_sums.py::test_sums::{subject}")
                if node.type == "adapter"
            ]
            for subject in (TARGET.text, PAIR)
        )
        assert of_target == ["v2"]
        assert of_pair == ["v2", "v1"]


def test_what_a_run_does_not_know_is_a_node_without_a_value(tmp_path: Path):
    with closing(RunStore(str(tmp_path / "runs.db"))) as store:
        # It was stored outside of a repository.
        run = conclude_run(store, "r1", [True] * 8, [False] * 8)

        graph = graph_of(store, run)

        assert graph.nodes["commit:outside of a repository"].facts == {"commit": None, "dirty": None}
        assert all({each.source, each.target} <= graph.nodes.keys() for each in graph.relations)


def test_pooled_replies_of_earlier_sessions_are_named(tmp_path: Path):
    with closing(RunStore(str(tmp_path / "runs.db"))) as store:
        facts = {"memory": "pool", "contrasts": (EXACT,), "metrics": (BINARY,)}
        samples = [Sample(id=f"q{k:02}", input=f"{k} + {k}") for k in range(8)]
        for number, run in enumerate(("first", "second")):
            store_run(store, run, samples, v2=[True] * 8, v1=[False] * 8, started=float(number + 1), **facts)
            conclude(store, run, alpha=0.05, strict=False, interrupted=False, amend=lambda _: None, memory="pool")
        second = load_verdicts(store, "second")

        graph = graph_of(store, second)

        pooled = [node for node in graph.nodes.values() if node.label == "8 pooled from run first"]
        assert [node.facts["arm"] for node in pooled] == ["v2", "v1"]
        assert all(graph.nodes[each.target].facts["run"] == "first" for each in graph.relations if each.source in {
            node.key for node in pooled
        })  # fmt: skip
