"""Ray clusters of several machines on one: network namespaces that are joined by veth links.

Nothing outside of the namespaces can be reached from them, and nothing outside reaches them. A cluster is ended by the ids of the
processes that belong to its namespaces.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

PORT, CLIENT_PORT = 6379, 10001
START_S = 200
RAY = (
    "import ray._private.utils as utils; utils.get_dashboard_dependency_error = ImportError; "
    "from ray.scripts.scripts import main; main()"
)
"""The program `ray` as `pip install ray` has it. A node gives up after 15 s in which the dashboard's agent has not started."""
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
"""Debian's package `libfaketime`."""
PROGRAMS = Path(sys.prefix) / "bin"
PYTHON = str(PROGRAMS / "python")
"""The interpreter itself: `sys.executable` of a test is a client of the fork server, which is in no namespace."""


@dataclass
class Machine:
    """A network namespace with an address of its own."""

    name: str
    address: str
    link: str
    """The end of its veth link in the namespace of the switch."""

    def command(self, *arguments: str) -> list[str]:
        """Return a command that runs in the namespace."""
        return ["ip", "netns", "exec", self.name, *arguments]

    def processes(self) -> list[int]:
        """Return the ids of its processes."""
        text = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False).stdout
        return [int(word) for word in text.split()]

    def kill(self, name: str = "") -> None:
        """Kill its processes whose command has this text: `raylet`, `gcs_server`, `ray::SuiteWorker`; else all."""
        for process in self.processes():
            with contextlib.suppress(OSError):
                if name in Path(f"/proc/{process}/cmdline").read_text(errors="replace").replace("\0", " "):
                    os.kill(process, signal.SIGKILL)


@dataclass
class Cluster:
    """A head, `machines[0]`, and other nodes."""

    machines: list[Machine]
    switch: str
    folder: Path
    token: str
    environment: Mapping[str, str] = field(default_factory=dict)
    ahead_s: float = 0
    """Seconds by which the clock of the last machine is ahead."""
    covers: Mapping[Path, Path] = field(default_factory=dict)
    """Folders of which the last machine has others in their place."""

    @property
    def address(self) -> str:
        """The address for drivers that run elsewhere."""
        return f"ray://{self.machines[0].address}:{CLIENT_PORT}"

    def variables(self) -> dict[str, str]:
        """Return the environment of a process of the cluster, or of a driver."""
        tokens = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token} if self.token else {}
        return {
            **os.environ,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            **tokens,
            **self.environment,
        }

    def driver_variables(self) -> dict[str, str]:
        """Return the environment of a driver on a machine: `auto` would else find any Ray among this machine's processes."""
        return {**self.variables(), "RAY_ADDRESS": f"{self.machines[0].address}:{PORT}"}

    def start_node(self, machine: Machine) -> None:
        """Start Ray on a machine."""
        is_head = machine is self.machines[0]
        head = ["--head", f"--port={PORT}", f"--ray-client-server-port={CLIENT_PORT}", "--include-dashboard=false"]
        place = [f"--node-ip-address={machine.address}", f"--temp-dir={self.folder / machine.name}"]
        arguments = head if is_head else [f"--address={self.machines[0].address}:{PORT}"]
        start = [PYTHON, "-c", RAY, "start", *arguments, *place, "--num-cpus=1", "--disable-usage-stats"]
        if machine is self.machines[-1]:
            # The program `ip` has given the command a mount namespace of its own.
            mounts = "".join(f"mount --bind {other} {path} && " for path, other in self.covers.items())
            start = ["sh", "-c", f'{mounts}exec "$0" "$@"', *start]
        command = machine.command(*start)
        # Ray takes any cluster of this machine for the one before, which another test may have at the same address.
        shutil.rmtree(self.folder / machine.name, ignore_errors=True)
        for _ in range(5):
            started = subprocess.run(
                command, env=self._node_variables(machine), capture_output=True, text=True, timeout=START_S
            )
            if not started.returncode:
                return
            machine.kill()
        raise RuntimeError(f"Ray did not start on {machine.address}: {started.stdout[-500:]} {started.stderr[-500:]}")

    def start_nodes(self) -> None:
        """Start Ray on all machines, the head first."""
        for machine in self.machines:
            self.start_node(machine)

    def _node_variables(self, machine: Machine) -> dict[str, str]:
        if not self.ahead_s or machine is not self.machines[-1]:
            return self.variables()
        fake = {"FAKETIME": f"+{self.ahead_s}"}
        return {**self.variables(), "LD_PRELOAD": str(FAKETIME), **fake}

    def run(
        self, machine: Machine, *arguments: str, cwd: Path, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run pytest on a machine, as a user does there."""
        command = machine.command(PYTHON, "-m", "pytest", *arguments)
        return subprocess.run(
            command, env=self.driver_variables(), cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
        )

    def popen(self, machine: Machine, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
        """Start a Python process on a machine."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        # Where tests run in the background, a shell lets them ignore Ctrl-C, and all that they start.
        command = machine.command("env", "--default-signal=INT", PYTHON, *arguments)
        return subprocess.Popen(command, env=self.driver_variables(), cwd=cwd, **pipes)

    def cut(self, machine: Machine) -> None:
        """Cut the link of a machine."""
        _ip("-n", self.switch, "link", "set", machine.link, "down")

    def join(self, machine: Machine) -> None:
        """Join a link that was cut."""
        _ip("-n", self.switch, "link", "set", machine.link, "up")

    def close(self) -> None:
        """End all processes of the cluster, and remove its namespaces."""
        until = time.monotonic() + 10
        while any(machine.processes() for machine in self.machines) and time.monotonic() < until:
            for machine in self.machines:
                machine.kill()
            time.sleep(0.1)
        for name in (*(machine.name for machine in self.machines), self.switch):
            _ip("netns", "delete", name, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)


def skip_without_clusters() -> None:
    """Skip a test where Ray is not installed, or where network namespaces cannot be made."""
    pytest.importorskip("ray", reason="needs Ray: the extra [ray]")
    name = f"crucible-{secrets.token_hex(3)}"
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs network namespaces: root, and the program `ip`")


@contextlib.contextmanager
def start_machines(
    count: int, *, has_token: bool = True, environment: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Yield a cluster whose Ray is not started yet: machines that reach each other, and nothing else."""
    # Short: Ray's sockets lie below the folder, and their paths have at most 107 characters.
    key, folder = secrets.token_hex(2), Path(tempfile.mkdtemp(prefix="cl", dir="/tmp"))
    switch = f"cs-{key}"
    machines = [Machine(f"c{number}-{key}", f"10.77.0.{number + 1}", f"p{number}-{key}") for number in range(count)]
    token = secrets.token_hex(32) if has_token else ""
    cluster = Cluster(machines, switch, folder, token, environment or {})
    try:
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for machine in machines:
            _add_machine(machine, switch)
        yield cluster
    finally:
        cluster.close()


def _add_machine(machine: Machine, switch: str) -> None:
    name = machine.name
    _ip("netns", "add", name)
    _ip("-n", name, "link", "set", "lo", "up")
    _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", machine.link, "netns", switch)
    _ip("-n", switch, "link", "set", machine.link, "master", "br0", "up")
    _ip("-n", name, "address", "add", f"{machine.address}/24", "dev", "eth0")
    _ip("-n", name, "link", "set", "eth0", "up")


@contextlib.contextmanager
def start_cluster(
    nodes: int = 3, *, has_token: bool = True, environment: Mapping[str, str] | None = None, **of_last: Any
) -> Iterator[Cluster]:
    """Yield a cluster with Ray on each machine. `of_last` may have the fields `ahead_s` and `covers` of `Cluster`."""
    with start_machines(nodes, has_token=has_token, environment=environment) as machines:
        cluster = replace(machines, **of_last)
        cluster.start_nodes()
        yield cluster


def python_path(root: Path, others: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment in which processes import this package, and further folders."""
    return {"PYTHONPATH": os.pathsep.join([str(root), *others])}
