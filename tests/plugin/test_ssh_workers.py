"""Workers of pytest-xdist on other machines, by ssh, with one run store."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql_server

ROOT = Path(__file__).parents[2]
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
WAIT_S = 20


def missing() -> str:
    """Return why no server of ssh can run here; empty where one can."""
    if not Path(SSHD).exists() or not all(map(shutil.which, ("ssh", "ssh-keygen"))):
        return "OpenSSH's server and client are not installed"
    if os.geteuid() != 0:
        return "only root may log in to a server of its own here"
    return postgresql_server.missing()


pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing() or "installed")]


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[Path]:
    """A server on a free port of this machine, which is named gpu-1; yields the client's configuration."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Debian's start script makes it elsewhere.
    Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"PidFile {folder}/pid\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    client = folder / "ssh_config"
    client.write_text(
        f"Host gpu-1\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {folder}/user\n"
        "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
    )
    subprocess.run([SSHD, "-f", folder / "sshd_config", "-E", folder / "log"], check=True)
    until = time.monotonic() + WAIT_S
    while not (folder / "pid").exists() and time.monotonic() < until:
        time.sleep(0.05)
    try:
        yield client
    finally:
        os.kill(int((folder / "pid").read_text()), signal.SIGTERM)


def test_workers_on_other_machines_write_into_one_run_store(tmp_path):
    suite, ssh = tmp_path / "suite", tmp_path / "ssh"
    shutil.copytree(ROOT / "example_suites" / "arithmetic", suite)
    shutil.copy(suite / "test_sums.py", suite / "test_more.py")
    ssh.mkdir()
    with postgresql_server.server() as database, ssh_server(ssh) as client:
        place = f"ssh=-F {client} gpu-1//python={sys.executable}//env:PYTHONPATH={ROOT}//chdir={suite}"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dist", "each", "--tx", place),
                *("--crucible-adapter=v2", "--compare=v1", f"--crucible-store={database.url}"),
            ],
            cwd=suite,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    # Two experiments, with a target and a comparison each.
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    assert "+0.210 [+0.162, +0.257]" in done.stdout
    assert not (suite / ".crucible").exists()
