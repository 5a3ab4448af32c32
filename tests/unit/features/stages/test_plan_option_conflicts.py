"""Options that exclude each other are refused in pairs; each pair has one sentence."""

from __future__ import annotations

import pytest

from pytest_crucible.features.stages import FEATURE
from pytest_crucible.features.stages.definition import option_conflicts
from pytest_crucible.options import OPTIONS

DEFAULTS = {option.name: option.default for option in (*OPTIONS, *FEATURE.options)}


def sentences(**values: object) -> list[str]:
    return [sentence for is_conflict, sentence in option_conflicts({**DEFAULTS, **values}) if is_conflict]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"stop": True},
        {"cache": "only"},
        {"stages": "smoke: 20, full"},
        {"stages": "smoke: 20, full", "until": "smoke"},
    ],
)
def test_one_option_alone_conflicts_with_nothing(values):
    assert sentences(**values) == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"stop": True, "rounds": 3}, ("--crucible-stop", "--crucible-rounds")),
        ({"stop": True, "memory": "pool"}, ("--crucible-stop", "crucible_memory")),
        ({"stages": "full", "stop": True}, ("--crucible-stop", "crucible_stages")),
        ({"stages": "full", "rounds": 3}, ("crucible_stages", "--crucible-rounds")),
        ({"stages": "full", "memory": "pool"}, ("crucible_stages", "crucible_memory")),
        ({"stages": "20: smoke"}, ("20: smoke", "write a name and a number")),
        ({"stages": "smoke: 20, full", "until": "smok"}, ("--crucible-until=smok", "smoke")),
        ({"until": "smoke"}, ("--crucible-until=smoke", "crucible_stages")),
    ],
)
def test_a_conflict_is_one_sentence_that_names_both(values, named):
    (sentence,) = sentences(**values)

    assert all(name in sentence for name in named)
