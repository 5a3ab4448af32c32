"""Arms that are one: equal replies of arms that declare different weights, and facts that show one model behind both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from pytest_crucible.analyse.scores import Floats
from pytest_crucible.features.run_checks.agreement import (
    Agreement,
    agreement_by_chance,
    compare_replies,
    equal_texts_by_chance,
    first_replies,
    is_consistent,
    own_agreement,
)
from pytest_crucible.features.run_checks.answered import count_answerers
from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding, Severity
from pytest_crucible.features.run_checks.sent import weights_of

LEAST = 20
"""Rows of two tables that have to be equal to be remarkable."""
RARE = 0.01
"""The probability below which agreement of two models is remarkable."""
SURE = 0.001
"""The probability of equal free texts of two models, by that assumption, below which they are called one."""


def check_equal_replies(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on the replies that the candidate and each baseline have in common, and on baselines that are one."""
    for columns in inputs.arms:
        yield from _without_effect(columns, inputs)
    for number, columns in enumerate(inputs.arms):
        yield from _equal_members(inputs, number, columns)
    # Most runs have no baseline.
    if len(inputs.arms) < 2:
        return
    replies = [first_replies(columns) for columns in inputs.arms]
    as_candidate: set[int] = set()
    for first, second in combinations(range(len(inputs.arms)), 2):
        # Two arms that reply as the candidate reply alike.
        if {first, second} <= as_candidate:
            continue
        agreement = compare_replies(replies[first], replies[second])
        findings = _equal_pair(inputs, first, second, agreement) if agreement.samples else ()
        if not first:
            findings = findings or tuple(_equal_tables(inputs, second))
            as_candidate |= {second for each in findings if each.severity == "fail" or not agreement.unequal}
        yield from findings


def _equal_pair(inputs: CheckInputs, first: int, second: int, agreement: Agreement) -> tuple[Finding, ...]:
    severity, problem = judge_pair(inputs, first, second, agreement)
    # What two baselines have in common is shown only if no verdict on either can be believed, or they have all in common.
    if first and severity != "fail" and (agreement.unequal or not problem):
        return ()
    names = [inputs.arms[number].arm.name for number in (first, second)]
    cell = f"{agreement.equal:,} of {agreement.samples:,} samples"
    if first:
        cell += f" with {names[0]}"
    finding = Finding(
        check="equal replies",
        cells=tuple(cell if number == second else "" for number in range(len(inputs.arms))),
        differs=_one_model(names, inputs) if severity == "fail" else "",
        problem=problem,
        severity=severity,
        document={
            **({"arm": names[0]} if first else {}),
            "baseline": names[1],
            "equal": agreement.equal,
            "samples": agreement.samples,
        },
    )
    return (finding,)


def _equal_members(inputs: CheckInputs, number: int, ensemble: ArmColumns) -> Iterator[Finding]:
    """Yield a finding on the members of an ensemble that reply as one model, but for those that are declared to be one."""
    pairs = [pair for pair in combinations(ensemble.members, 2) if not _declare_one_model(*pair)]
    equal = [
        f"{ours.arm.name} and {theirs.arm.name}"
        for ours, theirs in pairs
        if are_one(
            inputs, number, (ours, theirs), compare_replies(first_replies(ours), first_replies(theirs)), len(pairs)
        )
    ]
    if equal:
        cell = f"{', '.join(equal)} in all"
        yield Finding(
            check="equal replies",
            cells=tuple(cell if arm == number else "" for arm in range(len(inputs.arms))),
            differs="members",
            problem=f"members of {ensemble.arm.name} gave equal replies to all samples that both answered "
            f"({', '.join(equal)}): their votes are those of one model; check that each is what answers under its name",
            severity="warn",
            document={"ensemble": ensemble.arm.name, "members": equal},
        )


def _declare_one_model(ours: ArmColumns, theirs: ArmColumns) -> bool:
    """Return whether two members name one model, such as at two temperatures. Earlier versions did not record what they name."""
    tables = ours.arm.settings, theirs.arm.settings
    return all(tables) and weights_of(ours.arm) == weights_of(theirs.arm)


def are_one(
    inputs: CheckInputs, arm: int, pair: tuple[ArmColumns, ArmColumns], agreement: Agreement, pairs: int
) -> bool:
    """Return whether all replies of two members are equal, and two models would not have agreed on so many."""
    if agreement.unequal or not agreement.samples:
        return False
    is_rare = pairs * agreement_by_chance(inputs, arm, agreement) <= RARE
    return is_rare or pairs * equal_texts_by_chance(inputs, pair[0], agreement) <= SURE


def _one_model(names: Sequence[str], inputs: CheckInputs) -> str:
    return "one model" if len(inputs.arms) == 2 else f"{' and '.join(names)}: one model"


def _equal_tables(inputs: CheckInputs, number: int) -> Iterator[Finding]:
    """Yield a finding if an arm without texts has the candidate's score on every sample, on most of them no round number."""
    pairs = [
        (scores[0].values, scores[number].values) for scores in inputs.section.scores.values() if len(scores) > number
    ]
    samples = max((int((~np.isnan(ours) & ~np.isnan(theirs)).sum()) for ours, theirs in pairs), default=0)
    fine = max((_fine_values(ours) for ours, _ in pairs), default=0)
    if fine < LEAST or not all(np.array_equal(ours, theirs, equal_nan=True) for ours, theirs in pairs):
        return
    names = f"{inputs.arms[0].arm.name} and {inputs.arms[number].arm.name}"
    yield Finding(
        check="equal replies",
        cells=tuple(f"{samples:,} of {samples:,} rows" if k == number else "" for k in range(len(inputs.arms))),
        differs="one table",
        problem=f"all scores of {names} are equal on {samples:,} samples, {fine:,} of them no round numbers: check that the two "
        "are not one table",
        severity="warn",
        document={"baseline": inputs.arms[number].arm.name, "equal": samples, "samples": samples},
    )


def _fine_values(values: Floats) -> int:
    """Return how many values have more than two decimals, each once."""
    percent = 100 * np.unique(values[~np.isnan(values)])
    return int((np.abs(percent - np.round(percent)) > 1e-6).sum())


def _without_effect(columns: ArmColumns, inputs: CheckInputs) -> Iterator[Finding]:
    if columns.arm.without_effect:
        yield Finding(
            check="equal replies",
            cells=tuple("its base" if each is columns else "" for each in inputs.arms),
            differs="no effect",
            problem=f"the weights of {columns.arm.name} change no reply of their base: {columns.arm.without_effect}",
            # Alone, an arm is compared with nothing that it could be.
            severity=None if len(inputs.arms) > 1 else "warn",
        )


def judge_pair(inputs: CheckInputs, first: int, second: int, agreement: Agreement) -> tuple[Severity | None, str]:
    """Return how severe the agreement of two arms is, and a sentence; empty where it is as it should be.

    All pairs of arms share the error rates.
    """
    ours, theirs = inputs.arms[first], inputs.arms[second]
    if not declare_other_weights(ours, theirs):
        return None, ""
    names, pairs = f"{ours.arm.name} and {theirs.arm.name}", len(inputs.arms) * (len(inputs.arms) - 1) // 2
    is_rare = not agreement.unequal and pairs * agreement_by_chance(inputs, first, agreement) <= RARE
    shows_one = _free_text_shows_one(inputs, first, second, agreement, SURE / pairs)
    count = f"{agreement.equal:,} of {agreement.samples:,} replies of {names} are equal"
    if model := _common_model(ours, theirs):
        if shows_one or is_rare:
            return "fail", f"{count}, and the server names one model for both, {model}: they are one"
        # A server may name all of its models alike: replies that mostly differ show that they are two.
        severity: Severity = "note" if 2 * agreement.unequal > agreement.samples else "warn"
        return severity, (
            f"the server names one model for {names}, {model}, although their settings name two"
            + ("" if agreement.unequal else f", and {agreement.equal:,} of {agreement.samples:,} replies are equal")
        )
    if shows_one:
        return "fail", f"{count}, word for word in free text: they are one model"
    if is_rare:
        return "warn", f"{count}: check that {ours.arm.name} is what answers under its name"
    return None, ""


def _free_text_shows_one(inputs: CheckInputs, first: int, second: int, agreement: Agreement, level: float) -> bool:
    """Return whether the equal replies have so much free text that two models would not have written it alike."""
    if agreement.unequal:
        own = [own_agreement(inputs.arms[number], inputs.plan.draws(number)) for number in (first, second)]
        if not is_consistent(agreement, own):
            return False
    return equal_texts_by_chance(inputs, inputs.arms[first], agreement) <= level


def declare_other_weights(candidate: ArmColumns, baseline: ArmColumns) -> bool:
    """Return whether two arms declare different weights: other models, or equal requests to something else."""
    ours, theirs = candidate.arm, baseline.arm
    if ours.members or theirs.members or ours.trainings or theirs.trainings:
        return False
    if ours.settings and theirs.settings:
        return weights_of(ours) != weights_of(theirs)
    return ours.identity != theirs.identity and (ours.parameters, ours.variables) == (
        theirs.parameters,
        theirs.variables,
    )


def _common_model(candidate: ArmColumns, baseline: ArmColumns) -> str:
    """Return the model that servers name for both arms, although their settings name two; empty without one."""
    models = [{who.model for who in count_answerers(columns)} for columns in (candidate, baseline)]
    declared = [columns.arm.settings.get("model") for columns in (candidate, baseline)]
    is_one = len(models[0]) == 1 and models[0] == models[1] and None not in declared and declared[0] != declared[1]
    return next(iter(models[0])) if is_one else ""
