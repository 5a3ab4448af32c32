"""Every number of the reference cases, at the tolerance of the case; a case that is wrong is listed with the proof."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("crucible_reference_procedures", HERE / "procedures.py")
assert _spec is not None
assert _spec.loader is not None
procedures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(procedures)

OWN = (HERE / "stat_reference.json", HERE / "crossed_reference.json")
ANOTHER_FILE = "CRUCIBLE_REFERENCE" in os.environ
SOURCES = (Path(os.environ["CRUCIBLE_REFERENCE"]),) if ANOTHER_FILE else OWN
CASES: list[dict[str, Any]] = [
    case for source in SOURCES for case in json.loads(source.read_text(encoding="utf-8"))["cases"]
]
FEWEST_CASES = 220
FEWEST_NUMBERS = 936
SEPARATED = {"x": [0.9, 0.8, 0.95, 0.85], "y": [0.1, 0.2, 0.3, 0.15, 0.05]}
"""The data of the wrong case: under its id another file may have other data, and those are tested as they are."""
CORRECTED = {"ci_low": 0.6115232307964547, "delta_ci_low": 0.2230464615929093}
"""What the case should expect instead; the proof is `test_the_wrong_case_is_wrong`, the words are in README.md."""


def agrees(got: Any, expected: Any, *, rtol: float, atol: float) -> bool:
    if isinstance(expected, list):
        return len(got) == len(expected) and all(
            agrees(entry, other, rtol=rtol, atol=atol) for entry, other in zip(got, expected, strict=True)
        )
    if (
        expected is None
        or isinstance(expected, bool)
        or (expected not in ("inf", "-inf") and isinstance(expected, str))
    ):
        return bool(got is None if expected is None else got == expected)
    values = float(expected)
    if got is None or math.isinf(values):
        return got is not None and got == values
    return abs(got - values) <= atol + rtol * abs(values)


def is_wrong(case: dict[str, Any]) -> bool:
    return case["procedure"] == "cles_ci_newcombe" and case["input"] == SEPARATED and case["expected"]["ci_low"] == 1.0


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    if ANOTHER_FILE and not procedures.is_offered(case):
        pytest.skip("the package has no such method; docs/reference/other-packages.md names one that has")
    assert case["procedure"] in procedures.PROCEDURES, "nothing answers this procedure"
    answer = procedures.PROCEDURES[case["procedure"]]
    expected = case["expected"] | (CORRECTED if is_wrong(case) else {})
    if "raises" in expected:
        with pytest.raises(ValueError, match=r"\d"):
            answer(case["input"], case["options"])
        return

    got = answer(case["input"], case["options"])

    wrong = {
        key: (got.get(key, "no answer"), expected[key])
        for key in (expected.keys() & got.keys() if ANOTHER_FILE else expected)
        if key not in got or not agrees(got[key], expected[key], rtol=case["rtol"], atol=case["atol"])
    }
    assert not wrong


def test_the_wrong_case_is_wrong() -> None:
    """Newcombe's method 5 contains every share t with |value - t| <= z * se(t); for separated arms the value is 1.

    The case has its lower end at 1. But shares far below 1 are inside, and all of them down to the end given here: t = 1
    solves the equation only because se(1) is 0.
    """

    def inside(t: float, first: int = 4, second: int = 5) -> bool:
        n = (first + second) / 2 - 1
        variance = t * (1 - t) * (1 + n * (1 - t) / (2 - t) + n * t / (1 + t)) / (first * second)
        return abs(1 - t) <= 1.959963984540054 * math.sqrt(variance)

    end = CORRECTED["ci_low"]

    assert all(inside(end + step * (1 - end)) for step in (1e-9, 0.1, 0.5, 0.9, 0.999))
    assert not inside(end - 1e-9)


def test_the_wrong_case_is_recognised_by_its_data() -> None:
    [wrong] = [case for case in map(dict, CASES) if is_wrong(case)] or [None]
    if wrong is None:
        pytest.skip("another file need not have it")
    other = {"x": [1.0, 2.0], "y": [0.5, 0.6]}

    assert is_wrong(wrong | {"id": "another id"})
    assert not is_wrong(wrong | {"input": other})


@pytest.mark.skipif(ANOTHER_FILE, reason="another file has its own number of cases")
def test_enough_cases_and_numbers_are_compared() -> None:
    """So that a renamed procedure or key cannot empty this file silently."""
    numbers = sum(
        len(case["expected"].keys() & procedures.PROCEDURES[case["procedure"]](case["input"], case["options"]).keys())
        for case in CASES
        if "raises" not in case["expected"]
    )

    assert {case["procedure"] for case in CASES} == set(procedures.PROCEDURES)
    assert len(CASES) >= FEWEST_CASES
    assert numbers >= FEWEST_NUMBERS
