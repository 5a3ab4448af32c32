"""Sampler drift: how far the log-probabilities of the sampler are from the trainer's, for the same tokens.

Both have the same weights, so that a large one is a defect of the service or of a checkpoint: RL then learns from other
probabilities than it thinks, and a gate samples from another model than the one that was trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

import numpy as np

from pytest_crucible.features.run_checks.finding import CheckInputs, Finding
from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.metrics.models.scorers import current_reply
from pytest_crucible.records import Reply, Sample

NAME = "sampler_drift"
LARGEST = 0.02
"""Nats a token: above, the row warns."""
MOST = 1.0
"""The largest value: probabilities that are off by a factor of 2.7 are no less wrong, and a bound allows a proof."""


@metric(name=NAME, direction="lower", bounds=(0.0, MOST), version="1")
async def _measure_drift(reply: Reply, sample: Sample) -> float | NotApplicable:
    """Mean distance of the sampler's log-probabilities of the reply's tokens from the trainer's, in nats a token, at most 1."""
    compare = getattr(current_reply().backend, "compare_with_trainer", None)
    if compare is None:
        return NotApplicable("the arm is not one Tinker model")
    if not reply.text:
        return NotApplicable("the reply is empty")
    pairs = await compare(sample.input, reply.text)
    if pairs is None:
        return NotApplicable(
            "the service has no state to train (tinker://RUN/weights/NAME) with the name of these weights"
        )
    return min(fmean(abs(ours - theirs) for ours, theirs in pairs), MOST)


# A reply that was cut has tokens, too.
sampler_drift = replace(_measure_drift, scores_failures=True)


def check_sampler_drift(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on the drift of each arm, where it was scored."""
    scored = [scores.values[np.isfinite(scores.values)] for scores in inputs.section.scores[NAME]]
    means = [float(values.mean()) if values.size else None for values in scored]
    if all(mean is None for mean in means):
        return
    drifting = [
        f"{columns.arm.name} by {mean:.3g} nats a token"
        for columns, mean in zip(inputs.arms, means, strict=True)
        if mean is not None and mean > LARGEST
    ]
    yield Finding(
        check="sampler drift",
        cells=tuple(
            "" if mean is None else f"{mean:.2g} nats a token, n {values.size:,}"
            for mean, values in zip(means, scored, strict=True)
        ),
        differs="drifts" if drifting else "",
        problem=f"the sampler's log-probabilities are off the trainer's for the same tokens: {', '.join(drifting)}; more than "
        f"{LARGEST:g} means that other weights are sampled from than were trained: save them again"
        if drifting
        else "",
        document=[
            None if mean is None else {"mean": mean, "n": values.size}
            for mean, values in zip(means, scored, strict=True)
        ],
    )
