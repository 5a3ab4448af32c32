"""Counts the different prompts that were sent, and compares them with the groups by which the plan counts samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding, Severity
from pytest_crucible.features.run_checks.sent import WEIGHTS
from pytest_crucible.records import Arm, Draws, Plan
from pytest_crucible.records.plan import EQUAL_INPUTS
from pytest_crucible.stats.number_format import quantity

Prompts = Mapping[int, tuple[int, ...]]
"""The hashes of the prompts about each sample, by its position."""
LEAST_SHARE = 0.05
"""Of the samples: where fewer share a prompt, intervals change by less than their last digit."""


def check_prompts(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield one line on the different prompts of each arm, with those that the plan counts as if they were others."""
    sent = inputs.section.stored.prompts([columns.calls for columns in inputs.arms])
    if not any(sent):
        return
    with_calls = [of_arm for of_arm in sent if of_arm]
    problem, severity = _find_problem(inputs, with_calls[0])
    others = list(
        filter(None, (_undeclared_difference(inputs, sent), _unused_forms(inputs), _unsent_twins(inputs, sent)))
    )
    if others:
        problem, severity = "; ".join(filter(None, (problem, *others))), None
    are_same = len(with_calls) > 1 and all(_have_equal_prompts(of_arm, with_calls[0]) for of_arm in with_calls)
    yield Finding(
        check="prompts",
        cells=tuple(_describe(of_arm, are_same=are_same) for of_arm in sent),
        differs=_differs(sent),
        problem=problem,
        severity=severity,
        document=[{"samples": len(of_arm), "different": len(set(of_arm.values()))} for of_arm in sent],
    )


def _describe(sent: Prompts, *, are_same: bool) -> str:
    """Return `the same 240` where all arms were sent these, else `20 different among 120 samples`; empty without a call."""
    different = len(set(sent.values()))
    if not sent:
        return ""
    words = f"the same {different:,}" if are_same else f"{different:,} different"
    return words + ("" if different == len(sent) else f" among {len(sent):,} samples")


def _differs(sent: Sequence[Prompts]) -> str:
    """Return on how many samples a baseline was sent other prompts than the candidate."""
    candidate, others = sent[0], [of_arm for of_arm in sent[1:] if of_arm]
    both = {position for of_arm in others for position in of_arm.keys() & candidate.keys()}
    changed = {
        position
        for position in both
        if any(_are_other(of_arm.get(position, ()), candidate[position]) for of_arm in others)
    }
    return f"differ on {len(changed):,} of {len(both):,} samples" if changed else ""


def _are_other(ours: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    """Return whether two samples were sent different prompts. How often a model is called, its replies decide."""
    return ours != theirs and any(first != second for first, second in zip(ours, theirs, strict=False))


def _have_equal_prompts(ours: Prompts, theirs: Prompts) -> bool:
    return ours.keys() == theirs.keys() and not any(_are_other(ours[position], theirs[position]) for position in ours)


def _undeclared_difference(inputs: CheckInputs, sent: Sequence[Prompts]) -> str:
    """Return a sentence on a baseline that the test itself sent other prompts than the candidate; else an empty text."""
    plan = inputs.plan
    if plan.is_imported or {"messages", "*"} & {*plan.arms_differ_in}:
        return ""
    for number, baseline in enumerate(plan.arms[1:], start=1):
        first = {position: prompts[0] for position, prompts in sent[number].items()}
        both = [position for position in sent[0] if position in first]
        changed = sum(sent[0][position][0] != first[position] for position in both)
        if changed and changed >= LEAST_SHARE * len(both) and _declares_one_prompt(plan, baseline):
            return (
                f"the test sent {plan.candidate.name} and {baseline.name} different prompts for {changed:,} of {len(both):,} "
                "samples, and no adapter declares it: a difference of the arms may come from that; if it is what you "
                "compare, write arms_differ_in=['messages'] in the marker"
            )
    return ""


def _unused_forms(inputs: CheckInputs) -> str:
    """Return a sentence on an arm that was sent fewer different prompts than the test declares; else an empty text."""
    for number, columns in enumerate(inputs.arms):
        draws = inputs.plan.draws(number)
        sent = count_forms(columns, draws) if draws.prompts > 1 else 0
        if 0 < sent < draws.prompts:
            return (
                f"the test sent {columns.arm.name} only {quantity(sent, 'different prompt')} for the {draws.prompts:,} forms in "
                f"prompts=, and verdicts count {draws.prompts:,}: send the argument 'prompt' in each form"
            )
    return ""


def _unsent_twins(inputs: CheckInputs, sent: Sequence[Prompts]) -> str:
    """Return a sentence on variants in whose place the test sent the prompts of the original samples; else an empty text."""
    for number, columns in enumerate(inputs.arms):
        names = [
            variant.name
            for twin, variant in enumerate(inputs.plan.variants, start=1)
            if _is_unsent(inputs.section.stored.twin_prompts(number, twin), sent[number])
        ]
        if names:
            more = f" and {quantity(len(names) - 1, 'further variant')}" if names[1:] else ""
            return (
                f"the test sent {columns.arm.name} the prompts of the original samples in place of those of {names[0]}{more}: "
                "what they show is no effect of the change; send the sample's input, which each twin has of its own"
            )
    return ""


def _is_unsent(twins: Prompts, originals: Prompts) -> bool:
    """Return whether most twins with another input were sent as the original sample was."""
    both = [position for position in twins if position in originals]
    return 2 * sum(twins[position] == originals[position] for position in both) > len(both)


def count_forms(columns: ArmColumns, draws: Draws) -> int:
    """Return the largest number of different prompts that any sample was sent in the forms of the prompt."""
    calls = columns.calls
    units: dict[tuple[int, int], tuple[int | None, ...]] = defaultdict(tuple)
    for row in columns.own_calls:
        # One reply in each form is enough.
        if calls.repeats[row] % (draws.size // draws.prompts) == 0:
            units[calls.positions[row], calls.repeats[row]] += (calls.forms[row],)
    different: dict[int, set[tuple[int | None, ...]]] = defaultdict(set)
    answered = Counter(position for position, _ in units)
    for (position, _), forms in units.items():
        if answered[position] == draws.prompts:
            different[position].add(forms)
    return max(map(len, different.values()), default=0)


def _declares_one_prompt(plan: Plan, baseline: Arm) -> bool:
    """Return whether nothing that is declared of an arm makes its prompts other than the candidate's.

    A stored run may be of an older test, whose prompts are what is compared.
    """
    arms = plan.candidate, baseline
    if any(arm.stored_run or arm.members or arm.trainings for arm in arms):
        return False
    declared = [
        (arm.variables, plan.arm_prompts.get(arm.name), {k: v for k, v in arm.settings.items() if k not in WEIGHTS})
        for arm in arms
    ]
    return declared[0] == declared[1]


def _find_problem(inputs: CheckInputs, sent: Prompts) -> tuple[str, Severity | None]:
    """Return how the prompts contradict the groups of the plan, and how severe that is; an empty text if they do not."""
    groups = inputs.section.groups
    shared = _shared_prompts(sent, groups)
    different = len(set(sent.values()))
    if different == 1 < len(sent):
        return (
            f"all {len(sent):,} samples were sent one prompt: verdicts are about this prompt alone, whatever the number of samples",
            None,
        )
    if shared:
        severity: Severity | None = None if shared >= LEAST_SHARE * len(sent) else "note"
        return (
            f"{shared:,} of {len(sent):,} samples were sent the same prompt as one that counts apart, so that there are "
            f"{different:,} different prompts, and intervals and p-values are too sure: give samples of one prompt one group",
            severity,
        )
    split = _split_groups(inputs, sent, groups)
    return (
        f"the test sent different prompts for {quantity(split, 'group')} of samples with equal input, expected value and metadata: "
        'if they are different questions, set crucible_equal_inputs = "keep"'
        if split
        else "",
        None,
    )


def _shared_prompts(sent: Prompts, groups: Sequence[str | None]) -> int:
    """Return the number of samples whose prompts are also those of a sample in another group."""
    # Of most runs: each prompt is of one sample.
    if len(set(sent.values())) == len(sent):
        return 0
    members: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for position, prompts in sent.items():
        members[prompts].append(position)
    return sum(
        len(positions)
        for positions in members.values()
        if len({groups[position] or position for position in positions}) > 1
    )


def _split_groups(inputs: CheckInputs, sent: Prompts, groups: Sequence[str | None]) -> int:
    """Return how many groups that equal inputs have made were sent different prompts.

    Only their first prompt: those that follow in a conversation contain replies.
    """
    equal = EQUAL_INPUTS.of(inputs.plan)
    if equal is None or equal.declared:
        return 0
    first: dict[str | None, set[int]] = defaultdict(set)
    for position, prompts in sent.items():
        first[groups[position]].add(prompts[0])
    return sum(len(prompts) > 1 for prompts in first.values())
