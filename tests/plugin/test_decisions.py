"""Decisions that a test records: stored with the reply, of the right sample, in tasks and threads, and copied with it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from pytest_crucible.features.provenance.load_decisions import Chain, load_decisions
from pytest_crucible.store.runs import RunStore

TEST = """
    import pytest
    from pytest_crucible import trace

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.20")
    async def test_sums(sample, sampler):
        with trace.step("choose"):
            first = trace.decision("count", over=["guess"], because="small", confidence=0.8, kind="hypothesis_formed")
            trace.decision("add", because=f"of {sample.id}", revises=first)
        return trace.read(await sampler.generate(sample.input))
"""


def load_chains(suite: Any, run: str = "latest", **selected: str) -> list[Chain]:
    with closing(RunStore(str(suite.path / ".crucible" / "crucible.db"))) as store:
        return load_decisions(store, store.find_run(run), **selected)


def test_decisions_are_stored_with_their_sample(suite, run):
    suite.test(TEST)
    run("--crucible-adapter=v1").assert_outcomes(passed=2)

    chains = load_chains(suite)

    assert [chain.sample for chain in chains] == [f"q{k:02}" for k in range(20)]
    for chain in chains:
        assert [(d.number, d.kind, d.decision, d.stage) for d in chain.decisions] == [
            (1, "stage_started", "choose", ""),
            (2, "hypothesis_formed", "count", "choose"),
            (3, "decision", "add", "choose"),
            (4, "stage_completed", "choose", ""),
        ]
        first, second = chain.decisions[1:3]
        assert (first.over, first.because, first.confidence, first.is_claim) == (("guess",), "small", 0.8, False)
        assert (second.because, second.confidence, second.revises) == (f"of {chain.sample}", None, 2)
