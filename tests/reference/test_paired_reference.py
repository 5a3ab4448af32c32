"""Real models on the same questions: counts and what other software made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.stats import holm, mcnemar_exact, tango_interval, tango_p_value, wilson_interval
from pytest_crucible.stats.proportions.one import clopper_pearson_interval

DATA: dict[str, Any] = json.loads((Path(__file__).parent / "paired_reference.json").read_text(encoding="utf-8"))
MODELS = [(f"{name}-{model}", facts) for name, data in DATA.items() for model, facts in data["models"].items()]
PAIRS = [(f"{name}-{pair['a']}-{pair['b']}", pair) for name, data in DATA.items() for pair in data["pairs"]]


def close(expected: Any) -> Any:
    # The file has ten digits; p-values far below 1e-6 are compared by their digits and not by their size.
    return pytest.approx(expected, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize(("name", "facts"), MODELS, ids=[name for name, _ in MODELS])
def test_model(name: str, facts: dict[str, Any]) -> None:
    wilson = wilson_interval(facts["correct"], facts["n"])
    exact = clopper_pearson_interval(facts["correct"], facts["n"])

    assert [wilson.low, wilson.high] == close(facts["wilson"])
    assert [exact.low, exact.high] == close(facts["clopper_pearson"])


@pytest.mark.parametrize(("name", "pair"), PAIRS, ids=[name for name, _ in PAIRS])
def test_pair(name: str, pair: dict[str, Any]) -> None:
    gained, lost, n = pair["b_only"], pair["a_only"], pair["n"]
    interval = tango_interval(gained, lost, n)

    assert pair["both"] + gained + lost + pair["neither"] == n
    assert (gained - lost) / n == close(pair["diff"])
    assert [interval.low, interval.high] == close(pair["ci95_tango"])
    assert mcnemar_exact(gained, lost) == close(pair["mcnemar_exact_p"])
    assert tango_p_value(gained, lost, n) == close(pair["mcnemar_chi2_p"])


@pytest.mark.parametrize("name", [name for name, data in DATA.items() if len(data["pairs"]) > 1])
def test_holm_over_all_pairs_of_a_data_set(name: str) -> None:
    pairs = DATA[name]["pairs"]

    adjusted = holm([mcnemar_exact(pair["b_only"], pair["a_only"]) for pair in pairs])

    assert adjusted == close([pair["mcnemar_exact_p_holm"] for pair in pairs])


def test_all_pairs_and_models_are_here() -> None:
    assert (len(MODELS), len(PAIRS)) == (22, 51)
