"""Stages of a session, its early stop, and the estimate of what it would cost."""

from __future__ import annotations

from pytest_crucible.features.row import Feature, Option

FEATURE = Feature(
    "stages",
    arguments=("stage",),
    options=(
        Option(
            "stop", "look after every sample, and end each experiment when its verdicts are settled", False, flag=True
        ),
        Option(
            "stages",
            "stages of all experiments on nested samples, for example 'smoke: 20, dev: 100, full'",
            key="string",
            command_line=False,
        ),
        Option("until", "end after this stage of crucible_stages", metavar="STAGE"),
        Option(
            "estimate",
            "show what the run would cost, from its prompts and earlier runs, and send nothing",
            False,
            flag=True,
        ),
    ),
    check_options="pytest_crucible.features.stages.definition:option_conflicts",
)
