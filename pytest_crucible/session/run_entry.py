"""Enters a run and its experiments into the run store, with the stored replies that they may use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_crucible.plan.fingerprint import differences, without_metrics_of_calls
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Arm, ArmOutcomes, Plan, Sample
from pytest_crucible.records.errors import NotStored, SpecError
from pytest_crucible.records.files import git_commit
from pytest_crucible.records.plan import ANSWERED_BY
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.provenance import build_manifest, environment_facts, utc_now
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.items import JoinedTest
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.decisions import find_member
from pytest_crucible.store.experiments import StoredExperiment, load_experiment
from pytest_crucible.store.history import add_tag, check_tag
from pytest_crucible.store.reused_outcomes import (
    NewScores,
    copy_outcomes,
    count_answers,
    find_arm,
    was_reasoning_scored,
)
from pytest_crucible.store.runs import RunStore


def enter_run(store: RunStore, run: str, config: pytest.Config, settings: Settings, facts: Mapping[str, Any]) -> None:
    """Enter a run with its tags. `facts` are further entries of its manifest. Raises SpecError for an invalid tag."""
    # Checked first: an invalid tag would otherwise leave a run that lacks it.
    for name in settings.tag:
        check_tag(name)
    command, started = config.invocation_params, utc_now()
    manifest = build_manifest(command.args, command.dir, config.rootpath, settings)
    store.begin_run(
        run,
        started=started,
        seed=settings.seed,
        alpha=settings.alpha,
        correction="holm",
        git=git_commit(config.rootpath),
        environment=environment_facts(),
        manifest={**manifest, **facts},
    )
    for name in settings.tag:
        add_tag(store, run, name, at=started)


def enter_withheld(store: RunStore, run: str, experiments: Iterable[Experiment]) -> None:
    """Enter the experiments that send nothing. Their verdicts are undecided."""
    for experiment in experiments:
        if experiment.plan.withheld:
            store.enter_unanswered(run, experiment.plan, experiment.dataset.samples)


def enter_joined_tests(store: RunStore, run: str, joined_tests: Iterable[JoinedTest]) -> None:
    """Enter joined tests, whose samples are their items, and keep the keys of their arms."""
    for joined in joined_tests:
        samples = [Sample(id=name, input=name) for name in joined.positions]
        key = store.add_experiment(run, joined.plan, samples)
        joined.arms = [store.add_arm(key, k, arm.name, "") for k, arm in enumerate(joined.plan.arms)]


@dataclass(frozen=True)
class EnteredExperiment:
    """An experiment in the run store, with its stored replies."""

    key: int
    arms: list[list[int]]
    """The store's keys of the arms, by arm and prompt."""
    done: list[set[tuple[int, int]]]
    """By arm, the (position, place) of the units with stored replies."""
    lines: Sequence[str] = ()
    """What the user should know of stored replies."""


@dataclass(frozen=True)
class ExperimentEntry:
    """Enters the experiments of one run."""

    store: RunStore
    settings: Settings
    run: str

    def enter(self, experiment: Experiment, *, is_first: bool = True, answered: int = 0) -> EnteredExperiment:
        """Enter an experiment, or a later run of it; the first `answered` arms have had their requests in this session.

        Raises SpecError for a stored run that cannot be scored.
        """
        if not is_first:
            return self._enter_again(experiment)
        plan = experiment.plan
        key = self.store.add_experiment(self.run, plan, experiment.dataset.samples, experiment.variants)
        arms, done, lines = [], [], list[str]()
        for number, draws in enumerate(experiment.draws):
            keys = self._add_arms(key, plan, number)
            done.append(
                {
                    (position, draws.place(variant, repeat))
                    for variant, target in enumerate(keys)
                    for position, repeat in self._reuse_stored(experiment, number, variant, target, lines)
                }
            )
            arms.append(keys)
        # Not copied from another run: this one has their rows already.
        if answered:
            done[:answered] = stored_units(load_experiment(self.store, key))[:answered]
        return EnteredExperiment(key, arms, done, list(dict.fromkeys(lines)))

    def _enter_again(self, experiment: Experiment) -> EnteredExperiment:
        """Return the keys of an experiment that has begun, and the units that its earlier runs answered or lost."""
        plan = experiment.plan
        key = self.store.add_experiment(self.run, plan, experiment.dataset.samples, experiment.variants)
        arms = [self._add_arms(key, plan, number) for number in range(len(plan.arms))]
        return EnteredExperiment(key, arms, stored_units(load_experiment(self.store, key)))

    def _add_arms(self, experiment: int, plan: Plan, number: int) -> list[int]:
        """Return the keys of an arm, one for each variant."""
        return [self._add_arm(experiment, plan, number, variant) for variant in plan.variant_numbers]

    def _add_arm(self, experiment: int, plan: Plan, number: int, variant: int) -> int:
        fingerprint = arm_fingerprint(plan, number, variant)
        # Variants are numbered after all arms, so that an arm's own number stays its place in the plan.
        place = number + len(plan.arms) * variant
        original = self.store.add_arm(experiment, number, plan.arms[number].name, arm_fingerprint(plan, number))
        if not variant:
            return original
        return self.store.add_arm(
            experiment, place, plan.arms[number].name, fingerprint, variant=variant, original=original
        )

    def _reuse_stored(
        self, experiment: Experiment, number: int, variant: int, target: int, lines: list[str]
    ) -> set[tuple[int, int]]:
        """Copy the stored replies that an arm may use, scored by their calls with new metrics; add to `lines` why not."""
        plan = experiment.plan
        source = find_stored_replies(self.store, self.settings, plan, number, variant, run=self.run)
        if source is None:
            return set()
        try:
            scores = self._score_calls(experiment, source[0])
        except NotStored as error:
            lines.append(_explain_unscored(plan, number, source[1], error))
            return set()
        draws, tried = plan.draws(number), self.settings.resume
        texts = self.settings.trace == "on"
        return copy_outcomes(
            self.store,
            source[0],
            target,
            source_run=source[1],
            draws=draws,
            tried=tried,
            with_texts=texts,
            scores=scores,
        )

    def _score_calls(self, experiment: Experiment, source: int) -> NewScores | None:
        """Return the values of metrics of calls that a stored arm was not scored with; None without any. Raises NotStored."""
        if not _has_metrics_of_calls(experiment.plan):
            return None
        # Imported here: most suites have none.
        from pytest_crucible.session.stored_scores import score_stored

        return score_stored(self.store, experiment, source)


def _explain_unscored(plan: Plan, number: int, run: str, error: NotStored) -> str:
    """Return why the stored replies of an arm are not used. Raises SpecError for a stored run, which cannot be sent again."""
    arm = plan.arms[number]
    if arm.stored_run is not None:
        raise SpecError(
            f"--compare={arm.name} cannot be compared with: metrics changed since run {run}, and the new ones cannot be "
            f"computed from what is stored: {error}; measure the baseline again with --compare=ADAPTER"
        )
    return (
        f"{plan.nodeid.rpartition('::')[2]}: {arm.name}: stored replies of run {run} are not used, because the metrics that it "
        f"did not have cannot be computed from what is stored: {error}"
    )


def with_stored_runs(plan: Plan, store: Callable[[], RunStore]) -> Plan:
    """Return the plan with the ids of stored runs in its arms; `store` opens the run store, if an arm needs it.

    Raises SpecError if the experiment has changed since.
    """
    # Opened only for an arm that needs it: most sessions plan without a store.
    return replace(
        plan, arms=tuple(arm if arm.stored_run is None else _with_run(arm, plan, store()) for arm in plan.arms)
    )


def _with_run(arm: Arm, plan: Plan, store: RunStore) -> Arm:
    """Return the arm with the id of its stored run, and with the facts that the run recorded."""
    key, run, stored = store.stored_candidate(arm.stored_run or "", plan.nodeid)
    changed, why = differences(plan.fingerprint, stored.fingerprint), ""
    if changed == ["metrics"] and _has_metrics_of_calls(plan):
        from pytest_crucible.store.stored_units import load_stored_arm, missing_calls

        # Metrics of calls score stored replies, too, where their calls are known.
        rest = differences(*map(without_metrics_of_calls, (plan.fingerprint, stored.fingerprint)))
        why = "" if rest else missing_calls(store, load_stored_arm(store, key))
        changed = changed if why else rest
    changed += ["prompts"] if plan.prompts != stored.prompts else []
    if changed:
        raise SpecError(
            f"--compare={arm.name} cannot be compared with: {' and '.join(changed)} changed since run {run}"
            f"{why and f', and {why}'}; measure the baseline again with --compare=ADAPTER"
        )
    candidate = stored.candidate
    return replace(
        arm, stored_run=run, trainings=candidate.trainings, trained_on=candidate.trained_on, ancestry=candidate.ancestry
    )


def stored_units(stored: StoredExperiment) -> list[set[tuple[int, int]]]:
    """Return, by arm, the (position, place) of the units that are answered or lost, those of variants included."""
    plan = stored.plan
    return [
        done_units(answers)
        | {
            (position, plan.draws(number).size * twin + repeat)
            for twin, of_arms in enumerate(stored.variants.values(), start=1)
            for position, repeat in done_units(of_arms[number])
        }
        for number, answers in enumerate(stored.arms)
    ]


def done_units(answers: ArmOutcomes) -> set[tuple[int, int]]:
    """Return (position, repeat) of the units that an arm has answered or lost."""
    lost = {(loss.unit.position, loss.unit.repeat) for loss in answers.lost if loss.metric is None}
    return lost | set(zip(answers.positions, answers.repeats, strict=True))


def find_stored_replies(
    store: RunStore, settings: Settings, plan: Plan, number: int, variant: int, *, run: str
) -> tuple[int, str] | None:
    """Return key and run of the stored replies that an arm may use; None without any.

    A baseline may, unless --crucible-fresh; with --crucible-resume every arm may. The winner of a sweep has answered the samples
    that chose it.
    """
    arm, source = plan.arms[number], None
    twin = plan.draws(number).twin(variant)
    helper = ANSWERED_BY.of(plan)
    if run and not number and helper and not twin:
        source = find_member(store, run, helper, arm.name, variant)
    if source is not None:
        return source
    if arm.stored_run is not None and twin:
        return store.stored_twins(arm.stored_run, plan.nodeid, variant, plan.variants[twin - 1].sha256)
    if arm.stored_run is not None:
        source = store.stored_candidate(arm.stored_run, plan.nodeid, variant)[:2]
    elif settings.resume:
        source = _find_equal_arm(store, plan, number, variant, run=run, latest=True)
    if source is None and arm.role == "baseline" and not settings.calls_again:
        source = _find_equal_arm(store, plan, number, variant, run=run)
    return source


def _find_equal_arm(
    store: RunStore, plan: Plan, number: int, variant: int, *, run: str, latest: bool = False
) -> tuple[int, str] | None:
    """Return key and run of an arm with the same fingerprint, or one that differs in metrics of calls alone."""
    source = find_arm(store, arm_fingerprint(plan, number, variant), run=run, latest=latest)
    if source is not None or not _has_metrics_of_calls(plan):
        return source
    from pytest_crucible.store.stored_units import arms_of_test

    fingerprint = _fingerprint_without_calls(plan, number, variant)
    for arm in arms_of_test(store, plan.nodeid, plan.arms[number].name, variant, run=run, latest=latest):
        if _fingerprint_without_calls(arm.plan, arm.number, variant) == fingerprint and not was_reasoning_scored(
            store, arm.key
        ):
            return arm.key, arm.source or arm.run
    return None


def _has_metrics_of_calls(plan: Plan) -> bool:
    return any(facts.of_calls for facts in plan.metrics)


def _fingerprint_without_calls(plan: Plan, number: int, variant: int) -> str:
    return arm_fingerprint(replace(plan, fingerprint=without_metrics_of_calls(plan.fingerprint)), number, variant)


def reuse_lines(store: Callable[[], RunStore], settings: Settings, plan: Plan) -> Iterator[str]:
    """Yield a line on the stored replies that a plan may use, and that are requested again where the test sends other calls.

    `store` opens the run store, if an arm may have any.
    """
    counts = {
        arm.name: count_answers(store(), source[0])
        for number, arm in enumerate(plan.arms)
        if arm.stored_run is None and (settings.resume or (arm.role == "baseline" and not settings.calls_again))
        if (source := find_stored_replies(store(), settings, plan, number, 0, run="")) is not None
    }
    names = [name for name, count in counts.items() if count]
    if names:
        replies = quantity(sum(counts.values()), "stored reply")
        yield f"0 to {replies} of {' and '.join(names)} are requested again, if calls have changed"


def arm_fingerprint(plan: Plan, number: int, variant: int = 0) -> str:
    """Return the key of an arm's stored replies to one form of the prompt: a hash of everything that they depend on."""
    arm, parts = plan.arms[number], plan.fingerprint
    parts_of_key = [parts.dataset, parts.function, parts.metrics, parts.sampling, arm.identity, dict(arm.parameters)]
    parts_of_key += [parts.reasoning] if parts.reasoning else []
    twin = plan.draws(number).twin(variant)
    if plan.prompts:
        form = variant % len(plan.prompts)
        parts_of_key += [{"prompts": [prompt.sha256 for prompt in plan.prompts], "variant": form}]
    if twin:
        # Not a part of the samples' own key: a new variant leaves the replies to them in use.
        parts_of_key += [{"twins": plan.variants[twin - 1].sha256}]
    if arm.name in plan.arm_prompts:
        # The arm's identity has the name of a file only, whose text may change.
        parts_of_key += [{"prompt": plan.arm_prompts[arm.name]}]
    return hashlib.sha256(json.dumps(parts_of_key, sort_keys=True, default=repr).encode()).hexdigest()
