"""Plans experiments and joined tests from their markers: arms, dataset, metrics, targets and comparisons."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from pytest_crucible.adapters.coverage import coverage_warnings
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.datasets import identify
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.ensemble_members import ensemble_facts
from pytest_crucible.plan.fingerprint import fingerprint
from pytest_crucible.plan.stages import parse_stages, stage_number
from pytest_crucible.plan.variants import check_members, plan_variants, sample_variants
from pytest_crucible.records import Plan, PromptForm, Sample, Variant
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.attack_plans import AttackPlan, AttackPlanner
from pytest_crucible.session.attack_runs import Subject
from pytest_crucible.session.checked_data import CheckedData, CheckedDatasets
from pytest_crucible.session.exclusions import find_exclusions
from pytest_crucible.session.experiment import HAS_PROMPT_VARIABLE, Experiment
from pytest_crucible.session.experiment_checks import (
    check_adapter,
    check_fixtures,
    check_models,
    check_pooling,
    check_return,
)
from pytest_crucible.session.experiment_metrics import ExperimentMetrics, find_metrics
from pytest_crucible.session.item_plan import fingerprint_of, make_plan
from pytest_crucible.session.marks import ExperimentMark, comparisons, experiment_mark, scored_facts, targets
from pytest_crucible.session.prompt_files import hash_prompt, read_prompts
from pytest_crucible.session.prompt_variables import check_joined_prompts, read_arm_prompts


class PromptTexts(NamedTuple):
    """The prompts that an experiment declares, and those of its adapters, which exclude each other."""

    forms: tuple[PromptForm, ...]
    texts: tuple[str, ...]
    arm_texts: Mapping[str, str]
    """By the name of the arm."""


@dataclass(frozen=True)
class Declarations:
    """Markers, arguments, prompts and samples of a marked item, with everything that they name."""

    item: pytest.Function
    function: Callable[..., Any]
    mark: ExperimentMark
    takes: Collection[str]
    """The arguments of the function."""
    arms: tuple[OpenedArm, ...]
    prompts: PromptTexts
    data: CheckedData
    scored: ExperimentMetrics
    own_variants: tuple[Variant, ...]
    attacks: AttackPlan
    timeout_s: float | None

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Twins are numbered from 1: those of the samples come before those of attacks."""
        return (*self.own_variants, *self.attacks.variants)


class ExperimentPlanner:
    """Plans the experiments and joined tests of a session."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        opened_arms: tuple[OpenedArm, ...],
        data: CheckedDatasets,
    ) -> None:
        self._attacks = AttackPlanner(config, settings.seed, settings.attacks)
        self._settings = settings
        self._opened_arms = opened_arms
        self._data = data
        self._stages = () if settings.stages is None else parse_stages(settings.stages)

    def plan_experiment(self, item: pytest.Function, function: Callable[..., Any]) -> Experiment:
        """Return a marked item as an experiment. Raises SpecError for invalid markers or arguments."""
        check_return(function)
        declared = self._read_declarations(item, function)
        plan = self._make_plan(declared)
        if self._settings.memory == "pool":
            check_pooling(plan)
        arms, attacks, uses_sampler = declared.arms, declared.attacks, "sampler" in declared.takes
        if declared.variants and uses_sampler:
            check_models(arms, "attacked replies" if attacks.variants else "replies to variants of the samples")
        return Experiment(
            function=function,
            plan=plan,
            dataset=declared.data.dataset,
            metrics=declared.scored.metrics,
            opened_arms=arms,
            timeout_s=declared.timeout_s,
            is_async=inspect.iscoroutinefunction(function),
            warnings=_list_warnings(arms if uses_sampler else (), declared.data),
            reasoning=self._settings.reasoning,
            prompts=declared.prompts.texts,
            arm_prompts=declared.prompts.arm_texts,
            variants=declared.variants,
            variant_metrics=attacks.metrics,
            late_variants=attacks.late_variants,
            arguments=attacks.arguments,
        )

    def _read_declarations(self, item: pytest.Function, function: Callable[..., Any]) -> Declarations:
        """Return the declarations of a marked item, checked against each other."""
        mark, takes = experiment_mark(item), inspect.signature(function).parameters
        if "sampler" in takes:
            check_adapter(self._opened_arms)
        arms = self._arms_to_query(item)
        prompts = _read_prompts(item, function, mark, arms)
        data = self._data.check_data(item, mark)
        scored = find_metrics(item, mark, arms, data.dataset.samples, takes)
        own = sample_variants(data.dataset.samples)
        return Declarations(
            item=item,
            function=function,
            mark=mark,
            takes=takes,
            arms=arms,
            prompts=prompts,
            data=data,
            scored=scored,
            own_variants=own,
            attacks=self._plan_attacks(item, takes, arms, data.dataset.samples, scored.metrics, own),
            timeout_s=(self._settings.timeout if mark.timeout is None else float(mark.timeout)) or None,
        )

    def _make_plan(self, declared: Declarations) -> Plan:
        mark, arms, dataset, scored = declared.mark, declared.arms, declared.data.dataset, declared.scored
        return make_plan(
            declared.item,
            arms,
            dataset,
            declared=scored.facts,
            further=ensemble_facts(scored.facts, dict.fromkeys(name for arm in arms for name in arm.arm.members)),
            names=declared.attacks.names,
            open_metrics="score" in declared.takes,
            variants=plan_variants(declared.variants, dataset.samples),
            robustness=declared.attacks.robustness,
            prompts=declared.prompts.forms,
            arm_prompts={name: hash_prompt(text) for name, text in declared.prompts.arm_texts.items()},
            fixed=mark.fixed,
            purpose=mark.purpose,
            fingerprint=fingerprint_of(
                declared.item,
                declared.function,
                dataset,
                scored.metrics,
                declared.timeout_s,
                self._settings.reasoning,
            ),
            exclusions=find_exclusions(arms, scored.metrics, dataset.samples),
            **self._data.samples_facts(declared.data),
            **self._repeats_facts(mark),
        )

    def _plan_attacks(
        self,
        item: pytest.Function,
        takes: Collection[str],
        arms: Sequence[OpenedArm],
        samples: Sequence[Sample],
        metrics: Sequence[Metric],
        own: Sequence[Variant],
    ) -> AttackPlan:
        """Return the attacks of an experiment whose samples may have variants of their own."""
        names = [variant.name for variant in own]
        subject = Subject(
            item=item,
            takes=frozenset(takes),
            samples=samples,
            metrics=metrics,
            judged=[name for measure in (*targets(item), *comparisons(item)) for name in measure.metrics],
            own=names,
        )
        attacks = self._attacks.plan(subject)
        check_members(names, [arm.arm for arm in arms])
        check_members(attacks.names.groups, [arm.arm for arm in arms], "an attack")
        return attacks

    def _repeats_facts(self, mark: ExperimentMark) -> dict[str, Any]:
        """Return the fields of a plan about repeats and stages."""
        rounds = self._settings.rounds
        return {
            "repeats": mark.epochs * rounds,
            "rounds": rounds,
            "stages": self._stages,
            "first_stage": self._find_first_stage(mark),
        }

    def plan_joined_test(
        self, nodeid: str, items: Sequence[pytest.Function], sample_ids: Sequence[str], selected: int
    ) -> Plan:
        """Return the plan of an ordinary parametrised test whose items are the samples."""
        item = items[0]
        if self._settings.rounds > 1:
            raise SpecError(
                f"--crucible-rounds={self._settings.rounds} repeats marked experiments only, and pytest runs "
                "each item of this joined test once: deselect it, or leave the option out"
            )
        arms = self._arms_to_query(item)
        check_joined_prompts(arms)
        trained = next((arm.arm for arm in arms if arm.arm.trainings), None)
        if trained is not None:
            raise SpecError(
                f"adapter {trained.name!r} has seeds, so each sample is answered by several models, and pytest runs each "
                f"item of this joined test once: name one of the models, such as local:{trained.trainings[0].name}"
            )
        dataset = identify(item.originalname, [Sample(id=name, input=name) for name in sample_ids])
        return make_plan(
            item,
            arms,
            dataset,
            nodeid=nodeid,
            selected=selected,
            repeats=1,
            declared=scored_facts(item),
            fingerprint=fingerprint(dataset=dataset.sha256, function=item.function, case="", metrics=(), sampling={}),
            open_metrics=True,
            by_item=True,
        )

    def _arms_to_query(self, item: pytest.Item) -> tuple[OpenedArm, ...]:
        """Return the arms to query: the baselines only if the test compares something."""
        return self._opened_arms if comparisons(item) else self._opened_arms[:1]

    def _find_first_stage(self, mark: ExperimentMark) -> int:
        # With `-o crucible_stages=` all samples are sent at once, and the first stage of an experiment does not matter.
        if mark.stage is None or not self._stages:
            return 0
        return stage_number(self._stages, mark.stage, f"@pytest.mark.crucible(stage={mark.stage!r})")


def _read_prompts(
    item: pytest.Function, function: Callable[..., Any], mark: ExperimentMark, arms: Sequence[OpenedArm]
) -> PromptTexts:
    """Return the prompts, and note at the item whether its `prompt` is a variable of the adapters."""
    forms, texts = read_prompts(item, function, mark.prompts)
    arm_texts = read_arm_prompts(item, function, mark.prompts, arms)
    check_fixtures(item, mark.prompts or arm_texts)
    item.stash[HAS_PROMPT_VARIABLE] = bool(arm_texts)
    return PromptTexts(forms, texts, arm_texts)


def _list_warnings(arms: Sequence[OpenedArm], data: CheckedData) -> tuple[str, ...]:
    """Return the warnings about recorded replies of the arms, and those of data checks."""
    coverage = coverage_warnings(arms, data.selected.all_ids, data.dataset) if arms else ()
    return (*coverage, *(result.sentence for result in data.results if result.state == "warned"))
