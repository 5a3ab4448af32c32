"""The plan printed for each experiment before it runs: arms, samples, and the smallest detectable differences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from pytest_crucible.records import FEWEST_LEVELS, DetectableEffect, Plan
from pytest_crucible.records.robustness import SMOOTHED
from pytest_crucible.records.views import experiment_name
from pytest_crucible.report.effect_lines import effect_lines
from pytest_crucible.report.printable import printable_cell
from pytest_crucible.stats.number_format import quantity

# Not the terminal's width: plans are also read in CI logs and on pages, and tests compare them.
WIDTH = 80


def announcement(
    plan: Plan, foresight: Sequence[DetectableEffect], not_queried: Sequence[str] = (), *, replayed: bool = False
) -> str:
    """Return lines of at most 80 columns: arms and samples, then each metric, then parts without requests.

    `crucible: test_math: v2 vs v1, 200 samples x 2 arms = 400 replies`, and below it
    `  accuracy: can detect differences of 8.8 points or more`.
    """
    name = plan.nodeid.partition("::")[2]
    arms = " vs ".join(arm.name for arm in plan.arms)
    lines = [f"crucible: {name}: {arms}, {_size(plan)}"]
    first = [effect for effect in foresight if effect.contrast.baseline == foresight[0].contrast.baseline]
    lines += effect_lines(first, plan.groups)
    lines += _factor_lines(plan)
    lines += _sweep_lines(plan)
    lines += _attack_lines(plan)
    if plan.look_alpha is not None:
        lines.append("  looks after every sample, and stops when all verdicts are settled (--crucible-stop)")
    if len(plan.stages) > 1:
        lines.append(f"  {_stages(plan)}")
    if not_queried:
        lines.append(f"  {', '.join(not_queried)} not queried: the test compares nothing (@pytest.mark.ab_compare)")
    if replayed:
        lines.append("  no model is called: replies come from the reply cache")
    return "\n".join(map(_wrap_line, lines))


def _attack_lines(plan: Plan) -> Iterator[str]:
    """Yield the number of requests of a variant's reply, if that is more than one."""
    robustness = plan.robustness
    if robustness is None:
        return
    for attack in robustness.attacks:
        if attack.requests > 1:
            yield f"  {attack.name}: up to {attack.requests:,} requests for each sample and arm"
    if robustness.certificate_requests:
        samples = next((variant.samples for variant in plan.variants if variant.name == SMOOTHED), 0)
        total = robustness.certificate_requests * sum(plan.draws(arm).size for arm in range(len(plan.arms))) * samples
        yield f"  certificates: {robustness.certificate_requests:,} requests for each sample and arm, {total:,} in all"


def _sweep_lines(plan: Plan) -> Iterator[str]:
    sweep = plan.sweep
    if sweep is None:
        return
    if sweep.test != plan.nodeid:
        yield f"  {sweep.family}: the winner of its sweep, which {experiment_name(sweep.test)} chooses"
        return
    which = f"{sweep.choosing:,} other samples" if sweep.confirm else "the same samples"
    members = f"{sweep.trials} trials" if sweep.trials else f"{len(sweep.members)} members"
    replies = sweep.choosing * (sweep.trials or len(sweep.members)) * plan.draws(0).size
    yield (f"  {sweep.family}: first {members} compete by {sweep.by} on {which}, with at most {replies:,} replies")


def _stages(plan: Plan) -> str:
    """Return `stages: smoke (20), dev (100), full`, from the stage at which the experiment begins."""
    stages = plan.stages[plan.first_stage :]
    if len(stages) == 1:
        return f"begins at the last stage, {stages[0].name}"
    sizes = ", ".join(
        stage.name if stage.samples is None else f"{stage.name} ({min(stage.samples, plan.selected):,})"
        for stage in stages
    )
    return f"stages: {sizes}; the session ends when a miss is proven"


def _wrap_line(line: str) -> str:
    return textwrap.fill(printable_cell(line), WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def _size(plan: Plan) -> str:
    samples = quantity(plan.selected, "sample")
    if plan.selected < plan.planned:
        samples = f"{plan.selected:,} of {plan.planned:,} samples"
    if plan.groups is not None:
        samples += f" in {plan.groups:,} groups"
    draws = plan.draws(0)
    if draws.prompts > 1:
        samples += f" x {draws.prompts} prompts"
    trainings = [plan.draws(number).trainings for number in range(len(plan.arms))]
    # Where arms differ, the total below is not the product.
    if draws.trainings > 1 and len(set(trainings)) == 1:
        samples += f" x {draws.trainings} trainings"
    if draws.repeats > 1:
        samples += f" x {draws.repeats} repeats"
    if draws.rounds > 1:
        samples += f" x {draws.rounds} rounds"
    if plan.variants:
        samples += f", as they are and in {quantity(len(plan.variants), 'variant')}"
    queried = [number for number, arm in enumerate(plan.arms) if arm.stored_run is None]
    arm_count, total = len(queried), sum(map(plan.count_replies, queried))
    arms = f" x {arm_count} arms" if len(set(trainings)) == 1 else f" x arms of {_list(trainings)} trainings"
    if arm_count < 2 and not plan.variants:
        return samples
    return f"{samples}{arms if arm_count > 1 else ''} = {total:,} replies"


def _list(numbers: Sequence[int]) -> str:
    """Return `3 and 1`."""
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}"


def _factor_lines(plan: Plan) -> Iterator[str]:
    """Yield a line for each random factor, whose effect on the intervals is known only after the run."""
    for name in plan.random_factors:
        # An arm that is one model has no noise between trainings.
        tables = [getattr(plan.draws(number), name) for number in range(len(plan.arms))]
        levels = min(count for count in tables if count > 1)
        if levels < FEWEST_LEVELS:
            few = f"a random factor needs {FEWEST_LEVELS} levels for a verdict"
            yield f"  {levels} {name}: {few} (or fixed={name!r}: claims are about these)"
        else:
            yield f"  {levels} {name}: their noise widens every interval; this run measures by how much"
