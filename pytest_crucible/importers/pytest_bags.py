"""Files of pytest-evals and pytest-harvest: a test is a sample, and what it recorded in its bag are its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.importers.large_files import ParquetRows
from pytest_crucible.importers.results import (
    ParsedFile,
    Results,
    Row,
    Source,
    mostly_numbers,
    not_a_number,
    number,
)
from pytest_crucible.importers.tables import ARMS
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

_OF_HARNESS = frozenset({"test_id", "pytest_obj", "pytest_obj_name", "status", "duration_ms", "eval_name"})
_REPLIES = ("reply", "output", "answer", "completion", "prediction", "response")
PASSED = "passed"


@dataclass(frozen=True, slots=True)
class PytestBags:
    """The reader for one of the two formats; files of pytest-evals name an eval, those of pytest-harvest do not."""

    named: bool

    def recognises(self, source: Source) -> bool:
        """Return whether every test has a status and a duration."""
        first = next(iter(_read_tests(source)), None)
        return first is not None and ("eval_name" in first) == self.named

    def read(self, source: Source, columns: Mapping[str, str]) -> ParsedFile:
        """Return arms by task. A test is a sample; its parameter with the name of an arm distinguishes the arms."""
        tests = [_split_test(test) for test in _read_tests(source) if test["status"] != "skipped"]
        arm = _arm_parameter(tests, columns.get("arm", ""), source)
        metrics = _recorded_metrics(tests)
        tasks: dict[str, dict[str, list[Row]]] = {}
        for test in tests:
            name = str(test.parameters.get(arm, source.path.stem))
            tasks.setdefault(test.task, {}).setdefault(name, []).append(_bag_row(test, arm, metrics))
        results = [
            Results(task=task, arm=name, rows=rows) for task, arms in tasks.items() for name, rows in arms.items()
        ]
        return ParsedFile(version="", results=results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """One test: its parameters apart from what it recorded."""

    task: str
    status: str
    parameters: Mapping[str, Any]
    bag: Mapping[str, Any]


_FIELDS = {"test_id", "status", "duration_ms"}


def _read_tests(source: Source) -> Iterator[Mapping[str, Any]]:
    """Yield the tests of a file: JSON values or CSV rows. Yields none for other files."""
    if isinstance(source.rows, ParquetRows) and not set(source.rows.names) >= _FIELDS:
        return
    if source.rows is not None:
        yield from (row for _, row in source.rows if set(row) >= _FIELDS)
    elif isinstance(source.document, dict):
        for test_id, test in source.document.items():
            if isinstance(test, dict) and {"status", "duration_ms", "params", "fixtures"} <= set(test):
                yield {"test_id": test_id, **test}


def _split_test(record: Mapping[str, Any]) -> _Test:
    test_id = record["test_id"]
    name, _, case = test_id.partition("::")[2].partition("[")
    parameters, bag = (
        _split_fixtures(record) if "fixtures" in record else _split_columns(record, case.removesuffix("]"))
    )
    return _Test(task=record.get("eval_name") or name, status=record["status"], parameters=parameters, bag=bag)


def _split_fixtures(test: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return parameters and bag of a JSON test. A fixture that is a mapping is a bag; others are ignored."""
    bags = (bag for bag in test["fixtures"].values() if isinstance(bag, dict))
    return test["params"], {name: value for bag in bags for name, value in bag.items()}


def _split_columns(row: Mapping[str, Any], case: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return parameters and bag of a CSV row. pytest-evals marks parameters; otherwise the brackets of the test's id name them."""
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


def _arm_parameter(tests: list[_Test], chosen: str, source: Source) -> str:
    """Return the parameter whose values are the arms; empty if the session had only one. Raises SpecError."""
    parameters = dict.fromkeys(name for test in tests for name in test.parameters)
    if chosen and chosen not in parameters:
        raise SpecError(
            f"{source.path} has no parameter {chosen!r} to tell arms apart: there are {', '.join(parameters)}"
        )
    return chosen or next((name for name in parameters if name.lower() in ARMS), "")


def _recorded_metrics(tests: list[_Test]) -> list[str]:
    names = dict.fromkeys(name for test in tests for name in test.bag if name not in _REPLIES)
    return [name for name in names if mostly_numbers(test.bag.get(name) for test in tests)]


def _bag_row(test: _Test, arm: str, metrics: list[str]) -> Row:
    """Return a test's result as a row; lost if it failed before it recorded anything, which may have any reason."""
    others = {name: value for name, value in test.parameters.items() if name != arm}
    values = {name: number(test.bag.get(name)) for name in metrics}
    # NaN, which is not equal to itself, stands for a missing value.
    items = (item for item in values.items() if item[1] is not None and item[1] == item[1])
    scores: dict[str, Value | None] = dict(items)
    reply = next((str(test.bag[name]) for name in _REPLIES if name in test.bag), None)
    return Row(
        sample="-".join(map(str, others.values())) or test.task,
        scores={PASSED: test.status == "passed", **scores},
        lost={
            name: not_a_number(test.bag.get(name))
            if number(test.bag.get(name)) is None
            else f"the test {test.status} and recorded none"
            for name in metrics
            if name not in scores
        },
        error=f"the test {test.status} before it recorded anything" if metrics and not test.bag else "",
        reply=None if reply is None else Reply(text=reply),
        input=canonical({name: str(value) for name, value in others.items()}),
    )
