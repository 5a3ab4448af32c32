"""Generated suites, run by pytest in a process of their own: what is measured is what a user runs."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

_CONFIGURATION = """\
[adapters.v1]
backend = "scripted"
script = "answers:v1"
latency_s = {latency_s}

[adapters.v2]
backend = "scripted"
script = "answers:v2"
latency_s = {latency_s}
"""
_MODELS = '''\
"""The same models as a backend of the suite's own: what they say is kept, as that of scripts is not."""
import answers
from pytest_crucible import Reply


class Model:
    simulated = False

    def __init__(self, name):
        self.identity = name
        self.answer = getattr(answers, name)

    async def generate(self, request):
        return Reply(text=self.answer(request), input_tokens=12, output_tokens=1, latency_s=0.05, model=self.identity)


def pytest_crucible_backend(adapter):
    return Model(adapter.name) if adapter.backend == "model" else None
'''
_OF_MODELS = """\
[adapters.v1]
backend = "model"
parameters = { temperature = 0.7, max_tokens = 60 }

[adapters.v2]
backend = "model"
parameters = { temperature = 0.7, max_tokens = 60 }
"""
_ANSWERS = '''\
"""Two models that answer at once: v1 is right on 7 of 10 samples, v2 on 8 of 10."""
import random
import zlib
from itertools import accumulate

PADDING = {padding}
calls = 0


def text(seed):
    """A space and words that no other seed has in this order, some `PADDING` characters of them."""
    return " " + " ".join(random.Random(seed).choices(WORDS, cum_weights=FREQUENT, k=PADDING // 7)) if PADDING else ""


WORDS = ["".join(random.Random(k).choices("abcdefghilmnoprstuvwy", k=2 + k % 9)) for k in range(2000)]
FREQUENT = list(accumulate(1 / (k + 3) for k in range(len(WORDS))))


def v1(request):
    return _answer(request, b"1", 70)


def v2(request):
    return _answer(request, b"2", 80)


def _answer(request, salt, right):
    global calls
    calls += 1
    said = "yes" if zlib.crc32(request.sample.encode() + salt) % 100 < right else "no"
    return said + text(request.sample + str(salt))
'''
_TEST = '''\
"""One experiment of {samples} samples."""
import time
import zlib

import pytest

from answers import text
from pytest_crucible import metric


def rows():
    return ({{"id": f"sample-{{k}}", "input": f"Is {{k}} a number?{{text(k)}}", "expected": "yes"}} for k in range({samples}))


@metric(bounds=(0, 10))
def length(reply, sample):
    return float(len(reply.text))


@metric(kind="positive", direction="lower")
def seconds(reply, sample):
    """As random as a crc32: around a second, slower where the reply is longer."""
    draw = zlib.crc32((sample.id + reply.text).encode()) / 2**32
    return len(reply.text) * (0.2 + draw)


@metric(kind="binary")
def laborious(reply, sample):
    """Keeps Python busy for a millisecond."""
    until = time.perf_counter() + 0.001
    while time.perf_counter() < until:
        pass
    return True


@pytest.mark.crucible(dataset=rows, metrics=[{metrics}])
{marks}
{define} test_numbers(sample, sampler):
    return {wait}sampler.generate(sample.input)
'''


COMPARED = ("@pytest.mark.ab_compare('exact_match')",)
"""Marks of a suite that asks both arms: one that compares nothing does not ask a baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """An experiment on two adapters, `v1` and `v2`, written into a directory. They are scripts, or cached models."""

    directory: Path
    samples: int
    metrics: tuple[str, ...] = ("'exact_match'",)
    marks: tuple[str, ...] = ()
    is_async: bool = True
    latency_s: float = 0.0
    is_cached: bool = False
    padding: int = 0
    """Characters by which each prompt and each answer is longer, with words of its own."""
    build: Path = ROOT
    """The checkout whose package runs the suite."""

    @property
    def store(self) -> Path:
        """The run store, unless a run names another one."""
        return self.directory / ".crucible" / "crucible.db"

    def write(self) -> Suite:
        """Write the suite's files."""
        self.directory.mkdir(parents=True, exist_ok=True)
        test = _TEST.format(
            samples=self.samples,
            metrics=", ".join(self.metrics),
            marks="\n".join(self.marks),
            define="async def" if self.is_async else "def",
            wait="await " if self.is_async else "",
        )
        files = {
            "pytest.ini": "[pytest]\n",
            "crucible.toml": _CONFIGURATION.format(latency_s=self.latency_s),
            "answers.py": _ANSWERS.format(padding=self.padding),
            "test_numbers.py": test,
        }
        if self.is_cached:
            files |= {"crucible.toml": _OF_MODELS, "conftest.py": _MODELS}
        for name, text in files.items():
            (self.directory / name).write_text(text)
        return self

    def run(self, *arguments: str) -> dict[str, float]:
        """Run it; what the probe saw. Raises RuntimeError when pytest did not get to verdicts."""
        seen = self.directory / "probe.json"
        seen.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.probe", "-p", "no:cacheprovider", *arguments]
        paths = os.pathsep.join([str(self.build), *filter(None, [os.environ.get("PYTHONPATH")])])
        settings = {**os.environ, "BENCHMARK_PROBE": str(seen), "PYTHONPATH": paths, "PYTEST_ADDOPTS": ""}
        done = subprocess.run(command, cwd=self.directory, env=settings, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1) or not seen.exists():
            raise RuntimeError(f"pytest exited {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return dict(json.loads(seen.read_text()))

    def last_replies(self) -> Replies:
        """When the latest run asked and was answered."""
        query = """
            SELECT min(started), min(started + latency_s), max(started + latency_s) FROM replies
            JOIN arms ON arms.id = replies.arm WHERE arms.experiment = (SELECT max(id) FROM experiments)
        """
        with contextlib.closing(sqlite3.connect(self.store)) as store:
            return Replies(*store.execute(query).fetchone())


@dataclass(frozen=True, slots=True)
class Replies:
    """Moments of a run, in seconds since the epoch."""

    first_question: float
    first_reply: float
    last_reply: float
