"""Compares arms of stored runs: sample by sample, and on the variants that both runs have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import AnalysisInputs, metric_facts, uses_expected, uses_fields
from pytest_crucible.analyse.pool import realign, repeat_places
from pytest_crucible.analyse.scores import mark_inapplicable
from pytest_crucible.plan.design import check_fields, check_repeats, expand_slices, without_unfounded_claim
from pytest_crucible.plan.fingerprint import differences
from pytest_crucible.plan.targets import contrast_of_unnamed, with_declarations
from pytest_crucible.plan.variants import VariantNames, variant_terms
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes, Contrast, MetricFacts, Plan, PromptForm, Run, VariantGroup, VariantTerm
from pytest_crucible.records.datasets import SAME_ANSWER
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.measures import VIEWS, Direction, view_problem
from pytest_crucible.records.plan import LEFT_OUT
from pytest_crucible.records.results import rules_of
from pytest_crucible.runs.compared_details import ComparedArm, ComparedDetails
from pytest_crucible.runs.evaluate import all_ran, analyse_together, analysis_inputs, concluded_run
from pytest_crucible.runs.plugins import installed_extensions, variant_rules
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import all_sample_ids, expected_values, group_names, metadata_values, sample_contents

ChooseContrasts = Callable[[Sequence[str]], tuple[Contrast, ...]]
"""Chooses comparisons among the metrics that both arms have; returns none for those that the suite declares."""


@dataclass(frozen=True)
class StoredArm:
    """An arm of a stored run."""

    run: str
    arm: str = ""
    """Empty: the candidate."""

    def number(self, plan: Plan) -> int | None:
        """Return its number among the arms of an experiment; None if the experiment lacks it."""
        names = [arm.name for arm in plan.arms]
        return 0 if not self.arm else names.index(self.arm) if self.arm in names else None


@dataclass(frozen=True)
class PairedExperiment:
    """An experiment that both runs have, with the replies of both arms to the candidate's samples."""

    inputs: AnalysisInputs
    notes: tuple[str, ...]
    """What else differs between the two runs."""
    details: ComparedDetails


def pair_experiments(
    store: RunStore,
    ours: StoredArm,
    theirs: StoredArm,
    ask: ChooseContrasts,
    directions: Mapping[str, Direction] | None = None,
    *,
    arms_differ_in: Sequence[str] = (),
) -> tuple[PairedExperiment, ...]:
    """Return the experiments of two arms, with the comparisons that `ask` chooses. Raises SpecError if they have none.

    `directions` has the direction that is better of metrics for which the run did not record one, `arms_differ_in` the settings
    that the arms are compared for, beside those that the candidate's suite declares.
    """
    for side in (ours, theirs):
        names_known = sorted({arm.name for _, plan, _ in store.experiments(side.run) for arm in plan.arms})
        if side.arm and side.arm not in names_known:
            hint = suggest(side.arm, names_known, otherwise=f"it has {', '.join(names_known)}")
            raise SpecError(f"run {side.run} has no arm {side.arm!r}: {hint}")
    other = {plan.nodeid: (key, plan, whole) for key, plan, whole in store.experiments(theirs.run)}
    both = [(entry, other[entry[1].nodeid]) for entry in store.experiments(ours.run) if entry[1].nodeid in other]
    tables = [_table(store, ours, theirs, *pair, ask, directions or {}, arms_differ_in) for pair in both]
    pairs = tuple(table for table in tables if table is not None)
    if pairs and not any(pair.inputs.plan.contrasts for pair in pairs):
        raise SpecError(
            f"nothing was compared: {_arm_text(ours)} and {_arm_text(theirs)} have no metric in common with a number"
        )
    if not pairs:
        raise SpecError(
            f"{_arm_text(ours)} and {_arm_text(theirs)} have no experiment in common: compare runs of one suite, "
            "and arms that it queried"
        )
    return pairs


def decide_pairs(
    store: RunStore, ours: StoredArm, theirs: StoredArm, pairs: Sequence[PairedExperiment], *, alpha: float
) -> tuple[Run, tuple[str, ...]]:
    """Return the comparison of paired experiments as a run that is not stored, and their notes."""
    analyses, family_size = analyse_together(
        lambda: [(pair.inputs, pair.details) for pair in pairs],
        installed_extensions().sections,
        alpha=alpha,
        declared=sum(contrast.shares_alpha for pair in pairs for contrast in pair.inputs.plan.contrasts),
    )
    verdicts = gate.decide_verdicts(analyses, alpha=alpha, strict=False, family_size=family_size)
    whole = concluded_run(store, ours.run, "", family_size, analyses, verdicts, alpha=alpha)
    whole = replace(whole, rules=rules_of(whole.environment), decided_again=True)
    # Not a stored run: the id names both sides.
    run = replace(whole, id=f"{_arm_text(ours)} vs {_arm_text(theirs)}")
    return run, tuple(note for pair in pairs for note in pair.notes)


Entered = tuple[int, Plan, bool]
"""Key, plan, and whether all samples were queried."""


def _table(
    store: RunStore,
    ours: StoredArm,
    theirs: StoredArm,
    ours_entry: Entered,
    theirs_entry: Entered,
    ask: ChooseContrasts,
    directions: Mapping[str, Direction],
    arms_differ_in: Sequence[str],
) -> PairedExperiment | None:
    """Return both arms' replies to the candidate's samples, notes, and what is stored of them; None if an arm is missing."""
    numbers = ours.number(ours_entry[1]), theirs.number(theirs_entry[1])
    began = store.has_arms(ours_entry[0]) and store.has_arms(theirs_entry[0])
    if numbers[0] is None or numbers[1] is None or not began:
        return None
    plan = _with_directions(_plan(ours_entry[1], theirs_entry[1], numbers[0], numbers[1], ours, theirs), directions)
    plan = replace(plan, arms_differ_in=tuple(dict.fromkeys((*plan.arms_differ_in, *arms_differ_in))))
    places, left_out = _places(store, ours_entry[1], theirs_entry[1])
    notes = [_left_out_note(samples, why) for why, samples in left_out.items()]
    plan = LEFT_OUT.on(plan, left_out)
    moved = (ours_entry, numbers[0], 0, {k: k for k in range(plan.planned)}), (theirs_entry, numbers[1], 1, places)
    inputs = _inputs(store, plan, [_move_arm(store, plan, *of_arm) for of_arm in moved])
    whole = [all_ran(store, *of_run) for of_run in ((ours.run, *ours_entry[1:]), (theirs.run, *theirs_entry[1:]))]
    inputs = replace(inputs, finished=all(whole), known_kinds=store.known_kinds(plan, ours_entry[0] + 1))
    contrasts, terms = _choose_comparisons(store, plan, inputs, ours_entry[1], ask)
    changed = [*notes, *variant_notes(ours_entry[1], theirs_entry[1]), *_changes(ours_entry[1], theirs_entry[1])]
    notes_of_experiment = tuple(f"{plan.nodeid.partition('::')[2]}: {note}" for note in changed)
    queried = replace(plan, contrasts=contrasts, variant_terms=terms)
    check_repeats((), contrasts, plan.draws(0).repeats)
    expected = expected_values(store, plan.dataset_sha256) if uses_expected(queried) else ()
    metadata = metadata_values(store, plan.dataset_sha256) if uses_fields(queried) else ()
    inputs = replace(inputs, plan=queried, expected=expected, metadata=metadata)
    sides = tuple(_compared_arm(store, plan, *of_arm) for of_arm in moved)
    details = ComparedDetails(store=store, dataset=plan.dataset_sha256, arms=sides)
    return PairedExperiment(inputs, notes_of_experiment, details)


def _choose_comparisons(
    store: RunStore, plan: Plan, inputs: AnalysisInputs, suite: Plan, ask: ChooseContrasts
) -> tuple[tuple[Contrast, ...], tuple[VariantTerm, ...]]:
    known_facts = metric_facts(inputs)
    scored = [
        name for name, facts in known_facts.items()
        if facts.kind != "text" and all(name in arm.scores for arm in inputs.answers)
    ]  # fmt: skip
    terms = {term.facts.name: term for term in comparable_terms(plan, {name: known_facts[name] for name in scored})}
    of_suite = (contrast for contrast in suite.contrasts if set(contrast.metrics) <= {*scored, *terms})
    contrasts = ask((*scored, *terms)) or tuple(dict.fromkeys(replace(contrast, baseline="") for contrast in of_suite))
    contrasts = contrasts or tuple(
        contrast_of_unnamed(known_facts[name], (value for arm in inputs.answers for value in arm.scores[name].values))
        for name in scored
    )
    known_facts |= {name: term.facts for name, term in terms.items()}
    if any(contrast.by is not None for contrast in contrasts):
        fields = expected_values(store, plan.dataset_sha256), metadata_values(store, plan.dataset_sha256)
        check_fields(contrasts, *fields)
        contrasts = expand_slices(contrasts, *fields)
    decidable = (without_unfounded_claim(contrast, known_facts[contrast.metric]) for contrast in contrasts)
    chosen = tuple(
        replace(contrast, baseline=plan.arms[1].name) for contrast in with_declarations(decidable, known_facts.values())
    )
    named = {name for contrast in chosen for name in contrast.metrics}
    return chosen, tuple(term for name, term in terms.items() if name in named)


MovedArm = tuple[ArmOutcomes, Mapping[str, ArmOutcomes]]
"""The outcomes of an arm on the original samples, and on each variant by its name, at their places in the comparison."""


def _compared_arm(
    store: RunStore, plan: Plan, entry: Entered, number: int, arm: int, places: Mapping[int, int]
) -> ComparedArm:
    stored = load_experiment(store, entry[0])
    return ComparedArm(
        stored=stored, number=number, positions=places, repeats=_repeat_places(plan, entry[1], number, arm)
    )


def _repeat_places(plan: Plan, own: Plan, number: int, arm: int) -> dict[int, int]:
    """Return the place of a reply in a stored experiment -> its place in the comparison."""
    texts = [form.sha256 for form in own.prompts]
    prompts = [texts.index(form.sha256) for form in plan.prompts] or [0]
    return repeat_places(own.draws(number), plan.draws(arm), prompts)


def _move_arm(
    store: RunStore, plan: Plan, entry: Entered, number: int, arm: int, places: Mapping[int, int]
) -> MovedArm:
    """Return one arm of a stored experiment. `places` has position of a sample -> its position in the comparison."""
    key, own, _ = entry
    repeats = _repeat_places(plan, own, number, arm)
    variants = load_variant_answers(store, key, number) if plan.variants else {}
    answers = load_outcomes(store, key, number, own.draws(number))
    on_variants = {name: realign(outcomes, places, repeats) for name, outcomes in variants.items()}
    return realign(answers, places, repeats), on_variants


def _inputs(store: RunStore, plan: Plan, arms: Sequence[MovedArm]) -> AnalysisInputs:
    expected = expected_values(store, plan.dataset_sha256) if uses_expected(plan) else ()
    on_variants = [variants for _, variants in arms]
    return AnalysisInputs(
        plan=plan,
        answers=mark_inapplicable(plan, [answers for answers, _ in arms], expected),
        groups=group_names(store, plan.dataset_sha256),
        finished=True,
        known_kinds={},
        sample_ids=all_sample_ids(store, plan.dataset_sha256),
        variants={variant.name: tuple(of_arm[variant.name] for of_arm in on_variants) for variant in plan.variants},
    )


def _plan(
    ours_plan: Plan, theirs_plan: Plan, number: int, other_number: int, ours: StoredArm, theirs: StoredArm
) -> Plan:
    candidate, baseline = ours_plan.arms[number], theirs_plan.arms[other_number]
    names = [candidate.name, baseline.name]
    # Reports name arms, so both need a name of their own.
    if names[0] == names[1]:
        # Two runs of one adapter: the beginning of the run's id distinguishes the arms.
        names = [f"{name}@{side.run[:6]}" for name, side in zip(names, (ours, theirs), strict=True)]
    # Rounds and repeats are paired, so those that only one run has are left out.
    rounds = min(ours_plan.rounds, theirs_plan.rounds)
    stored_run = baseline.stored_run if ours.run == theirs.run else theirs.run
    plan = replace(
        ours_plan,
        arms=(
            replace(candidate, role="candidate", name=names[0]),
            replace(baseline, role="baseline", name=names[1], stored_run=stored_run),
        ),
        rounds=rounds,
        prompts=_common_prompts(ours_plan, theirs_plan),
        repeats=rounds * min(plan.repeats // plan.rounds for plan in (ours_plan, theirs_plan)),
        targets=(),
        contrasts=(),
        not_run={},
        exclusions=tuple(dict.fromkeys((*ours_plan.exclusions, *theirs_plan.exclusions))),
    )
    return with_common_variants(plan, ours_plan, theirs_plan)


def _common_prompts(ours: Plan, theirs: Plan) -> tuple[PromptForm, ...]:
    """Return the prompts of both plans, by their texts. Raises SpecError if both have prompts, and none in common."""
    texts = {form.sha256 for form in theirs.prompts}
    common = tuple(form for form in ours.prompts if form.sha256 in texts)
    if not common and (ours.prompts or theirs.prompts):
        raise SpecError(f"{ours.nodeid}: the two runs have no prompt in common, so their replies cannot be paired")
    return common


def _with_directions(plan: Plan, directions: Mapping[str, Direction]) -> Plan:
    """Return the plan with the directions that the user names. Raises SpecError for one that the suite declares otherwise."""
    for facts in plan.metrics:
        if facts.is_directed and directions.get(facts.name, facts.direction) != facts.direction:
            raise SpecError(
                f"--metric {facts.name}:{directions[facts.name]}: the run has recorded that {facts.direction} is better; "
                "leave the direction out"
            )
    named = {facts.name: facts for facts in plan.metrics}
    for name in named.keys() & directions:
        named[name] = replace(named[name], direction=directions[name], is_directed=True)
    return replace(plan, metrics=tuple(named.values()))


def _places(store: RunStore, first: Plan, other: Plan) -> tuple[Mapping[int, int], dict[str, tuple[str, ...]]]:
    """Return the baseline's positions -> the candidate's: equal in one dataset, else by samples of equal id and input.

    The other samples come second, by why they are left out.
    """
    if first.dataset_sha256 == other.dataset_sha256:
        return {k: k for k in range(first.planned)}, {}
    ours, theirs = (sample_contents(store, plan.dataset_sha256) for plan in (first, other))
    ours_by_id = {name: (place, content) for place, (name, content) in enumerate(ours)}
    same = {
        place: ours_by_id[name][0]
        for place, (name, content) in enumerate(theirs)
        if ours_by_id.get(name, (0, ""))[1] == content
    }
    if not same:
        raise SpecError(
            f"{first.nodeid}: the two runs have no sample in common (ids, inputs and expected values are compared)"
        )
    there = {name for name, _ in theirs}
    apart = [name for name in ours_by_id if name not in there] + [name for name in there if name not in ours_by_id]
    changed = [name for name, content in theirs if name in ours_by_id and ours_by_id[name][1] != content]
    left_out = {"in one run only": apart, "with another input in the other run": changed}
    return same, {why: tuple(samples) for why, samples in left_out.items() if samples}


def _left_out_note(samples: Sequence[str], why: str) -> str:
    return f"{quantity(len(samples), 'sample')} {why} (first: {min(samples)}), left out"


def _changes(first: Plan, other: Plan) -> Iterator[str]:
    changed = [part for part in differences(first.fingerprint, other.fingerprint) if part != "dataset rows"]
    if changed:
        yield f"{' and '.join(changed)} changed between the runs, so a difference may come from that as well as from the arms"


def _arm_text(side: StoredArm) -> str:
    return f"{side.run}:{side.arm}" if side.arm else side.run


def with_common_variants(plan: Plan, ours: Plan, theirs: Plan) -> Plan:
    """Return the plan with those variants of our experiment that the other has with equal texts, and their attacks."""
    equal = {(variant.name, variant.sha256) for variant in theirs.variants}
    common = tuple(variant for variant in ours.variants if (variant.name, variant.sha256) in equal)
    names = {variant.name for variant in common}
    terms = tuple(term for term in ours.variant_terms if names.issuperset(term.variants))
    in_both = {term.facts.name for term in theirs.variant_terms}
    # Texts are read for it only where a suite names it.
    terms = tuple(term for term in terms if term.metric != SAME_ANSWER or term.facts.name in in_both)
    paired = replace(plan, variants=common, variant_terms=terms)
    changed: Plan | None = installed_extensions().hook.pytest_crucible_pair_variants(plan=paired, ours=ours)
    return changed or paired


def variant_notes(ours: Plan, theirs: Plan) -> Iterator[str]:
    """Yield which variants are left out, because one run lacks them or has other texts."""
    of_ours, of_theirs = ({variant.name: variant for variant in plan.variants} for plan in (ours, theirs))
    alone = [name for name in (*of_ours, *of_theirs) if (name in of_ours) != (name in of_theirs)]
    changed = [name for name in of_ours if name in of_theirs and of_ours[name].sha256 != of_theirs[name].sha256]
    if alone:
        yield f"variants in one run only, left out: {', '.join(alone)}"
    if changed:
        yield f"variants with other texts in the two runs, left out: {', '.join(changed)}"


def load_variant_answers(store: RunStore, key: int, arm: int) -> Mapping[str, ArmOutcomes]:
    """Return an arm's outcomes on each variant of a stored experiment, by the name of the variant."""
    stored = load_experiment(store, key)
    if not stored.variants:
        return {}
    # A comparison takes all replies, those after the run's last look included.
    whole = replace(stored, plan=replace(stored.plan, look_alpha=None))
    return {name: arms[arm] for name, arms in analysis_inputs(whole, finished=True).variants.items()}


def comparable_terms(plan: Plan, metrics: Mapping[str, MetricFacts]) -> tuple[VariantTerm, ...]:
    """Return every term that a comparison may name: those of the suite, and each metric and view on each attack."""
    rules = variant_rules(plan)
    groups = {term.group.name: term.group for term in plan.variant_terms if term.group is not None}
    groups |= {name: VariantGroup(name=name, variants=names) for name, names in rules.groups.items() if len(names) > 1}
    own = {facts.name: facts for facts in plan.variant_metrics if facts.name != SAME_ANSWER}
    names = VariantNames([variant.name for variant in plan.variants], groups, own, aliases=rules.aliases)
    views = [
        f"{name}.{view}" if view else name
        for name, facts in metrics.items()
        for view in VIEWS
        if not view_problem(view, facts)
    ]
    written = [f"{view}[{variant}]" for view in (*views, *own) for variant in names.known]
    others = variant_terms(written, metrics, names, open_metrics=False)
    return tuple({term.facts.name: term for term in (*others, *plan.variant_terms)}.values())
