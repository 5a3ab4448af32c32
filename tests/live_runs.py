"""A run that is being written, unit by unit, as a session writes it."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from plan_builders import plan_of

from pytest_crucible.records import Event, Lost, Observation, Outcome, Plan, Reply, Sample, Unit
from pytest_crucible.store.runs import RunStore


class LiveRun:
    """One unfinished run of one experiment. What is added is in the store after `commit`."""

    def __init__(self, store: RunStore, plan: Plan, run: str, *, resumes: bool = False, fingerprint: str = "") -> None:
        self.store, self.plan, self.run = store, plan, run
        facts: dict[str, Any] = {"seed": 0, "alpha": 0.05, "correction": "holm", "environment": {}}
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        store.begin_run(run, started=started, manifest={"settings": {"resume": resumes}}, **facts)
        samples = [Sample(id=f"q{k}", input=str(k)) for k in range(plan.selected)]
        key = store.add_experiment(run, plan, samples)
        self.arms = [
            [store.add_arm(key, n, arm.name, fingerprint and f"{fingerprint}{n}")] for n, arm in enumerate(plan.arms)
        ]
        for variant in plan.variant_numbers[1:]:
            for number, arm in enumerate(plan.arms):
                place, original = number + len(plan.arms) * variant, self.arms[number][0]
                self.arms[number].append(store.add_arm(key, place, arm.name, "", variant=variant, original=original))
        self._writer = store.writer()

    def add(
        self, position: int, arm: int = 0, repeat: int = 0, *, variant: int = 0, lost_scores: Mapping[str, str] | None = None,
        scores: Mapping[str, Any] | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        """Add a unit: with scores, or the fields of an outcome such as failure="truncated" or lost="error"."""
        unit = Unit(position, variant, arm, repeat)
        observations = [Observation(unit, metric, value) for metric, value in (scores or {}).items()]
        whole = fields.get("lost")
        losses = [Lost(unit, metric, reason) for metric, reason in (lost_scores or {}).items()]
        losses += [Lost(unit, None, whole)] if whole else []
        reply = None if fields else Reply(text="yes", latency_s=0.5)
        self._writer.add(Outcome(unit, reply=reply, **fields), self.arms[arm][variant], observations, losses)

    def tell(self, name: str, *, arm: int = 0, at: float = 0.0, seconds: float | None = None, **facts: Any) -> None:
        """Add an event of an arm."""
        event = Event(
            name=name, at=at, seconds=seconds, experiment=self.plan.nodeid, arm=self.plan.arms[arm].name, facts=facts
        )
        self._writer.tell(self.run, event)

    def commit(self) -> None:
        self._writer.flush()

    def end(self, status: str = "finished") -> None:
        self.commit()
        self.store.end_run(self.run, finished="2026-01-01T00:00:00.000+00:00", status=status)


@contextlib.contextmanager
def live_run(path: Path | str, *names: str, run: str = "run1", **fields: Any) -> Iterator[LiveRun]:
    """Yield a new run in the store at a path, with arms of these names and the fields of a plan."""
    with closing(RunStore(str(path))) as store:
        yield LiveRun(store, plan_of(*names or ("v2", "v1"), **{"n": 10, **fields}), run)
