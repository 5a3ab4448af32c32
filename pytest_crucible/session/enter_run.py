"""Enters a run and the plans of its experiments into the run store, before the first request is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from pytest_crucible.records import Sample
from pytest_crucible.records.files import git_commit
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.provenance import build_manifest, environment_facts, utc_now
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.joined_tests import JoinedTest
from pytest_crucible.store.history import add_tag, check_tag
from pytest_crucible.store.runs import RunStore


def enter_run(store: RunStore, run: str, config: pytest.Config, settings: Settings, facts: Mapping[str, Any]) -> None:
    """Enter a run with its tags. `facts` are further entries of its manifest. Raises SpecError for an invalid tag."""
    # Checked first: an invalid tag would otherwise leave a run that lacks it.
    for name in settings.tag:
        check_tag(name)
    command, started = config.invocation_params, utc_now()
    manifest = build_manifest(command.args, command.dir, config.rootpath, settings)
    store.begin_run(
        run,
        started=started,
        seed=settings.seed,
        alpha=settings.alpha,
        correction="holm",
        git=git_commit(config.rootpath),
        environment=environment_facts(),
        manifest={**manifest, **facts},
    )
    for name in settings.tag:
        add_tag(store, run, name, at=started)


def enter_withheld(store: RunStore, run: str, experiments: Iterable[Experiment]) -> None:
    """Enter the experiments that send nothing. Their verdicts are undecided."""
    for experiment in experiments:
        if experiment.plan.withheld:
            store.enter_unanswered(run, experiment.plan, experiment.dataset.samples)


def enter_joined_tests(store: RunStore, run: str, joined_tests: Iterable[JoinedTest]) -> None:
    """Enter joined tests, whose samples are their items, and keep the keys of their arms."""
    for joined in joined_tests:
        samples = [Sample(id=name, input=name) for name in joined.positions]
        key = store.add_experiment(run, joined.plan, samples)
        joined.arms = [store.add_arm(key, k, arm.name, "") for k, arm in enumerate(joined.plan.arms)]
