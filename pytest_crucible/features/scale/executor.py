"""The driver of a run on a cluster: an ordinary session, whose units are sent by workers."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.adapters.feature_rows import find_pending
from pytest_crucible.features.scale.cluster import Cluster, connect
from pytest_crucible.features.scale.dealing import Dealing
from pytest_crucible.features.scale.executor_options import ExecutorOptions, parse_executor
from pytest_crucible.features.scale.suite_facts import experiment_facts, version_facts
from pytest_crucible.features.scale.worker_session import BlockCall, WorkerOrder
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.session.experiment import ExperimentRun, SentRound
from pytest_crucible.session.items import collected_nodeid
from pytest_crucible.session.settings import draft_settings

if TYPE_CHECKING:
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.session import CrucibleSession

PLAN_S = 300.0
"""Seconds within which workers have to import and plan the suite: models of metrics may have to be loaded."""


def open_executor(session: CrucibleSession) -> Executor:
    """Connect to the cluster, and return the plugin that sends units by its workers. Raises pytest.UsageError."""
    try:
        options = parse_executor(session.settings.option("executor"))
        executor = Executor(session, options, connect(options))
    except CrucibleError as error:
        raise pytest.UsageError(session.state.hide(str(error))) from None
    session.resources.on_close(executor.close)
    return executor


class Executor:
    """Starts the workers of a session, and sends its rounds by them. A pytest plugin."""

    def __init__(self, session: CrucibleSession, options: ExecutorOptions, cluster: Cluster) -> None:
        self._session, self._options, self._cluster = session, options, cluster
        self._following: str | None = None
        self._runs = 0
        self._dealings: dict[int, Dealing] = {}

    def pytest_crucible_plan_session(self, collection: ExperimentCollection) -> None:
        """Refuse what workers cannot send."""
        for pending in find_pending(collection.opened_arms):
            collection.problems.append(
                f"adapter {pending.adapter!r} has to be trained first, and --crucible-executor trains nothing: train it "
                "in a session without it"
            )

    @pytest.hookimpl(trylast=True)
    def pytest_crucible_prepare(self, collection: ExperimentCollection) -> None:
        """Start the workers, and compare their suites with this one."""
        if collection.problems or not (collection.experiments and collection.spends):
            return
        self._cluster.start_workers(asdict(self._order(collection)), self._keys())
        collection.problems += dict.fromkeys(self._wait_until_planned())

    def _order(self, collection: ExperimentCollection) -> WorkerOrder:
        config, nodes = self._session.config, self._cluster.nodes()
        return WorkerOrder(
            run=self._session.run,
            directory=os.getcwd(),
            arguments=[str(argument) for argument in config.invocation_params.args],
            names=nodes,
            settings=draft_settings(config).facts,
            concurrency=self._options.concurrency or self._session.settings.concurrency,
            workers=len(nodes) * self._options.per_node,
            versions=version_facts(),
            experiments={
                nodeid: {"nodeid": nodeid, "plan": to_plain(experiment.plan), **experiment_facts(experiment)}
                for nodeid, experiment in collection.experiments.items()
            },
        )

    def _keys(self) -> Mapping[str, str]:
        return {}

    def _wait_until_planned(self) -> list[str]:
        import ray

        calls = [worker.actor.plan.remote() for worker in self._cluster.workers]
        try:
            answers = ray.get(calls, timeout=PLAN_S)
        except ray.exceptions.GetTimeoutError:
            return [f"the workers have not planned the suite within {PLAN_S:.0f} s: see the logs of Ray"]
        except ray.exceptions.RayError as error:
            return [f"a worker could not be started: {str(error).strip().splitlines()[-1]}"]
        for worker, answer in zip(self._cluster.workers, answers, strict=True):
            worker.node = answer["node"]
        return [answer["problem"] for answer in answers if answer["problem"]]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Note which item follows: its fixtures stay on the workers, too."""
        self._following = None if nextitem is None else collected_nodeid(nextitem)

    @pytest.hookimpl(trylast=True)
    def pytest_crucible_run(self, run: ExperimentRun) -> None:
        """Send the units of an experiment by the workers."""
        self._runs += 1
        number = self._runs
        run.sender = _RunSender(self, number, in_order=run.rule is not None)
        run.after.append(lambda: self._end_run(number))

    def _end_run(self, number: int) -> None:
        for worker in self._cluster.workers:
            worker.actor.end_run.remote(number)

    def dealing(self, key: int) -> Dealing:
        """Return the dealing of an experiment's blocks, whose numbers go on in later stages. `key` is the store's."""
        return self._dealings.setdefault(key, Dealing(self._cluster.workers, self._session.settings.seed))

    def close(self) -> None:
        """End the workers' sessions, and the connection."""
        import ray

        if ray.is_initialized():
            calls = [worker.actor.close.remote() for worker in self._cluster.workers if not worker.is_lost]
            # Teardown of fixtures; a worker that hangs is ended with its process.
            ray.wait(calls, num_returns=len(calls), timeout=CLOSE_S) if calls else None
        self._cluster.close()

    def block_call(self, run: int, sent: SentRound) -> BlockCall:
        """Return what workers have to know of a block that they get now."""
        return BlockCall(run, sent.experiment.plan.nodeid, self._following, self._seconds_left(), sent.arms)

    def _seconds_left(self) -> float | None:
        """Return the seconds until the session's deadline; None without one."""
        deadline = self._session.state.deadline
        return None if deadline is None else max(0.0, deadline.at - time.monotonic())


CLOSE_S = 20.0


class _RunSender:
    """Sends the rounds of one run of an experiment."""

    def __init__(self, executor: Executor, number: int, *, in_order: bool) -> None:
        self._executor, self._number, self._in_order = executor, number, in_order

    async def send(self, sent: SentRound) -> None:
        dealing, call = self._executor.dealing(sent.key), partial(self._executor.block_call, self._number, sent)
        await dealing.send(sent, call, in_order=self._in_order)
