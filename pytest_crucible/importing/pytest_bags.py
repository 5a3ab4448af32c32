"""What pytest-evals and pytest-harvest keep of a session: a bag of results for each test, as JSON or as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.cells import number
from pytest_crucible.importing.columns import ARMS
from pytest_crucible.importing.results import Found, Results, Row
from pytest_crucible.importing.source import Source
from pytest_crucible.records import Reply, Value
from pytest_crucible.wire import canonical

_OF_HARNESS = frozenset({"test_id", "pytest_obj", "pytest_obj_name", "status", "duration_ms", "eval_name"})
_REPLIES = ("reply", "output", "answer", "completion", "prediction", "response")
PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Bags:
    """One of the two: they are told apart by the name that an eval of pytest-evals has."""

    named: bool

    def recognises(self, source: Source) -> bool:
        """Every test has a status and a duration."""
        first = next(iter(_tests(source)), None)
        return first is not None and ("eval_name" in first) == self.named

    def read(self, source: Source, columns: Mapping[str, str]) -> Found:
        """A test is a sample; the parameter that is named like an arm, or is said to be, tells arms apart."""
        tests = [_test(one) for one in _tests(source) if one["status"] != "skipped"]
        arm = _arm(tests, columns.get("arm", ""), source)
        metrics = _metrics(tests)
        found: dict[str, dict[str, list[Row]]] = {}
        for one in tests:
            name = str(one.parameters.get(arm, source.path.stem))
            found.setdefault(one.task, {}).setdefault(name, []).append(_row(one, arm, metrics))
        results = [
            Results(task=task, arm=name, rows=rows) for task, arms in found.items() for name, rows in arms.items()
        ]
        return Found(version="", results=results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """One test: its parameters apart from what it recorded."""

    task: str
    status: str
    parameters: Mapping[str, Any]
    bag: Mapping[str, Any]


def _tests(source: Source) -> Iterator[Mapping[str, Any]]:
    """Of JSON the values; of CSV the rows. Neither where the file is something else."""
    if source.rows is not None:
        yield from (row for _, row in source.rows if {"test_id", "status", "duration_ms"} <= set(row))
    elif isinstance(source.document, dict):
        for test_id, one in source.document.items():
            if isinstance(one, dict) and {"status", "duration_ms", "params", "fixtures"} <= set(one):
                yield {"test_id": test_id, **one}


def _test(given: Mapping[str, Any]) -> _Test:
    test_id = given["test_id"]
    name, _, case = test_id.partition("::")[2].partition("[")
    parameters, bag = _apart(given) if "fixtures" in given else _parted(given, case.removesuffix("]"))
    return _Test(task=given.get("eval_name") or name, status=given["status"], parameters=parameters, bag=bag)


def _apart(test: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A fixture that is a mapping is a bag; whatever else a suite has stored is not looked at."""
    bags = (bag for bag in test["fixtures"].values() if isinstance(bag, dict))
    return test["params"], {name: value for bag in bags for name, value in bag.items()}


def _parted(row: Mapping[str, Any], case: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """pytest-evals says which cells are parameters; else they are those that the test's id has in its brackets."""
    parts = set(case.split("-"))
    parameters: dict[str, Any] = {}
    bag: dict[str, Any] = {}
    for column, cell in row.items():
        kind, _, name = column.partition(".")
        if kind in ("params", "eval_bag") and name:
            (parameters if kind == "params" else bag)[name] = cell
        elif column not in _OF_HARNESS:
            (parameters if str(cell) in parts else bag)[column] = cell
    return parameters, bag


def _arm(tests: list[_Test], said: str, source: Source) -> str:
    """The parameter whose values are the arms; empty where the session had only one. Raises SpecError."""
    known = dict.fromkeys(name for one in tests for name in one.parameters)
    if said and said not in known:
        raise SpecError(f"{source.path} has no parameter {said!r} to tell arms apart: there are {', '.join(known)}")
    return said or next((name for name in known if name.lower() in ARMS), "")


def _metrics(tests: list[_Test]) -> list[str]:
    """What was recorded as a number or as yes or no, wherever it was."""
    names = dict.fromkeys(name for one in tests for name in one.bag if name not in _REPLIES)
    return [name for name in names if all(number(one.bag.get(name)) is not None for one in tests)]


def _row(test: _Test, arm: str, metrics: list[str]) -> Row:
    """A test that failed before it recorded anything may have failed for any reason: its sample is lost."""
    others = {name: value for name, value in test.parameters.items() if name != arm}
    values = {name: number(test.bag.get(name)) for name in metrics}
    scores: dict[str, Value | None] = {name: one for name, one in values.items() if one is not None and one == one}
    reply = next((str(test.bag[name]) for name in _REPLIES if name in test.bag), None)
    return Row(
        sample="-".join(map(str, others.values())) or test.task,
        scores={PASSED: test.status == "passed", **scores},
        lost={name: f"the test {test.status} and recorded none" for name in metrics if name not in scores},
        error=f"the test {test.status} before it recorded anything" if metrics and not test.bag else "",
        reply=None if reply is None else Reply(text=reply),
        input=canonical({name: str(value) for name, value in others.items()}),
    )
