"""Training: whether prompts are sent in a shape that the model was trained on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pytest_crucible.features.run_checks.finding import CheckInputs, Finding
from pytest_crucible.features.run_checks.prompt_shapes import (
    TRAINED_SHAPES,
    ShapedPrompt,
    TrainedShapes,
    occurs,
    shape_prompt,
)
from pytest_crucible.stats.number_format import quantity

MOST_PROMPTS = 2_000
"""Prompts of an arm that are compared: their shapes are few, and samples of all of a large dataset take seconds to load."""
LEAST_SHARE = 0.5
"""Of prompts in a shape of training, below which it is a problem: a dataset of several tasks may have some that are new."""


class Occurrences(NamedTuple):
    """The prompts of an arm, and those of them in a shape that occurs in training."""

    prompts: int
    in_training: int


def check_training_prompts(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on the prompts of arms whose training rows are known, if there are any."""
    trained = {each.arm: each for each in TRAINED_SHAPES.of(inputs.plan) if each.shapes}
    counts = [
        count_occurrences(sampled_prompts(inputs, number), trained[columns.arm.name])
        if columns.arm.name in trained
        else None
        for number, columns in enumerate(inputs.arms)
    ]
    if not any(each and each.prompts for each in counts):
        return
    yield Finding(
        check="training prompts",
        cells=tuple(f"{each.in_training:,} of {each.prompts:,} in training" if each else "" for each in counts),
        differs="other prompts" if (problem := "; ".join(_sentences(inputs, counts, trained))) else "",
        problem=problem,
        document=[
            {**each._asdict(), "rows": trained[columns.arm.name].rows} if each else None
            for each, columns in zip(counts, inputs.arms, strict=True)
        ],
    )


def sampled_prompts(inputs: CheckInputs, number: int) -> Iterator[ShapedPrompt]:
    """Yield the first prompt that the test has sent about each sample, with its shape."""
    # Imported here, as few arms have training files: it imports the kinds of adapters.
    from pytest_crucible.features.run_checks.training_shapes import as_sent

    calls = inputs.arms[number].calls
    rows = {calls.positions[row]: row for row in reversed(inputs.arms[number].own_calls) if calls.calls[row] == 1}
    positions = sorted(rows)[:MOST_PROMPTS]
    stored, adapter = inputs.section.stored, inputs.arms[number].arm.adapter
    prompts = stored.first_prompts({position: calls.forms[rows[position]] for position in positions})
    for prompt, template in prompts.values():
        shaped = shape_prompt(as_sent(prompt, adapter), as_sent(template, adapter))
        if shaped is not None:
            yield shaped


def count_occurrences(prompts: Iterator[ShapedPrompt], trained: TrainedShapes) -> Occurrences:
    """Return how many prompts there are, and how many have a shape of training."""
    occurring = [occurs(prompt, trained.shapes) for prompt in prompts]
    return Occurrences(len(occurring), sum(occurring))


def _sentences(
    inputs: CheckInputs, counts: list[Occurrences | None], trained: dict[str, TrainedShapes]
) -> Iterator[str]:
    for columns, count in zip(inputs.arms, counts, strict=True):
        of_arm = trained.get(columns.arm.name)
        # With a file that could not be read, the shape may be one of its.
        if count and of_arm and not of_arm.unread and count.in_training < LEAST_SHARE * count.prompts:
            verb = "has" if count.in_training == 1 else "have"
            sent = f"{count.in_training:,} of {quantity(count.prompts, 'prompt')} sent to {columns.arm.name}"
            rows = quantity(of_arm.rows, "training row")
            yield f"{sent} {verb} a form that occurs among {rows} (roles, system prompt, template, end): send them as in training"
