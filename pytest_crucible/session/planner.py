"""Plans experiments and joined tests from their markers: arms, dataset, metrics, targets and comparisons."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.adapters.context import files_folder
from pytest_crucible.adapters.coverage import coverage_warnings
from pytest_crucible.adapters.kinds import kind_of_arm
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends import KnowsItsSamples
from pytest_crucible.datasets import identify
from pytest_crucible.datasets.checks.check import CheckContext
from pytest_crucible.datasets.checks.run import drop_failing
from pytest_crucible.datasets.selection import selection_text
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.ensemble_members import ensemble_facts
from pytest_crucible.plan.contrasts import with_declared_relevance
from pytest_crucible.plan.design import (
    NO_VARIANTS,
    check_expected,
    contrasts_with_baselines,
    group_count,
    plan_metrics,
    plan_terms,
)
from pytest_crucible.plan.fingerprint import fingerprint
from pytest_crucible.plan.stages import parse_stages, stage_number
from pytest_crucible.plan.variant_terms import VariantNames
from pytest_crucible.plan.variants import check_members, plan_variants, sample_variants
from pytest_crucible.records import (
    Dataset,
    Exclusion,
    Fingerprint,
    Measure,
    MetricFacts,
    Plan,
    Reasoning,
    Sample,
    Variant,
)
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.attack_plans import AttackPlanner
from pytest_crucible.session.attack_runs import Subject
from pytest_crucible.session.data_checks import DataChecks
from pytest_crucible.session.declared_data import DeclaredDatasets, Selected, declared_metrics
from pytest_crucible.session.experiment import HAS_PROMPT_VARIABLE, Experiment, injected_names
from pytest_crucible.session.marks import (
    ExperimentMark,
    comparisons,
    data_checks,
    experiment_mark,
    scored_facts,
    targets,
)
from pytest_crucible.session.prompt_files import hash_prompt, read_prompts
from pytest_crucible.session.prompt_variables import check_joined_prompts, read_arm_prompts


class ExperimentPlanner:
    """Plans the experiments and joined tests of a session."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        opened_arms: tuple[OpenedArm, ...],
        checks: DataChecks | None = None,
    ) -> None:
        self._attacks = AttackPlanner(config, settings.seed, settings.attacks)
        self._config = config
        self._settings = settings
        self._opened_arms = opened_arms
        self._checks = checks or DataChecks()
        self._datasets = DeclaredDatasets(config, settings.seed)
        self._stages = () if settings.stages is None else parse_stages(settings.stages)

    def plan_experiment(self, item: pytest.Function, function: Callable[..., Any]) -> Experiment:
        """Return a marked item as an experiment. Raises SpecError for invalid markers or arguments."""
        mark, takes = experiment_mark(item), inspect.signature(function).parameters
        _check_return(function)
        prompts, texts = read_prompts(item, function, mark.prompts)
        self._check_adapter("sampler" in takes)
        arms = self._arms_to_query(item)
        arm_prompts = read_arm_prompts(item, function, mark.prompts, arms)
        _check_fixtures(item, mark.prompts or arm_prompts)
        item.stash[HAS_PROMPT_VARIABLE] = bool(arm_prompts)
        selected, dataset, checked = self.check_data(item, mark)
        # A test that scores itself may return nothing that these could score.
        of_kinds = _metrics_of_kinds(arms, dataset.samples) if "sampler" in takes else ()
        declared = declared_metrics(self._config, mark.metrics)
        metrics = (
            *declared,
            *(metric for metric in of_kinds if metric.name not in {metric.name for metric in declared}),
        )
        _check_samples(metrics, dataset.samples)
        if of_kinds:
            _check_guard_classes(item, dataset.samples)
        facts = [metric.facts for metric in metrics] + self._read_scored_facts(item, "score" in takes)
        own = sample_variants(dataset.samples)
        attacks = self._attacks.plan(_attack_subject(item, takes, dataset.samples, metrics, own))
        check_members([variant.name for variant in own], [arm.arm for arm in arms])
        check_members(attacks.names.groups, [arm.arm for arm in arms], "an attack")
        variants = (*own, *attacks.variants)
        timeout_s = (self._settings.timeout if mark.timeout is None else float(mark.timeout)) or None
        plan = _plan(
            item,
            arms,
            dataset,
            declared=facts,
            further=ensemble_facts(facts, dict.fromkeys(name for arm in arms for name in arm.arm.members)),
            variants=plan_variants(variants, dataset.samples),
            names=attacks.names,
            robustness=attacks.robustness,
            selected=len(dataset.samples),
            repeats=mark.epochs * self._settings.rounds,
            rounds=self._settings.rounds,
            prompts=prompts,
            arm_prompts={name: hash_prompt(text) for name, text in arm_prompts.items()},
            fixed=mark.fixed,
            purpose=mark.purpose,
            fingerprint=_fingerprint(item, function, dataset, metrics, timeout_s, self._settings.reasoning),
            open_metrics="score" in takes,
            origin=self._datasets.origins.get(dataset.name),
            selection=selected.selection if selection_text(selected.selection) else None,
            stages=self._stages,
            first_stage=self._find_first_stage(mark),
            exclusions=(*_threshold_exclusions(arms, dataset.samples), *_exclude_fitted(metrics)),
            checks=checked,
        )
        self._check_memory(plan)
        if variants and "sampler" in takes:
            _check_models(arms, "attacked replies" if attacks.variants else "replies to variants of the samples")
        warnings = tuple(coverage_warnings(arms, selected.all_ids, dataset)) if "sampler" in takes else ()
        warnings += tuple(result.sentence for result in checked if result.state == "warned")
        is_async = inspect.iscoroutinefunction(function)
        reasoning = self._settings.reasoning
        return Experiment(
            function,
            plan,
            dataset,
            metrics,
            arms,
            timeout_s,
            is_async,
            warnings,
            reasoning,
            texts,
            arm_prompts,
            variants,
            attacks.metrics,
            attacks.late_variants,
            attacks.arguments,
        )

    def check_data(
        self, item: pytest.Function, mark: ExperimentMark
    ) -> tuple[Selected, Dataset, tuple[CheckResult, ...]]:
        """Return the samples that a marker selects, as a dataset, and the results of its data checks."""
        checks, selected = data_checks(item), self._datasets.select(item, mark)
        name = _dataset_name(item, mark.dataset)
        if not checks or not self.runs_checks:
            return selected, identify(name, selected.samples), ()
        context = self._check_context(item)
        kept, dropped = drop_failing(selected.samples, [check for check in checks if check.drops], context)
        dataset = identify(name, kept)
        others = [check for check in checks if not check.drops]
        return selected, dataset, self._checks.run(item.nodeid, others, dataset, context, before=dropped)

    def _check_context(self, item: pytest.Function) -> CheckContext:
        """Return where a test's checks find files: beside it, and earlier comparisons beside the run store."""
        cache = files_folder(self._config.rootpath, self._settings.store) / "contamination"
        return CheckContext(folder=item.path.parent, cache=cache)

    @property
    def runs_checks(self) -> bool:
        """True if the session runs data checks: not where it sends nothing, nor for --crucible-sample."""
        settings = self._settings
        is_dry = settings.estimate or settings.sample is not None or self._config.option.collectonly
        return settings.checks != "off" and not is_dry

    def plan_joined_test(
        self, nodeid: str, items: Sequence[pytest.Function], sample_ids: Sequence[str], selected: int
    ) -> Plan:
        """Return the plan of an ordinary parametrised test whose items are the samples."""
        item = items[0]
        if self._settings.rounds > 1:
            raise SpecError(
                f"--crucible-rounds={self._settings.rounds} repeats marked experiments, and this test joins with its items, "
                "which pytest runs once: deselect it, or leave the option out"
            )
        arms = self._arms_to_query(item)
        check_joined_prompts(arms)
        trained = next((arm.arm for arm in arms if arm.arm.trainings), None)
        if trained is not None:
            raise SpecError(
                f"adapter {trained.name!r} has seeds, so each sample is answered by several models, and this test joins with "
                f"its items, which pytest runs once: name one of them, such as local:{trained.trainings[0].name}"
            )
        dataset = identify(item.originalname, [Sample(id=name, input=name) for name in sample_ids])
        return _plan(
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
        # With `-o crucible_stages=` all samples are sent at once, and where an experiment would begin does not matter.
        if mark.stage is None or not self._stages:
            return 0
        return stage_number(self._stages, mark.stage, f"@pytest.mark.crucible(stage={mark.stage!r})")

    def _check_memory(self, plan: Plan) -> None:
        """Raise SpecError for pooled sessions beside factors: their replies are repeats of one model and one prompt."""
        if self._settings.memory != "pool":
            return
        if plan.prompts:
            raise SpecError(
                'crucible_memory = "pool" combines replies to one prompt, so prompts= cannot be used: leave one of them out'
            )
        if plan.variant_terms:
            raise SpecError(
                'crucible_memory = "pool" combines replies to the samples as they are, and '
                f"{plan.variant_terms[0].facts.name!r} is about a variant of them: leave one of them out"
            )
        if any(arm.trainings for arm in plan.arms):
            raise SpecError('crucible_memory = "pool" takes the replies of one model together: leave it out, or seeds')
        if plan.random_factors:
            factors = " and ".join(plan.random_factors)
            raise SpecError(
                'crucible_memory = "pool" treats the replies of all sessions as repeats, '
                f"so intervals would not count the noise of {factors}: "
                f"leave out the setting, or declare fixed={list(plan.random_factors)}"
            )

    def _read_scored_facts(self, item: pytest.Function, takes_score: bool) -> list[MetricFacts]:
        scored = scored_facts(item)
        if scored and not takes_score:
            raise SpecError(
                f"@pytest.mark.score_bounds is about numbers that a test scores itself, and {item.originalname} does not take "
                "the argument score: add it, or give the bounds to the metric, as in @metric(bounds=(0, 1))"
            )
        return list(scored)

    def _check_adapter(self, takes_sampler: bool) -> None:
        if takes_sampler and self._opened_arms[0].backend is None:
            raise SpecError(
                "no adapter to evaluate: give --crucible-adapter=NAME, or set crucible_adapter in pytest's configuration"
            )


def _plan(
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
    quality_targets, contrasts = targets(item), with_declared_relevance(comparisons(item), declared)
    metrics = plan_metrics(
        declared, quality_targets, contrasts, open_metrics=open_metrics, further=further, variants=names
    )
    judged = [name for measure in (*quality_targets, *contrasts) for name in measure.metrics]
    check_expected(quality_targets, contrasts, dataset.samples)
    arm_records = tuple(arm.arm for arm in arms)
    return Plan(
        **{**_location(item), **facts},
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


def _threshold_exclusions(arms: Sequence[OpenedArm], samples: Sequence[Sample]) -> tuple[Exclusion, ...]:
    """Return the samples whose texts chose the threshold of a guard: on them it looks better than it is."""
    chosen = [threshold for arm in arms for threshold in arm.chosen_by]
    if not chosen:
        return ()
    from pytest_crucible.adapters.guard import input_text
    from pytest_crucible.guards.thresholds import find_used

    texts = [(sample.id, input_text(sample.input)) for sample in samples]
    used = [(f"chose the threshold of {threshold.guard}", find_used(threshold, texts)) for threshold in chosen]
    return tuple(Exclusion(reason=reason, sample_ids=ids) for reason, ids in dict(used).items() if ids)


def _metrics_of_kinds(arms: Sequence[OpenedArm], samples: Sequence[Sample]) -> tuple[Metric, ...]:
    """Return the metrics that the arms' kinds of adapter bring along, each once."""
    return tuple(
        {metric.name: metric for arm in arms for metric in kind_of_arm(arm.arm).find_metrics(samples)}.values()
    )


def _check_guard_classes(item: pytest.Function, samples: Sequence[Sample]) -> None:
    from pytest_crucible.metrics.guards import check_classes

    measures: list[tuple[str, Measure]] = [(repr(target.text), target) for target in targets(item)]
    measures += [(f"ab_compare({contrast.expression!r})", contrast) for contrast in comparisons(item)]
    check_classes(measures, samples)


def _check_samples(metrics: Sequence[Metric], samples: Sequence[Sample]) -> None:
    """Raise SpecError for a metric that cannot score these samples."""
    problem = next(filter(None, (metric.check(samples) for metric in metrics if metric.check is not None)), "")
    if problem:
        raise SpecError(problem)


def _exclude_fitted(metrics: Sequence[Metric]) -> tuple[Exclusion, ...]:
    """Return the samples that a metric was fitted on as those without which each verdict is decided again."""
    sample_ids = tuple(dict.fromkeys(name for metric in metrics for name in metric.fitted_on))
    return (Exclusion(reason="the thresholds were fitted on", sample_ids=sample_ids),) if sample_ids else ()


def _fingerprint(
    item: pytest.Function,
    function: Callable[..., Any],
    dataset: Dataset,
    metrics: Sequence[Metric],
    timeout_s: float | None,
    reasoning: Reasoning,
) -> Fingerprint:
    return fingerprint(
        dataset=dataset.sha256,
        function=function,
        case=item.callspec.id if hasattr(item, "callspec") else "",
        metrics=metrics,
        sampling={"timeout_s": timeout_s},
        owner=item.cls,
        reasoning=reasoning,
    )


def _location(item: pytest.Function) -> dict[str, Any]:
    path, line, _ = item.location
    return {"nodeid": item.nodeid, "path": path, "line": line or 0}


def _dataset_name(item: pytest.Item, dataset: Any) -> str:
    return str(dataset) if isinstance(dataset, str | Path) else item.name


def _attack_subject(
    item: pytest.Item,
    takes: Collection[str],
    samples: Sequence[Sample],
    metrics: Sequence[Metric],
    own: Sequence[Variant],
) -> Subject:
    return Subject(
        item=item,
        takes=frozenset(takes),
        samples=samples,
        metrics=metrics,
        judged=[name for measure in (*targets(item), *comparisons(item)) for name in measure.metrics],
        own=[variant.name for variant in own],
    )


def _check_models(arms: Sequence[OpenedArm], what: str) -> None:
    """Raise SpecError for recorded replies, which are those to the samples as they are."""
    if any(isinstance(arm.backend, KnowsItsSamples) for arm in arms):
        raise SpecError(f"recorded answers have no {what}: use a model")


def _check_return(function: Callable[..., Any]) -> None:
    """Raise SpecError for a generator function: its call runs nothing, and the generator would be scored as a reply."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SpecError(f"{function.__name__} has a yield: an experiment's function returns its reply; write return")


def _check_fixtures(item: pytest.Function, prompts: Collection[str]) -> None:
    """Raise SpecError for a fixture named like an injected argument, which would hide it silently."""
    for name in injected_names(prompts):
        definitions = item._fixtureinfo.name2fixturedefs.get(name, ())
        if definitions and definitions[-1].func.__module__ != "pytest_crucible.fixtures":
            raise SpecError(
                f"{name!r} is a fixture of {definitions[-1].func.__module__}, but inside an experiment it is what "
                "pytest-crucible injects: rename the fixture"
            )
