"""Builds planned experiments with scripted models, and stores runs: for tests of the session and of stored runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from adapter_contexts import default_settings
from plan_builders import plan_of

from pytest_crucible import builtin
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends import Backend, ScriptedBackend
from pytest_crucible.datasets import identify
from pytest_crucible.features import register_features
from pytest_crucible.records import (
    Arm,
    Draws,
    Fingerprint,
    Lost,
    MetricFacts,
    Observation,
    Outcome,
    Plan,
    Reply,
    Request,
    Role,
    Sample,
    Unit,
)
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.session.events import EventPublisher
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.experiment_data import SessionDatasets
from pytest_crucible.session.planner import ExperimentPlanner
from pytest_crucible.session.resources import Resources
from pytest_crucible.store.reused_outcomes import copy_outcomes, find_arm
from pytest_crucible.store.runs import RunStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    """An empty run store."""
    with closing(RunStore(str(tmp_path / "runs.db"))) as opened:
        yield opened


ALONE = ("--crucible-alpha=0.05", "-p", "no:asyncio", "-p", "no:unraisableexception")
"""An option of ours, which registers the hooks of a session with experiments.

Without another plugin's effects, and without the garbage collection that would end each configuration of a test.
"""


def arm_of(backend: Backend, name: str = "v2", role: Role = "candidate") -> OpenedArm:
    return OpenedArm(Arm(name=name, role=role, adapter=name, identity=name), backend)


def scripted_arm(
    script: Callable[[Request], str | Reply], name: str = "v2", role: Role = "candidate", latency_s: float = 0.0
) -> OpenedArm:
    return arm_of(ScriptedBackend(script, identity=name, latency_s=latency_s), name, role)


def collect_items(pytester: pytest.Pytester, source: str, *options: str) -> list[pytest.Function]:
    """Collect the items of the test function `test_it` of a source, also after another source of the same test."""
    sys.modules.pop(pytester._name, None)
    shutil.rmtree(pytester.path / "__pycache__", ignore_errors=True)
    module = pytester.getmodulecol(source, configargs=[*ALONE, *options])
    items = pytester.genitems([module])
    return [item for item in items if isinstance(item, pytest.Function) and item.originalname == "test_it"]


def register_tables(config: pytest.Config) -> None:
    """Register the built-in tables and the features, as a session does when it is opened."""
    config.pluginmanager.register(builtin, "crucible-builtin")
    register_features(config.pluginmanager)


def plan_item(
    pytester: pytest.Pytester, source: str, *arms: OpenedArm, **settings: Any
) -> tuple[pytest.Function, Experiment]:
    """Collect the test function of a source, and plan it as an experiment on these arms."""
    (item,) = collect_items(pytester, source)
    register_tables(item.config)
    chosen = default_settings(**settings)
    planner = ExperimentPlanner(
        item.config, chosen, arms, SessionDatasets(item.config, chosen.seed, chosen.equal_inputs)
    )
    return item, planner.plan_experiment(item, item.function)


def make_resources(pytester: pytest.Pytester, **settings: Any) -> Resources:
    """Return the resources of a session in this folder, without a reply cache; `settings` are options."""
    config, chosen = pytester.parseconfigure(*ALONE), default_settings(**{"cache": "off", **settings})
    return Resources(config, chosen, "run", EventPublisher(config, chosen, "run"))


def store_run(
    store: RunStore,
    run: str,
    samples: Sequence[Sample],
    *,
    metric: str = "exact",
    repeats: int = 1,
    reused: Mapping[str, str] | None = None,
    memory: str = "off",
    started: float = 0.0,
    **arms: Sequence[Any],
) -> Plan:
    """Store a run with one value a sample and arm: a bool or a number, the same in each repeat, or "lost".

    Facts of the plan may be given as well, such as its contrasts. `reused` are arms whose replies are copied from the arm of
    the same name in an earlier run, by the run. `started` is the time of all samples: replies of one time are copies.
    """
    facts = {
        name: arms.pop(name)
        for name in ("nodeid", "targets", "contrasts", "metrics", "fingerprint", "exclusions", "fixed")
        if name in arms
    }
    dataset = identify("sums", samples)
    plan = plan_of(
        *arms,
        n=len(samples),
        **{
            "nodeid": "test_sums.py::test_sums",
            "metrics": (MetricFacts(name=metric, kind="binary"),),
            "fingerprint": Fingerprint(dataset=dataset.sha256, function="f", metrics="m", sampling="s"),
            **facts,
        },
        path="test_sums.py",
        line=0,
        dataset="sums",
        dataset_sha256=dataset.sha256,
        repeats=repeats,
        open_metrics=False,
    )
    store.begin_run(
        run, started="2026-01-01", seed=0, alpha=0.05, correction="holm", environment={"rules": RULES_VERSION}, git=None,
        manifest={"settings": {"memory": memory}},
    )  # fmt: skip
    experiment = store.add_experiment(run, plan, samples)
    writer = store.writer()
    for number, (name, values) in enumerate(arms.items()):
        key = store.add_arm(experiment, number, name, f"fingerprint of {name}")
        if name in (reused or {}):
            source = find_arm(store, f"fingerprint of {name}", run=run)
            assert source is not None
            copy_outcomes(store, source[0], key, source_run=source[1], draws=Draws(repeats=repeats))
            continue
        for position, value in enumerate(values):
            for repeat in range(repeats):
                unit = Unit(position, 0, number, repeat)
                if value == "lost":
                    writer.add(
                        Outcome(unit, lost="error", detail="gone", started=started),
                        key,
                        [],
                        [Lost(unit, None, "error", "gone")],
                    )
                else:
                    outcome = Outcome(unit, reply=Reply(text=f"{name}: {value}"), started=started)
                    writer.add(outcome, key, [Observation(unit, metric, value)], [])
    writer.close()
    store.finish_experiment(experiment)
    return plan
