"""The connection to Ray, and the workers of a run on its nodes."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from pytest_crucible.features.scale.executor_options import MODE, SCHEME, ExecutorOptions
from pytest_crucible.features.scale.process_folder import open_process_folder
from pytest_crucible.features.scale.suite_files import suite_environment
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

TOKEN = "RAY_AUTH_TOKEN"
REACH_S = 5.0
"""Seconds within which the port of a cluster has to answer. Ray itself tries for 15 s and more."""


@dataclass(eq=False)
class Worker:
    """A worker as its driver sees it."""

    number: int
    actor: Any
    node: str = ""
    holder: str = ""
    """The name under which its process holds leases."""
    is_lost: bool = False

    @property
    def name(self) -> str:
        return f"{self.node}/{self.number}"


@dataclass
class Cluster:
    """A connected Ray, with a worker or several on each node."""

    options: ExecutorOptions
    environment: Mapping[str, str | None]
    """The variables that connecting has changed, with their values before."""
    folder: Path | None
    """The files of Ray where the cluster is ours; they go with it."""
    workers: list[Worker] = field(default_factory=list)
    is_lost: bool = False

    def start_workers(self, order: Mapping[str, Any], keys: Mapping[str, str], resources: Mapping[str, float]) -> None:
        """Start the workers on all live nodes.

        `keys` are the environment variables that adapters refer to, `resources` what each worker needs, such as a GPU.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from pytest_crucible.features.scale.worker import SuiteWorker

        # Clusters that are not ours have the keys by Ray's own channel for variables, which shows no values.
        runtime = {} if self.options.is_local or not keys else {"runtime_env": {"env_vars": dict(keys)}}
        remote = ray.remote(SuiteWorker)
        for node in self.nodes():
            for _ in range(self.options.per_node):
                actor = remote.options(
                    num_cpus=resources.get("CPU", 0),
                    num_gpus=resources.get("GPU", 0),
                    resources={name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")},
                    # Ray heeds no node for an actor that needs nothing at all: it would start on any.
                    memory=1,
                    max_restarts=-1,
                    max_task_retries=0,
                    max_concurrency=64,
                    # Soft: where its node has died, the worker starts again on another one.
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True),
                    **runtime,
                ).remote(order)
                self.workers.append(Worker(len(self.workers), actor))

    def nodes(self) -> dict[str, str]:
        """Return the names of the live nodes by their ids: host names, or addresses where hosts have one name."""
        import ray

        alive = [node for node in ray.nodes() if node["Alive"]]
        hosts = Counter(node["NodeManagerHostname"] for node in alive)
        return {
            node["NodeID"]: node[
                "NodeManagerHostname" if hosts[node["NodeManagerHostname"]] == 1 else "NodeManagerAddress"
            ]
            for node in alive
        }

    def node_resources(self) -> dict[str, Mapping[str, float]]:
        """Return what each live node has, such as `GPU`, by its name."""
        import ray

        names = self.nodes()
        return {names[node["NodeID"]]: node["Resources"] for node in ray.nodes() if node["NodeID"] in names}

    def close(self) -> None:
        """End the workers and the connection, and the cluster itself if it is ours. Idempotent."""
        import ray

        if ray.is_initialized() and not self.is_lost:
            for worker in self.workers:
                with contextlib.suppress(Exception):
                    ray.kill(worker.actor)
            ray.shutdown()
        self.workers.clear()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        _restore(self.environment)


def head_address() -> tuple[str, int] | None:
    """Return the host and port of the head of the connected cluster; None for a driver outside of the cluster."""
    import ray

    if ray.util.client.ray.is_connected():
        return None
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    return host.strip("[]"), int(port)


def connect(options: ExecutorOptions, root: Path) -> Cluster:
    """Return the connected cluster; `root` has the suite. Raises SpecError where Ray cannot be used."""
    environment = _set_environment(options)
    # The paths of Ray's sockets have at most 107 characters, of which it needs 65: TMPDIR may be too long.
    folder = open_process_folder("crucible-ray", "/tmp") if options.is_local else None
    import ray

    try:
        _check_reachable(options)
        with _quiet(), _same_signals():
            _init(ray, options, root, folder)
    except BaseException:
        ray.shutdown()
        _restore(environment)
        raise
    return Cluster(options, environment, folder)


def _set_environment(options: ExecutorOptions) -> dict[str, str | None]:
    """Set what Ray reads when it is imported, and return the values before."""
    values = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # Else a late call of a thread would connect again, or start another Ray.
        "RAY_ENABLE_AUTO_CONNECT": "0",
        "RAY_BACKEND_LOG_LEVEL": "error",
    }
    if options.is_local:
        # Ray gives its workers the lowest priority, and those of a run are not work of the background.
        values["RAY_worker_niceness"] = "0"
        # It gives up its own start after 30 s, which a busy machine needs.
        values |= {"RAY_raylet_start_wait_time_s": "120", "RAY_agent_register_timeout_ms": "120000"}
        # Without a token any user of the machine could run code in the workers.
        values |= {MODE: "token", TOKEN: secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    return before


def _restore(environment: Mapping[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _check_reachable(options: ExecutorOptions) -> None:
    if not options.address.startswith(SCHEME):
        return
    host, _, port = options.address.removeprefix(SCHEME).rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except (OSError, OverflowError) as error:
        raise SpecError(
            f"Ray at {host}:{port} cannot be reached ({error}): start it there with `ray start --head`, or correct the address"
        ) from None


def _init(ray: Any, options: ExecutorOptions, root: Path, folder: Path | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    place = options.address.removeprefix(SCHEME)
    try:
        if folder is not None:
            ray.init(address="local", num_cpus=1, include_dashboard=False, _temp_dir=str(folder), **quiet)
        else:
            ray.init(options.address, runtime_env=suite_environment(root), **quiet)
    except Exception as error:  # Ray itself raises Exception where a process of its own does not start
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        if folder is not None:
            raise SpecError(f"Ray could not be started here ({first}): see its logs below {folder}") from None
        raise SpecError(f"Ray at {place} cannot be used ({first}): {_remedy(str(error))}") from None
    if os.environ.get(MODE) != "token":
        raise SpecError(no_token_sentence(options))


def no_token_sentence(options: ExecutorOptions) -> str:
    """Return the error of a cluster that anybody may use."""
    return f"Ray at {options.address.removeprefix(SCHEME)} requires no token: start it with {MODE}=token"


def _remedy(error: str) -> str:
    if "ersion" in error:
        return "install the same versions of Ray and Python here and there"
    return f"start it with {MODE}=token, and set {MODE}=token and {TOKEN} here"


@contextlib.contextmanager
def _same_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which ends a session in order: Ray sets one of its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray's own log lines from pytest's terminal: those of Python, and those that its C++ writes to the descriptor."""
    logger = logging.getLogger("ray")
    before, stderr, nowhere = logger.level, os.dup(2), os.open(os.devnull, os.O_WRONLY)
    logger.setLevel(logging.ERROR)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
        logger.setLevel(before)
