"""A pytest plugin (`-p benchmarks.probe`) that measures a session from inside and writes what it saw as JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from benchmarks.memory import peak_mib

_seen: dict[str, float] = {}


def _rss() -> int:
    """Bytes that are resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _peak() -> int:
    """The most bytes that were ever resident."""
    return int(peak_mib() * 2**20)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """The experiment itself: ask, score, store, until everything is committed."""
    rss, cpu, wall = _rss(), time.process_time(), time.perf_counter()
    result = yield
    _seen["asking_wall_s"] = time.perf_counter() - wall
    _seen["asking_cpu_s"] = time.process_time() - cpu
    _seen["asking_growth_bytes"] = max(0, _peak() - rss)
    return result


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Innermost: the last test has ended, and nothing is judged yet."""
    result = yield
    _seen["judging_cpu_s"] = -time.process_time()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    """The first that happens after the verdicts were reported."""
    _seen["judged_at"] = time.time()
    _seen["judging_cpu_s"] = _seen.get("judging_cpu_s", 0.0) + time.process_time()
    _seen["exit_status"] = int(exitstatus)


def pytest_unconfigure() -> None:
    _seen["cpu_s"] = time.process_time()
    _seen["peak_bytes"] = _peak()
    answers = sys.modules.get("answers")
    _seen["calls"] = getattr(answers, "calls", 0)
    Path(os.environ["BENCHMARK_PROBE"]).write_text(json.dumps(_seen))
