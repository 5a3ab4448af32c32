"""Processes, machines and links fail while a session on several machines runs: no unit is lost, and none is stored twice.

`python -m benchmarks.cluster_faults` repeats most of these at random moments.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_runs import ENVIRONMENT, HELD, ClusterRun, serve
from clusters import FAKETIME, Cluster, skip_without_clusters, start_cluster

SAMPLES, NODES = 2000, 2
pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ClusterRun]:
    """A suite on a cluster of two machines, with a server on the first."""
    skip_without_clusters()
    with start_cluster(NODES, environment=ENVIRONMENT) as cluster, serve(cluster):
        run = ClusterRun(cluster, tmp_path, SAMPLES)
        run.write_suite()
        yield run


@pytest.fixture(scope="module")
def small_cluster() -> Iterator[Cluster]:
    skip_without_clusters()
    with start_cluster(1, environment=ENVIRONMENT) as cluster, serve(cluster):
        yield cluster


@pytest.fixture
def small_run(small_cluster: Cluster, tmp_path: Path) -> ClusterRun:
    """A suite on a cluster of one machine."""
    run = ClusterRun(small_cluster, tmp_path, SAMPLES)
    run.write_suite()
    return run


def expect_whole_run(run: ClusterRun, driver: subprocess.Popen[str], twice: int = HELD) -> None:
    """Expect that the session passes, with each unit once, and that only blocks of one worker were sent twice."""
    output = driver.communicate(timeout=200)[0]
    assert driver.returncode == 0, output
    assert run.count_replies() == (run.samples, run.samples)
    assert run.read_row("SELECT COUNT(*) FROM lost") == (0,)
    assert run.count_requests() <= run.samples + twice


def expect_resumed_run(run: ClusterRun, stored: int, before: int) -> None:
    """Expect that a resumed session passes, with each unit once, and requests only what is not stored."""
    resumed = run.start_driver("--crucible-resume")
    output = resumed.communicate(timeout=200)[0]
    assert resumed.returncode == 0, output
    assert run.count_replies() == (run.samples, run.samples)
    assert run.count_requests() - before <= run.samples - stored


@pytest.mark.parametrize("process", ["ray::SuiteWorker", "raylet/raylet"])
def test_a_process_that_is_killed_costs_no_reply(run, process):
    driver = run.start_driver()
    run.wait_for_blocks()
    run.cluster.machines[1].kill(process)
    expect_whole_run(run, driver)


def test_a_machine_that_is_cut_off_costs_no_reply_and_no_waiting(run):
    driver = run.start_driver()
    run.wait_for_blocks()
    run.cluster.cut(run.cluster.machines[1])
    expect_whole_run(run, driver)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends_early_is_resumed_with_what_it_has_stored(run, number):
    driver = run.start_driver()
    run.wait_for_blocks()
    os.kill(driver.pid, number)
    output = driver.communicate(timeout=100)[0]
    assert "INTERNALERROR" not in output
    assert driver.returncode == (2 if number == signal.SIGINT else -number)
    (stored,), before = run.read_row("SELECT COUNT(*) FROM replies"), run.count_requests()
    assert 0 < stored < SAMPLES
    expect_resumed_run(run, stored, before)


def test_a_head_that_dies_ends_the_session_with_one_sentence(tmp_path):
    """A session on a cluster that was started again continues from what is stored."""
    skip_without_clusters()
    with start_cluster(1, environment=ENVIRONMENT) as cluster:
        run = ClusterRun(cluster, tmp_path, 8_000)
        run.write_suite()
        with serve(cluster):
            driver = run.start_driver()
            run.wait_for_blocks()
            cluster.machines[0].kill("gcs_server")
            killed = time.monotonic()
            output = driver.communicate(timeout=100)[0]
            seconds = time.monotonic() - killed
        assert driver.returncode == 1, output
        sentence = "Ray's head at 10.77.0.1:6379 has not answered for 20 s: start it again, then continue with --crucible-resume"
        assert sentence in output
        assert "Traceback" not in output
        # Ray itself would end the process after a minute.
        assert seconds < 60
        (stored,) = run.read_row("SELECT COUNT(*) FROM replies")
        for machine in cluster.machines:
            machine.kill()
        cluster.start_nodes()
        with serve(cluster):
            expect_resumed_run(run, stored, 0)


@pytest.mark.parametrize("process", ["ray::LeaseDesk", "ray::ReplyDesk"])
def test_a_run_whose_limits_or_cached_replies_are_gone_ends_with_one_sentence(small_run, process):
    run = small_run
    driver = run.start_driver()
    run.wait_for_blocks()
    run.cluster.machines[0].kill(process)
    output = driver.communicate(timeout=100)[0]
    assert driver.returncode == 1, output
    assert "the process with the limits or cached replies of this run has died" in output
    (stored,), before = run.read_row("SELECT COUNT(*) FROM replies"), run.count_requests()
    expect_resumed_run(run, stored, before)


def test_clocks_that_are_minutes_apart_change_nothing(tmp_path):
    skip_without_clusters()
    if not FAKETIME.exists():
        pytest.skip("needs libfaketime: apt-get install libfaketime")
    with start_cluster(NODES, environment=ENVIRONMENT, ahead_s=300) as cluster, serve(cluster):
        run = ClusterRun(cluster, tmp_path, 600)
        run.write_suite()
        expect_whole_run(run, run.start_driver(), twice=0)
        started = "SELECT MAX(started) - MIN(started) FROM blocks"
        assert run.read_row(started)[0] > 250
