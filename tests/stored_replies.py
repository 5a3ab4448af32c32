"""Stores of one sample with replies, for tests of its page."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from plan_builders import plan_of

from pytest_crucible.datasets import identify
from pytest_crucible.records import (
    Contrast,
    Fingerprint,
    Lost,
    MetricFacts,
    Observation,
    Outcome,
    Reply,
    Sample,
    Unit,
)
from pytest_crucible.store.runs import RunStore

RUN = "3f2a"
NODEID = "test_qa.py::test_qa"
PAGE = f"/runs/{RUN}/samples/1/0"


def store_replies(
    path: Path,
    *arms: Sequence[str | Outcome],
    sample: Sample | None = None,
    samples: int = 1,
    finished: bool = True,
    **manifest: Any,
) -> Path:
    """Store a run of arms with these replies to each sample, one a repeat. A text that is not empty is right."""
    own = [
        sample or Sample(id="q0", input="Why?", expected="because"),
        *(Sample(id=f"q{n}", input="?") for n in range(1, samples)),
    ]
    dataset = identify("questions", own)
    names = [f"v{len(arms) - number}" for number in range(len(arms))]
    plan = plan_of(
        *names,
        n=len(own),
        nodeid=NODEID,
        metrics=(MetricFacts(name="right", kind="binary", low=0.0, high=1.0),),
        contrasts=(Contrast(metric="right", baseline=names[1]),) if len(names) > 1 else (),
        fingerprint=Fingerprint(dataset=dataset.sha256, function="f", metrics="m", sampling="s"),
        dataset_sha256=dataset.sha256,
        repeats=max(map(len, arms), default=1),
    )
    facts = {"seed": 0, "alpha": 0.05, "correction": "holm", "git": {}, "environment": {}, "manifest": manifest}
    with closing(RunStore(str(path))) as store:
        store.begin_run(RUN, started="2026-01-01T00:00:00+00:00", **facts)
        key = store.add_experiment(RUN, plan, own)
        writer = store.writer(stores_texts=manifest.get("settings") != {"trace": "off"})
        for number, (name, replies) in enumerate(zip(names, arms, strict=True)):
            arm = store.add_arm(key, number, name, name)
            for position in range(len(own)):
                for repeat, reply in enumerate(replies):
                    _add_reply(writer, arm, Unit(position, 0, number, repeat), reply)
        writer.close()
        if finished:
            store.finish_experiment(key)
            store.end_run(RUN, finished="2026-01-01T00:01:00+00:00", status="finished")
    return path


def _add_reply(writer: Any, arm: int, unit: Unit, reply: str | Outcome) -> None:
    if isinstance(reply, Outcome):
        lost = [Lost(unit, None, reply.lost, reply.detail)] if reply.lost else []
        writer.add(Outcome(unit, **_facts(reply)), arm, [], lost)
        return
    answer = Reply(text=reply, latency_s=0.25, input_tokens=3, output_tokens=2, finish="stop")
    writer.add(Outcome(unit, reply=answer, started=1.0), arm, [Observation(unit, "right", bool(reply))], [])


def _facts(outcome: Outcome) -> dict[str, Any]:
    names = ("reply", "failure", "skipped", "lost", "detail", "started", "calls", "sample")
    return {name: getattr(outcome, name) for name in names}
