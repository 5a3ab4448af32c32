"""Plans a sweep: which experiment chooses, the halves of its samples, and the samples of the other experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.datasets import identify
from pytest_crucible.datasets.equal_inputs import count_equal_inputs
from pytest_crucible.features.sweeps.families import family_of
from pytest_crucible.features.sweeps.grid import Family, first_points
from pytest_crucible.features.sweeps.records import SWEEP_OF, Sweep, SweepMember
from pytest_crucible.features.sweeps.rounds import LOOKS, Halves, look_lengths, split_halves
from pytest_crucible.plan.arms import look_order
from pytest_crucible.plan.design import group_count
from pytest_crucible.plan.variants import plan_variants
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan, Sample
from pytest_crucible.records.errors import SpecError, closest_name
from pytest_crucible.records.plan import ANSWERED_BY, BEGINS_LATE, EQUAL_INPUTS, choosing_nodeid
from pytest_crucible.records.serialize import canonical
from pytest_crucible.session.experiment import Experiment


@dataclass(frozen=True)
class PlannedSweep:
    """A sweep before its first request."""

    family: OpenedArm
    choosing: Experiment
    """All members on the choosing half."""

    @property
    def record(self) -> Sweep:
        sweep = SWEEP_OF.of(self.choosing.plan)
        assert sweep is not None
        return sweep


def plan_sweep(
    family_arm: OpenedArm, experiments: Mapping[str, Experiment], seed: int
) -> tuple[PlannedSweep, dict[str, Experiment]]:
    """Return the sweep, and all experiments on the samples that their verdicts may rest on.

    Raises SpecError if no experiment, or more than one, scores the metric that chooses, and for too few samples.
    """
    family = family_of(family_arm)
    test, metric = _find_chooser(family, [experiment.plan for experiment in experiments.values()])
    chooser = experiments[test]
    stage = BEGINS_LATE.of(chooser.plan)
    if stage:
        raise SpecError(
            f"the sweep of {family.name!r} is chosen by {test}, which begins at stage {stage!r}, and all other experiments "
            f"wait for the winner: remove stage={stage!r}"
        )
    halves, looks = _split(chooser, family.confirm)
    samples = chooser.dataset.samples
    chosen_by = [samples[position] for position in halves.choosing]
    choosing = _restrict(chooser, chosen_by)
    points = first_points(family, seed) if family.trials else family.points()
    record = Sweep(
        family=family.name,
        test=test,
        by=metric,
        confirm=family.confirm,
        drop=family.drop,
        grid=family.grid,
        members=_members(points, family_arm.competitors),
        trials=family.trials,
        seed=seed if family.trials else 0,
        choosing=len(halves.choosing),
        choosing_sha256=choosing.plan.dataset_sha256,
        confirming=len(halves.confirming),
        looks=looks if family.drop != "none" else (),
    )
    used = {_sample_key(sample) for sample in chosen_by}
    judge = partial(_without, left_out=used) if family.confirm else partial(_correct_for_choice, used=used)
    confirming = {nodeid: with_sweep(judge(experiment, record), record) for nodeid, experiment in experiments.items()}
    return PlannedSweep(family_arm, _with_members(choosing, record, family_arm.competitors)), confirming


def with_trained(sweep: PlannedSweep, family_arm: OpenedArm) -> PlannedSweep:
    """Return the sweep with its trained members."""
    points = [member.settings for member in sweep.record.members]
    record = replace(sweep.record, members=_members(points, family_arm.competitors))
    return PlannedSweep(family_arm, _with_members(sweep.choosing, record, family_arm.competitors))


def with_trial(sweep: PlannedSweep, settings: Mapping[str, Any], trial: OpenedArm) -> PlannedSweep:
    """Return the sweep with one more member, which a search has proposed."""
    member = SweepMember(name=trial.arm.name, settings=settings, identity=trial.arm.identity)
    record = replace(sweep.record, members=(*sweep.record.members, member))
    family_arm = replace(sweep.family, competitors=(*sweep.family.competitors, trial))
    return PlannedSweep(family_arm, _with_members(sweep.choosing, record, family_arm.competitors))


def with_sweep(experiment: Experiment, record: Sweep) -> Experiment:
    """Return the experiment with the record of its sweep."""
    return replace(experiment, plan=SWEEP_OF.on(experiment.plan, record))


def with_winner(experiment: Experiment, winner: OpenedArm) -> Experiment:
    """Return the experiment with the winner instead of the family."""
    plan = experiment.plan
    return replace(
        experiment,
        plan=replace(plan, arms=(winner.arm, *plan.arms[1:])),
        opened_arms=(winner, *experiment.opened_arms[1:]),
    )


# -- which experiment chooses --------------------------------------------------------------------------------------


def _find_chooser(family: Family, plans: Sequence[Plan]) -> tuple[str, str]:
    """Return the nodeid of the experiment that chooses, and the metric. Raises SpecError unless there is exactly one."""
    test, _, metric = family.by.rpartition("::")
    among = [plan for plan in plans if plan.nodeid.endswith(test)]
    names = {name for plan in among for name in _metric_names(plan)}
    if not metric:
        if len(names) != 1:
            raise SpecError(
                f"the sweep of {family.name!r} does not say which metric chooses: set "
                + " or ".join(f'by = "{name}"' for name in sorted(names) or ["METRIC"])
            )
        (metric,) = names
    scoring = [plan.nodeid for plan in among if metric in _metric_names(plan)]
    if not scoring:
        # The metrics of a test that scores by itself are known only when it runs.
        scoring = [plan.nodeid for plan in among if plan.open_metrics]
    if not scoring:
        use = closest_name(metric, names, cutoff=0.0) or "METRIC"
        raise SpecError(
            f'the sweep of {family.name!r} chooses by {family.by!r}, which no selected test scores: set by = "{use}"'
        )
    if len(scoring) > 1:
        tests = [nodeid.rpartition("::")[2] for nodeid in scoring]
        raise SpecError(
            f"the sweep of {family.name!r} chooses by {family.by!r}, which {' and '.join(tests)} score: "
            f'set by = "{tests[0]}::{metric}"'
        )
    return scoring[0], metric


def _metric_names(plan: Plan) -> set[str]:
    named = {facts.name for facts in plan.metrics if facts.kind != "text"}
    return named | {measure.metric for measure in (*plan.targets, *plan.contrasts)}


def _members(points: Iterable[Mapping[str, Any]], competitors: Sequence[OpenedArm]) -> tuple[SweepMember, ...]:
    return tuple(
        SweepMember(name=opened.arm.name, settings=point, identity=opened.arm.identity)
        for point, opened in zip(points, competitors, strict=True)
    )


# -- halves --------------------------------------------------------------------------------------------------------


def _split(experiment: Experiment, confirm: float) -> tuple[Halves, tuple[int, ...]]:
    """Return the halves, and the lengths of the choosing half after which members may be dropped."""
    samples = experiment.dataset.samples
    groups = [sample.cluster for sample in samples]
    order = look_order([sample.id for sample in samples], groups)
    halves = split_halves(order, groups, confirm)
    chosen_by = set(halves.choosing)
    return halves, look_lengths([position for position in order if position in chosen_by], groups, LOOKS)


def _correct_for_choice(experiment: Experiment, record: Sweep, *, used: set[str]) -> Experiment:
    """Return an experiment on samples that have chosen: its claims hold for all members, and targets need proof."""
    if not any(_sample_key(sample) in used for sample in experiment.dataset.samples):
        return experiment
    plan = experiment.plan
    # The best of several means is too high to be compared as it is.
    targets = tuple(replace(target, decide="bound") for target in plan.targets)
    changed = replace(plan, chosen_among=len(record.members), targets=targets)
    if plan.nodeid == record.test and len(record.members) > 1:
        # The candidate has answered these samples when it was chosen.
        changed = ANSWERED_BY.on(changed, record.nodeid)
    return replace(experiment, plan=changed)


def _without(experiment: Experiment, record: Sweep, *, left_out: set[str]) -> Experiment:
    """Return the experiment without the samples that have chosen. Raises SpecError if none is left."""
    samples = experiment.dataset.samples
    remaining = [sample for sample in samples if _sample_key(sample) not in left_out]
    if len(remaining) == len(samples):
        return experiment
    if not remaining:
        raise SpecError(
            f"all {len(samples)} samples of {experiment.plan.nodeid} choose the winner of {record.family!r}, and none is "
            "left for its verdicts: deselect the test, or set a larger confirm"
        )
    return _restrict(experiment, remaining)


def _sample_key(sample: Sample) -> str:
    """Return the key by which a sample is recognised in another experiment."""
    return f"{sample.id} {canonical(sample.input)}"


def _restrict(experiment: Experiment, samples: Iterable[Sample]) -> Experiment:
    """Return the experiment on some of its samples."""
    dataset = identify(experiment.dataset.name, list(samples))
    plan = EQUAL_INPUTS.on(experiment.plan, count_equal_inputs(dataset.samples))
    return replace(
        experiment,
        dataset=dataset,
        plan=replace(
            plan,
            dataset_sha256=dataset.sha256,
            planned=len(dataset.samples),
            selected=len(dataset.samples),
            groups=group_count(dataset),
            fingerprint=replace(plan.fingerprint, dataset=dataset.sha256),
            variants=plan_variants(experiment.variants, dataset.samples),
        ),
    )


def _with_members(choosing: Experiment, record: Sweep, competitors: Sequence[OpenedArm]) -> Experiment:
    """Return the experiment in which the members compete: it has no targets and compares nothing."""
    return replace(
        choosing,
        opened_arms=tuple(competitors),
        warnings=(),
        # Members compete on the original samples.
        variants=(),
        plan=SWEEP_OF.on(
            replace(
                choosing.plan,
                nodeid=choosing_nodeid(record.test, record.family),
                arms=tuple(opened.arm for opened in competitors),
                targets=(),
                contrasts=(),
                variants=(),
                variant_terms=(),
                not_run={},
                look_alpha=None,
                # Members compete on all of these samples, before any stage begins.
                features={},
                chooses=True,
            ),
            record,
        ),
    )
