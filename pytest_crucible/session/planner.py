"""Plans experiments and joined tests from their markers: arms, dataset, metrics, targets and comparisons."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm, coverage_warnings
from pytest_crucible.datasets import identify
from pytest_crucible.datasets.equal_inputs import count_equal_inputs
from pytest_crucible.features import left_out_sentence
from pytest_crucible.measures.table import feature_of
from pytest_crucible.metrics import Metric
from pytest_crucible.plan.design import (
    NO_VARIANTS,
    check_expected,
    check_repeats,
    contrasts_with_baselines,
    group_count,
    plan_metrics,
    plan_terms,
)
from pytest_crucible.plan.fingerprint import fingerprint
from pytest_crucible.plan.targets import with_declarations, with_last_metrics
from pytest_crucible.plan.variants import VariantNames, check_members, own_names, plan_variants, sample_variants
from pytest_crucible.records import Dataset, Exclusion, Measure, MetricFacts, Plan, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.plan import EQUAL_INPUTS
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.experiment import INJECTED, Experiment, ExperimentDraft
from pytest_crucible.session.experiment_checks import (
    check_adapter,
    check_fixture,
    check_joined_prompts,
    check_known_numbers,
    check_models,
    check_pooling,
    check_return,
    check_variables,
)
from pytest_crucible.session.experiment_data import SessionDatasets, find_metrics
from pytest_crucible.session.markers import sends_requests
from pytest_crucible.session.marks import comparisons, experiment_mark, scored_facts, targets


class ExperimentPlanner:
    """Plans the experiments and joined tests of a session."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        opened_arms: tuple[OpenedArm, ...],
        data: SessionDatasets,
    ) -> None:
        self._settings = settings
        self._opened_arms = opened_arms
        self._data = data
        self._config = config

    def plan_experiment(self, item: pytest.Function, function: Callable[..., Any]) -> Experiment:
        """Return a marked item as an experiment. Raises SpecError for invalid markers or arguments."""
        check_return(function)
        draft = self._read_declarations(item, function)
        self._config.hook.pytest_crucible_plan(draft=draft)
        check_variables(draft.arms, draft.arguments)
        plan = self._make_plan(draft)
        if self._settings.memory == "pool":
            check_pooling(plan)
        arms, uses_sampler, data = draft.arms, sends_requests(draft.takes), draft.data
        if draft.all_variants and uses_sampler:
            check_models(arms, "attacked replies" if draft.variants else "replies to variants of the samples")
        coverage = coverage_warnings(arms if uses_sampler else (), data.selected.all_ids, data.dataset)
        return Experiment(
            function=function,
            plan=plan,
            dataset=data.dataset,
            metrics=draft.scored.metrics,
            opened_arms=arms,
            timeout_s=draft.timeout_s,
            is_async=inspect.iscoroutinefunction(function),
            warnings=(*coverage, *data.warnings),
            reasoning=self._settings.reasoning,
            variants=draft.all_variants,
            variant_metrics=draft.variant_metrics,
            late_variants=draft.late_variants,
            arguments=draft.arguments,
            further_scores=tuple(draft.further_scores),
            on_scored=tuple(draft.on_scored),
            functions=draft.functions,
        )

    def _read_declarations(self, item: pytest.Function, function: Callable[..., Any]) -> ExperimentDraft:
        """Return the declarations of a marked item, checked against each other."""
        mark, takes = experiment_mark(item), inspect.signature(function).parameters
        if sends_requests(takes):
            check_adapter(self._opened_arms)
        arms = self._arms_to_query(item)
        for name in INJECTED:
            check_fixture(item, name)
        data = self._data.select(item, mark)
        own_variants = sample_variants(data.dataset.samples)
        check_members([variant.name for variant in own_variants], [arm.arm for arm in arms])
        return ExperimentDraft(
            config=self._config,
            settings=self._settings,
            item=item,
            function=function,
            mark=mark,
            takes=takes,
            arms=arms,
            data=data,
            scored=find_metrics(item, mark, arms, data.dataset.samples, takes),
            own_variants=own_variants,
            names=own_names(own_variants),
            timeout_s=(self._settings.timeout if mark.timeout is None else float(mark.timeout)) or None,
        )

    def _make_plan(self, draft: ExperimentDraft) -> Plan:
        mark, arms, dataset, scored = draft.mark, draft.arms, draft.data.dataset, draft.scored
        return make_plan(
            draft.item,
            arms,
            dataset,
            declared=scored.facts,
            further=draft.facts,
            names=draft.names,
            open_metrics="score" in draft.takes,
            variants=plan_variants(draft.all_variants, dataset.samples),
            purpose=mark.purpose,
            arms_differ_in=mark.arms_differ_in,
            # Everything that the stored replies depend on but the arm.
            fingerprint=fingerprint(
                dataset=draft.data.rows_sha256,
                function=draft.function,
                case=draft.item.callspec.id if hasattr(draft.item, "callspec") else "",
                metrics=scored.metrics,
                sampling={"timeout_s": draft.timeout_s, **draft.sampling},
                owner=draft.item.cls,
                reasoning=self._settings.reasoning,
            ),
            exclusions=(*draft.exclusions, *_exclude_fitted(scored.metrics)),
            **self._data.samples_facts(draft.data),
            repeats=mark.epochs * self._rounds,
            rounds=self._rounds,
            **draft.fields,
            features=draft.data.values,
        )

    @property
    def _rounds(self) -> int:
        return self._settings.option("rounds") or 1

    def plan_joined_test(
        self, nodeid: str, items: Sequence[pytest.Function], sample_ids: Sequence[str], selected: int
    ) -> Plan:
        """Return the plan of an ordinary parametrised test whose items are the samples."""
        item = items[0]
        if self._rounds > 1:
            raise SpecError(
                f"--crucible-rounds={self._rounds} repeats marked experiments only, and pytest runs "
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


def _exclude_fitted(metrics: Sequence[Metric]) -> tuple[Exclusion, ...]:
    """Return the samples that a metric was fitted on as those without which each verdict is decided again."""
    sample_ids = tuple(dict.fromkeys(name for metric in metrics for name in metric.fitted_on))
    return (Exclusion(reason="the thresholds were fitted on", sample_ids=sample_ids),) if sample_ids else ()


def make_plan(
    item: pytest.Function,
    arms: Sequence[OpenedArm],
    dataset: Dataset,
    *,
    open_metrics: bool,
    declared: Sequence[MetricFacts] = (),
    further: Sequence[MetricFacts] = (),
    names: VariantNames = NO_VARIANTS,
    **facts: Any,
) -> Plan:
    """Return a plan with the item's targets and comparisons. Raises SpecError for those that cannot be computed."""
    quality_targets = with_last_metrics(targets(item), declared)
    contrasts = with_declarations(comparisons(item), declared)
    _check_statistics(item, (*quality_targets, *contrasts))
    metrics = plan_metrics(
        declared, quality_targets, contrasts, open_metrics=open_metrics, further=further, variants=names
    )
    if not open_metrics:
        check_known_numbers(item, quality_targets, metrics)
    judged = [name for measure in (*quality_targets, *contrasts) for name in measure.metrics]
    check_expected(quality_targets, contrasts, dataset.samples)
    check_repeats(quality_targets, contrasts, facts["repeats"] // facts.get("rounds", 1))
    arm_records = tuple(arm.arm for arm in arms)
    path, line, _ = item.location
    plan = Plan(
        **{"nodeid": item.nodeid, **facts},
        path=path,
        line=line or 0,
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        planned=len(dataset.samples),
        groups=group_count(dataset),
        arms=arm_records,
        metrics=metrics,
        targets=quality_targets,
        contrasts=contrasts_with_baselines(contrasts, arm_records, dataset.samples),
        open_metrics=open_metrics,
        variant_metrics=tuple(names.metrics.values()),
        not_run={name: names.reason_not_run(name) for name in judged if names.reason_not_run(name)},
        variant_terms=plan_terms(metrics, quality_targets, contrasts, names, open_metrics=open_metrics),
    )
    return EQUAL_INPUTS.on(plan, count_equal_inputs(dataset.samples))


def _check_statistics(item: pytest.Item, measures: Sequence[Measure]) -> None:
    """Raise SpecError for a measure whose statistic belongs to a feature that is left out."""
    for measure in measures:
        feature = feature_of(measure)
        if feature is not None and item.config.pluginmanager.is_blocked(feature.plugin_name):
            raise SpecError(left_out_sentence(measure.expression, feature))
