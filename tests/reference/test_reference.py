"""Every number of the reference cases that the package answers, at the tolerance of the case."""

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

SOURCE = Path(os.environ.get("CRUCIBLE_REFERENCE", HERE / "stat_reference.json"))
CASES: list[dict[str, Any]] = json.loads(SOURCE.read_text(encoding="utf-8"))["cases"]
ANSWERED = [case for case in CASES if case["procedure"] in procedures.PROCEDURES]
FEWEST_CASES = 93
FEWEST_NUMBERS = 321


def agrees(got: Any, expected: Any, *, rtol: float, atol: float) -> bool:
    if isinstance(expected, list):
        return len(got) == len(expected) and all(
            agrees(one, other, rtol=rtol, atol=atol) for one, other in zip(got, expected, strict=True)
        )
    if (
        expected is None
        or isinstance(expected, bool)
        or (expected not in ("inf", "-inf") and isinstance(expected, str))
    ):
        return bool(got is None if expected is None else got == expected)
    wanted = float(expected)
    if got is None or math.isinf(wanted):
        return got is not None and got == wanted
    return abs(got - wanted) <= atol + rtol * abs(wanted)


@pytest.mark.parametrize("case", ANSWERED, ids=[case["id"] for case in ANSWERED])
def test_case(case: dict[str, Any]) -> None:
    answer = procedures.PROCEDURES[case["procedure"]]
    expected = case["expected"]
    if "raises" in expected:
        with pytest.raises(ValueError, match=r"\d"):
            answer(case["input"], case["options"])
        return

    got = answer(case["input"], case["options"])

    wrong = {
        key: (got.get(key, "no answer"), expected[key])
        for key in expected
        if key not in got or not agrees(got[key], expected[key], rtol=case["rtol"], atol=case["atol"])
    }
    assert not wrong


def test_enough_cases_and_numbers_are_compared() -> None:
    """So that a renamed procedure or key cannot empty this file silently."""
    numbers = sum(
        len(case["expected"].keys() & procedures.PROCEDURES[case["procedure"]](case["input"], case["options"]).keys())
        for case in ANSWERED
        if "raises" not in case["expected"]
    )

    assert {case["procedure"] for case in ANSWERED} == set(procedures.PROCEDURES)
    assert len(ANSWERED) >= FEWEST_CASES
    assert numbers >= FEWEST_NUMBERS
