"""The setting `seeds` needs a recipe, and is a number of trainings."""

from __future__ import annotations

import pytest
from adapter_contexts import context_in

from pytest_crucible.adapters.opener import Opener
from pytest_crucible.records.errors import SpecError

RECIPE = 'backend = "local"\nrecipe = "recipes:train"\n'


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (f"{RECIPE}seeds = 1", "has seeds = 1: write the number of trainings, a whole number of at least 2"),
        (f"{RECIPE}seeds = true", "has seeds = True: write the number of trainings"),
        (f"{RECIPE}seeds = [1, 2]", r"has seeds = \[1, 2\]: write the number of trainings"),
        (f'{RECIPE}seeds = 3\nseed = "a"', "has seeds = 3: write the number of trainings"),
        *(
            (f"{table}\nseeds = 3", "has seeds = 3 but no recipe: add recipe = .*, or remove seeds")
            for table in (
                'backend = "local"',
                'backend = "recorded"\npath = "old.jsonl"',
                'uri = "openai+https://api.example.com/v1#gpt"',
                'ensemble = ["v1", "v2"]',
                'backend = "theirs"',
            )
        ),
    ],
)
def test_invalid_seeds_are_refused(tmp_path, table, sentence):
    (tmp_path / "crucible.toml").write_text(f"[adapters.other]\n{table}\n")

    with pytest.raises(SpecError, match=f"adapter 'other' {sentence}"):
        Opener(context_in(tmp_path)).open("other", "candidate")
