"""Facts that have to be equal in the driver's suite and a worker's, and sentences that name the part that differs."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pytest_crucible.plan.fingerprint import metric_version
from pytest_crucible.records import Plan
from pytest_crucible.records.serialize import canonical, plain_or_repr
from pytest_crucible.session.experiment import Experiment

Facts = Mapping[str, Any]
_COMMIT = "install the same commit there"
_MISSING_FILE = re.compile(r"'(?P<path>[^']+)' does not exist|No such file or directory: '(?P<opened>[^']+)'")


def version_facts() -> dict[str, str]:
    """Return the versions that a worker must share with its driver."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "ray": version("ray"),
        "pytest-crucible": version("pytest-crucible"),
    }


def experiment_facts(experiment: Experiment) -> dict[str, Any]:
    """Return hashes of an experiment's code, samples, metrics and adapters, by part and name."""
    plan = experiment.plan
    return {
        "function": plan.fingerprint.function,
        "dataset": {plan.dataset: f"{plan.dataset_sha256} {plan.fingerprint.dataset}"},
        "metric": {metric.name: metric_version(metric) for metric in experiment.metrics},
        "adapter": {arm.name: _identity(plan, number) for number, arm in enumerate(plan.arms) if not arm.stored_run},
        "sampling": f"{plan.fingerprint.sampling} {plan.fingerprint.reasoning}",
    }


def _identity(plan: Plan, number: int) -> str:
    arm = plan.arms[number]
    return canonical(plain_or_repr([arm.identity, dict(arm.parameters), plan.arm_prompts.get(arm.name)]))


def suite_problems(node: str, driver: Facts, worker: Facts) -> Iterator[str]:
    """Yield a sentence for each part of an experiment that differs on a node."""
    test = f"the test function of {driver['nodeid']}"
    if driver["function"] != worker["function"]:
        yield _differs(test, node)
    for part, remedy in (("dataset", "copy it there"), ("metric", _COMMIT), ("adapter", "configure it alike there")):
        for name, ours in driver[part].items():
            if worker[part].get(name) != ours:
                yield _differs(f"{part} {name!r}", node, remedy)
    if driver["sampling"] != worker["sampling"]:
        yield _differs(
            f"the timeout, or the scoring of reasoning, of {driver['nodeid']}", node, "configure it alike there"
        )


def version_problems(node: str, driver: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each version that differs on a node."""
    for name, ours in driver.items():
        if worker.get(name) != ours:
            yield f"{node} has {name} {worker.get(name)}, and the driver {ours}: install the same version there"


def _differs(what: str, node: str, remedy: str = _COMMIT) -> str:
    return f"{what} on {node} differs from the driver's: {remedy}"


def missing_test(node: str, nodeid: str, problems: Sequence[str]) -> str:
    """Return why a node has no such test: the first error of its own collection, if there is any.

    >>> missing_test("gpu-3", "test_a.py::test_a", ["FileNotFoundError: [Errno 2] No such file or directory: 'claims.jsonl'"])
    'gpu-3 has no claims.jsonl: copy it there'
    """
    if not problems:
        return f"{node} has no test {nodeid}: {_COMMIT}"
    file = _MISSING_FILE.search(problems[0])
    if file is None:
        return f"{node}: {problems[0]}"
    path = (file["path"] or file["opened"]).removeprefix(f"{os.getcwd()}{os.sep}")
    return f"{node} has no {path}: copy it there"
