"""Factors, sources of noise beside the samples: forms of the prompt, trainings of one recipe, and rounds."""

from __future__ import annotations

from pytest_crucible.features.row import Feature, Option

FEATURE = Feature(
    "factors",
    options=(
        Option(
            "rounds",
            "how many times to repeat the whole experiment, so that intervals count the noise between runs",
            1,
            key="int",
            type=int,
            metavar="N",
        ),
    ),
    arguments=("prompts", "fixed"),
    adapter_keys=("seeds",),
    test_fixtures={
        "prompt": (
            "The text of one form of the prompt, of those that `crucible(prompts=[...])` names, or of the adapter's variable "
            "`prompt`.\n\nIn functions marked `crucible`.",
            "pytest_crucible.features.factors.prompts:check_prompt_fixture",
        )
    },
    check_options="pytest_crucible.features.factors.declarations:check_rounds",
    tables={"arm_makers": "pytest_crucible.features.factors.seeds:MAKERS"},
)
