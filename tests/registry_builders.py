"""Registered versions, runs that measured them, and requests to promote: without a pytest session."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiment_builders import store_run

from pytest_crucible.features.registry.promote import Promotion
from pytest_crucible.features.registry.records import GateEntry, LogEntry, Version
from pytest_crucible.features.registry.rules import RegistrySettings
from pytest_crucible.features.registry.store import add_version, load_registry, next_number
from pytest_crucible.features.registry.suite_record import SuiteRecord
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Adapter, Contrast, Sample
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.store.runs import RunStore

NOW = datetime.datetime(2026, 11, 24, 12, tzinfo=datetime.UTC)
STARTED = "2026-11-20T12:00:00.000+00:00"
SAMPLES = [Sample(id=f"q{k:03}", input=f"{k} + {k}") for k in range(240)]
TARGET = "exact >= 0.75"
SUITE = SuiteRecord(
    settings={"alpha": "0.05", "strict": "no", "early stop": "no"},
    experiments={"test_sums.py::test_sums": {"dataset": "sums, 240 samples", f"target {TARGET}": "point"}},
)
"""What a run records of its collection, and what pytest collects at each promotion."""
CLEAN = {"commit": "c0ffee", "branch": "main", "dirty": False}


def right(share: float) -> list[bool]:
    """Answers of which this share is right, the first ones."""
    return [k < share * len(SAMPLES) for k in range(len(SAMPLES))]


def register(store: RunStore, *identities: str, model: str = "claims") -> list[Version]:
    """Register a version for each identity, which `measure` gives its arms as their names."""
    versions = []
    for identity in identities:
        adapter = Adapter(name=identity, backend="recorded")
        version = Version(model=model, number=next_number(store, model), identity=identity, adapter=adapter)
        entry = LogEntry(at="2026-11-01", action="register", model=model, number=version.number, state="draft")
        assert add_version(store, load_registry(store), version, entry)
        versions.append(version)
    return versions


def measure(store: RunStore, run: str, *, margin: float | None = 0.05, **facts: Any) -> str:
    """Store a finished run of arms with shares of right answers, the candidate first: `measure(store, "r", v2=0.9, v1=0.8)`."""
    arms = {name: right(facts.pop(name)) for name in list(facts) if isinstance(facts[name], float)}
    baselines = list(arms)[1:]
    planned = {
        "targets": (parse_target(TARGET),),
        "contrasts": tuple(
            Contrast(
                metric="exact", baseline=name, margin=margin, alternative="non-inferior" if margin else "regression"
            )
            for name in baselines
        ),
        **{name: facts.pop(name) for name in ("targets", "contrasts") if name in facts},
    }
    store_run(store, run, SAMPLES, **planned, **arms)
    manifest = {"settings": {}, "suite": to_plain(facts.pop("suite", SUITE))}
    change_run(store, run, **{"started": STARTED, "git": CLEAN, "manifest": manifest, **facts})
    conclude(store, run, alpha=0.05, strict=False, interrupted=False, amend=lambda verdict: None)
    return run


def change_run(store: RunStore, run: str, **values: Any) -> None:
    changes = ", ".join(f"{name} = :{name}" for name in values)
    stored = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in values.items()}
    store.execute(f"UPDATE runs SET {changes} WHERE id = :run", run=run, **stored)


def request(run: str, to: str = "production", **facts: Any) -> Promotion:
    """A request to promote the candidate of a run."""
    settings: Mapping[str, Any] = facts.pop("settings", {})
    defaults = {
        "alpha": 0.05,
        "folder": Path("nowhere"),
        "now": NOW,
        "by": "me",
        "collect": lambda suite, variables: SUITE,
    }
    return Promotion(run=run, to=to, settings=RegistrySettings(**settings), **{**defaults, **facts})


def states(store: RunStore) -> dict[str, str]:
    return {status.version: status.state for status in load_registry(store).state.statuses.values()}


def changes(entries: Sequence[LogEntry | GateEntry]) -> list[tuple[str, str]]:
    return [(entry.version, entry.state) for entry in entries if isinstance(entry, LogEntry)]
