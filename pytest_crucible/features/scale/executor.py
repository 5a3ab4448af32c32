"""The driver of a run on a cluster: an ordinary session, whose units are sent by workers."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible import sandbox
from pytest_crucible.adapters.feature_rows import find_pending
from pytest_crucible.features.scale.cluster import Cluster, connect, no_token_sentence
from pytest_crucible.features.scale.dealing import Dealing, WorkerProblem
from pytest_crucible.features.scale.executor_options import ExecutorOptions, parse_executor
from pytest_crucible.features.scale.leases import close_shared, share_by_workers
from pytest_crucible.features.scale.node_servers import compare_node_servers
from pytest_crucible.features.scale.results import RESULTS_PLUGIN, ResultsPlugin
from pytest_crucible.features.scale.run_watch import ClusterLost
from pytest_crucible.features.scale.suite_facts import experiment_facts, version_facts
from pytest_crucible.features.scale.suite_files import key_variables
from pytest_crucible.features.scale.vllm_kind import missing_resources, worker_resources
from pytest_crucible.features.scale.worker_session import BlockCall, WorkerOrder
from pytest_crucible.metrics.models.scorers import scorer_reports
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.session.experiment import ExperimentRun, SentRound
from pytest_crucible.session.experiment_items import observation_hook
from pytest_crucible.session.items import collected_nodeid
from pytest_crucible.session.resources import SHARED_BY_WORKERS
from pytest_crucible.session.settings import draft_settings
from pytest_crucible.store.replies import StoredRows
from pytest_crucible.store.row_batches import decode_rows

if TYPE_CHECKING:
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.session import CrucibleSession

PLAN_S = 300.0
"""Seconds within which workers have to import and plan the suite: models of metrics may have to be loaded."""


def open_executor(session: CrucibleSession) -> Executor:
    """Connect to the cluster, and return the plugin that sends units by its workers. Raises pytest.UsageError."""
    try:
        options = parse_executor(session.settings.option("executor"))
        cluster = connect(options, session.config.rootpath)
        session.resources.on_close(cluster.close)
        executor = Executor(session, options, cluster)
        executor.share()
        session.resources.on_close(executor.close)
    except CrucibleError as error:
        raise pytest.UsageError(session.state.hide(str(error))) from None
    return executor


class Executor:
    """Starts the workers of a session, and sends its rounds by them. A pytest plugin."""

    def __init__(self, session: CrucibleSession, options: ExecutorOptions, cluster: Cluster) -> None:
        self._session, self._options, self._cluster = session, options, cluster
        self._nodes = cluster.nodes()
        self._following: str | None = None
        self._runs = 0
        self._dealings: dict[int, Dealing] = {}
        self.lost: ClusterLost | None = None
        self.results: ResultsPlugin | None = session.config.pluginmanager.get_plugin(RESULTS_PLUGIN)

    def share(self) -> None:
        """Open what workers share: limits, budgets, cached replies."""
        session = self._session
        rows = StoredRows(lambda: session.resources.store)
        session.config.stash[SHARED_BY_WORKERS] = share_by_workers(session.run, self._count_workers(), rows)

    def _count_workers(self) -> int:
        return len(self._nodes) * self._options.per_node

    def pytest_crucible_plan_session(self, collection: ExperimentCollection) -> None:
        """Refuse what workers cannot send."""
        if any(arm.competitors for arm in collection.opened_arms):
            collection.problems.append(
                "--crucible-executor sends the samples of adapters that are known before the run, and a sweep chooses one in it: "
                "run the sweep without it"
            )
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
        adapters = [opened.adapter for opened in collection.opened_arms if opened.adapter is not None]
        resources = worker_resources(adapters)
        collection.problems += missing_resources(self._cluster.node_resources(), resources)
        collection.problems += [] if self.results is None else self.results.put_probe()
        if not collection.problems:
            keys = key_variables(self._session.config.rootpath, adapters)
            self._cluster.start_workers(asdict(self._order(collection)), keys, resources)
            collection.problems += dict.fromkeys(self._wait_until_planned())

    def _order(self, collection: ExperimentCollection) -> WorkerOrder:
        config = self._session.config
        return WorkerOrder(
            run=self._session.run,
            directory=os.getcwd(),
            folder=os.path.relpath(os.getcwd(), config.rootpath),
            arguments=[str(argument) for argument in config.invocation_params.args],
            names=self._nodes,
            settings=draft_settings(config).facts,
            input=_feature_input(config),
            concurrency=self._options.concurrency or self._session.settings.concurrency,
            workers=self._count_workers(),
            runs_code=sandbox.is_allowed(),
            versions=version_facts(),
            results=self.results.results.root if self.results is not None else "",
            probe=self.results.probe if self.results is not None else "",
            experiments={
                nodeid: {"nodeid": nodeid, "plan": to_plain(experiment.plan), **experiment_facts(experiment)}
                for nodeid, experiment in collection.experiments.items()
            },
        )

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
            worker.node, worker.holder = answer["node"], answer["holder"]
            decode_rows(answer.get("rows", ()))
        servers = compare_node_servers({answer["node"]: answer["servers"] for answer in answers})
        tokens = [no_token_sentence(self._options) for answer in answers if not answer["has_token"]]
        return [*tokens, *(answer["problem"] for answer in answers if answer["problem"]), *servers]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Note which item follows: its fixtures stay on the workers, too."""
        self._following = None if nextitem is None else collected_nodeid(nextitem)

    @pytest.hookimpl(trylast=True)
    def pytest_crucible_run(self, run: ExperimentRun) -> None:
        """Send the units of an experiment by the workers."""
        self._runs += 1
        number = self._runs
        # A plugin that receives observations needs them here, as looks do.
        is_seen = run.rule is not None or observation_hook(self._session.config) is not None
        run.sender = _RunSender(self, number, None if is_seen else self.results, in_order=run.rule is not None)
        run.after.append(lambda: self._end_run(number))

    def add_problem(self, sentence: str) -> None:
        """End the session with this error."""
        self._session.messages.problems.append(sentence)

    def _end_run(self, number: int) -> None:
        """End a run on the workers, and show what their scorers and listeners report."""
        import ray

        own, nodes = scorer_reports(), defaultdict[str, list[str]](list)
        # Without the connection, the workers end, too.
        with contextlib.suppress(ConnectionError):
            live = [worker for worker in self._cluster.workers if not worker.is_lost]
            nodes_of = {worker.actor.end_run.remote(number): worker.node for worker in live}
            for call in ray.wait([*nodes_of], num_returns=len(live), timeout=REPORT_S)[0] if live else ():
                with contextlib.suppress(ray.exceptions.RayError):
                    reports, failures = ray.get(call)
                    self._session.messages.add_complaints(failures)
                    for report in reports:
                        nodes[report].append(nodes_of[call])
        self._session.messages.lines += [
            *own,
            *(
                f"{', '.join(sorted(set(names)))}: {sentence}"
                for sentence, names in nodes.items()
                if sentence not in own
            ),
        ]

    def dealing(self, key: int) -> Dealing:
        """Return the dealing of an experiment's blocks, whose numbers go on in later stages. `key` is the store's."""
        return self._dealings.setdefault(
            key, Dealing(self._session.run, self._cluster.workers, self._session.settings.seed, self._add_tallies)
        )

    def _add_tallies(self, tallies: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Count what the reply cache has answered on a worker."""
        cache = self._session.resources.shared.cache
        if cache is None:
            return
        for nodeid, arm, counts in tallies:
            tally = cache.tally(nodeid, arm)
            tally.requests += counts["requests"]
            tally.hits += counts["hits"]
            tally.oldest = min(tally.oldest, counts["oldest"])
            tally.missing |= counts["missing"]

    def close(self) -> None:
        """End the workers' sessions, and the connection."""
        import ray

        # Ray ends the process of a cluster that is lost when Python exits, before Python writes out what it holds.
        self._session.config.get_terminal_writer().flush()
        if self.lost is not None or not ray.is_initialized():
            return
        with contextlib.suppress(ConnectionError, ray.exceptions.RayError):
            calls = [worker.actor.close.remote() for worker in self._cluster.workers if not worker.is_lost]
            # Teardown of fixtures; a worker that hangs is ended with its process.
            if calls:
                ray.wait(calls, num_returns=len(calls), timeout=CLOSE_S)
            close_shared(self._session.run)

    def lose_cluster(self, error: ClusterLost) -> None:
        """Send nothing more, and leave the connection: Ray would end this process, with what it has not printed."""
        self.lost, self._cluster.is_lost = error, True

    def block_call(self, run: int, sent: SentRound, needs_calls: bool) -> BlockCall:
        """Return the facts of the run that workers get with a block."""
        facts = run, sent.experiment.plan.nodeid, self._following, self._seconds_left(), sent.arms
        return BlockCall(*facts, needs_calls=needs_calls)

    def _seconds_left(self) -> float | None:
        """Return the seconds until the session's deadline; None without one."""
        deadline = self._session.state.deadline
        return None if deadline is None else max(0.0, deadline.at - time.monotonic())


def _feature_input(config: pytest.Config) -> dict[str, Any]:
    """Return what features pass to workers of pytest-xdist, which those of a cluster need as well."""
    workerinput: dict[str, Any] = {}
    node = SimpleNamespace(config=config, workerinput=workerinput)
    for name, plugin in config.pluginmanager.list_name_plugin():
        if name.startswith("crucible-") and name != "crucible-scale" and hasattr(plugin, "pytest_configure_node"):
            plugin.pytest_configure_node(node=node)
    return workerinput


CLOSE_S = 20.0
REPORT_S = 10.0
"""Seconds within which workers report at the end of an experiment. A report is worth no longer wait."""


class _RunSender:
    """Sends the rounds of one run of an experiment."""

    def __init__(self, executor: Executor, number: int, results: ResultsPlugin | None, *, in_order: bool) -> None:
        self._executor, self._number, self._results, self._in_order = executor, number, results, in_order

    async def send(self, sent: SentRound) -> None:
        # Arms with stored replies, whose calls are compared.
        needs_calls = any(sent.watch.answered)
        dealing = self._executor.dealing(sent.key)
        call = partial(self._executor.block_call, self._number, sent, needs_calls)
        if self._executor.lost is not None:
            raise self._executor.lost
        try:
            await dealing.send(sent, call, self._results, in_order=self._in_order)
        except ClusterLost as error:
            self._executor.lose_cluster(error)
            raise
        except WorkerProblem as error:
            # An error of the configuration, though it is known only now.
            self._executor.add_problem(str(error))
            raise
