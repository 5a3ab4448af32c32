"""Plans the attacks of an experiment: its variants, the metrics that only these have, and the arguments that differ."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pytest

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.builtin import merge_offers
from pytest_crucible.features.robustness.attack_runs import (
    CANARY,
    PERTURB,
    SEARCHING,
    AttackRun,
    Subject,
    attacked_variants,
    control_names,
    find_metric,
    late_variant,
    list_runs,
    same_samples,
    variant_groups,
)
from pytest_crucible.features.robustness.injections import Perturbations, injection_metrics
from pytest_crucible.features.robustness.late_variants import Certifying
from pytest_crucible.features.robustness.marks import RobustnessMark, read_kept, robustness_marks
from pytest_crucible.features.robustness.records import ALIASES, CERTIFIED, LEAKED, ROBUSTNESS, SMOOTHED, Robustness
from pytest_crucible.features.robustness.registry import SEARCH, Attacks
from pytest_crucible.features.robustness.twins import Draw, secret
from pytest_crucible.metrics import Metric
from pytest_crucible.plan.variant_terms import VariantNames
from pytest_crucible.plan.variants import SAME_ANSWER_FACTS, check_members
from pytest_crucible.records import MetricFacts, Sample, Unit, Variant
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.variants import SAME_ANSWER
from pytest_crucible.session.experiment import Experiment, ExperimentDraft, LateVariant

HINTS = {LEAKED: "it needs a secret: give the test function the argument canary, and put it into the prompt"}
CERTIFIED_FACTS = MetricFacts(name=CERTIFIED, kind="unbounded", low=-1.0, version="1")
NO_MODEL = '[scorers] has no paraphraser: add paraphraser = { adapter = "NAME" }'
NONE = "--crucible-attacks=none runs no attacks"
Argument = Callable[[int, Sample], Any]
"""Returns the value of an argument, by the number of the twin (0: the original sample) and the sample."""


@dataclass(frozen=True, kw_only=True)
class AttackPlan:
    """The attacks of one experiment."""

    variants: tuple[Variant, ...] = ()
    names: VariantNames = field(default_factory=VariantNames)
    robustness: Robustness | None = None
    metrics: tuple[Metric, ...] = ()
    """Applied only to replies to twins."""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    """Further arguments of the test function, by name."""
    late_variants: Mapping[int, LateVariant] = field(default_factory=dict)
    """Those whose texts are made while the experiment runs, by the number of their twins."""


class AttackPlanner:
    """Plans the attacks of a session's experiments."""

    def __init__(self, config: pytest.Config, seed: int, added: str | None) -> None:
        """`added` are the attacks of the command line."""
        self._config, self._seed, self._added = config, seed, added

    @cached_property
    def attacks(self) -> Attacks:
        """All attacks that a marker may name. Raises SpecError for an invalid configuration."""
        config = self._config
        offered = merge_offers(config.hook.pytest_crucible_attacks(config=config), "attack")
        return Attacks(read_table(config.rootpath, "attacks"), offered, config.rootpath)

    def plan(self, subject: Subject) -> AttackPlan:
        """Return the attacks on the samples. Raises SpecError."""
        marks = robustness_marks(subject.item, self._added)
        every = frozenset((*self.attacks.names, SEARCH))
        if not marks:
            return AttackPlan(names=_declarable(subject.names, every), arguments=self._arguments(subject, {}))
        runs = list_runs(marks, subject, self.attacks, self._seed)
        not_run = self._not_run(runs)
        active = [run for run in runs if run.label not in not_run]
        certifying = self._certifying(marks, subject)
        variants, controls = _list_variants(active, certifying, subject)
        groups, not_run = variant_groups(active, controls, not_run)
        # Twins are numbered from 1, those of the samples' own first.
        numbers = {variant.name: len(subject.own) + k for k, variant in enumerate(variants, start=1)}
        metrics = injection_metrics(self._seed, [run.attack for run in runs], CANARY in subject.injected)
        return AttackPlan(
            variants=tuple(variants),
            names=_declarable(
                replace(
                    subject.names,
                    variants=(*subject.own, *numbers),
                    groups=groups,
                    metrics=_own_facts(metrics, marks),
                    not_run=not_run,
                ),
                every,
            ),
            robustness=Robustness(
                attacks=tuple(run.planned for run in active),
                controls=len(controls),
                not_run=not_run,
                normalise=next((mark.normalise for mark in marks if mark.normalise != "text"), "text"),
                certificate_requests=certifying.smoothing.requests if certifying else 0,
                kept=read_kept(marks, subject.item, numbers),
            ),
            metrics=metrics,
            arguments=self._arguments(
                subject, {numbers[name]: draw for run in active for name, draw in run.named_draws}
            ),
            late_variants=_late_variants(active, certifying, numbers),
        )

    def _arguments(self, subject: Subject, draws: Mapping[int, Draw]) -> dict[str, Argument]:
        arguments: dict[str, Argument] = {
            CANARY: lambda twin, sample: secret(self._seed, sample.id),
            PERTURB: Perturbations(draws),
        }
        return {name: argument for name, argument in arguments.items() if name in subject.injected}

    def _certifying(self, marks: Sequence[RobustnessMark], subject: Subject) -> Certifying | None:
        certifying = [mark for mark in marks if mark.smoothing is not None]
        if not certifying or self._added == "none":
            return None
        if len(certifying) > 1:
            raise SpecError("certify= is in two @pytest.mark.robustness: keep one of them")
        mark, metric = certifying[0], find_metric(certifying[0], subject, "certify=")
        if metric.facts.kind not in (None, "binary"):
            raise SpecError(
                f"certify= needs a binary metric, and {metric.name!r} is {metric.facts.kind}: name one by metric="
            )
        assert mark.smoothing is not None
        draw = Draw(attack=SEARCHING, strength=0.0, number=0, seed=self._seed)
        return Certifying(mark.smoothing, metric, mark.normalise, draw)

    def _not_run(self, runs: Sequence[AttackRun]) -> dict[str, str]:
        """Return the attacks that are declared and not run, with the reason."""
        if self._added == "none":
            return dict.fromkeys((*(run.label for run in runs), SMOOTHED), NONE)
        return {run.label: NO_MODEL for run in runs if run.attack.needs_model and run.late is None}


def _list_variants(
    runs: Sequence[AttackRun], certifying: Certifying | None, subject: Subject
) -> tuple[list[Variant], tuple[str, ...]]:
    """Return all variants, and the names of the controls among them."""
    variants = list(attacked_variants(runs, subject))
    controls = control_names([variant.name for variant in variants], subject.judged)
    if certifying is not None:
        variants.append(late_variant(SMOOTHED, certifying.key, subject.samples))
    same = same_samples(subject.samples) if controls else {}
    return [*variants, *(Variant(name=name, twins=same, key=name) for name in controls)], controls


def _late_variants(
    runs: Sequence[AttackRun], certifying: Certifying | None, numbers: Mapping[str, int]
) -> dict[int, LateVariant]:
    late: dict[int, LateVariant] = {
        numbers[name]: run.late(draw) for run in runs if run.late is not None for name, draw in run.named_draws
    }
    return late if certifying is None else {**late, numbers[SMOOTHED]: certifying}


def _declarable(names: VariantNames, every: Container[str]) -> VariantNames:
    """Return the names that terms may use, with what a suite would have to declare for others."""
    return replace(names, not_declared=every, marker="@pytest.mark.robustness", aliases=ALIASES, hints=HINTS)


def _own_facts(metrics: Sequence[Metric], marks: Sequence[RobustnessMark]) -> dict[str, MetricFacts]:
    """Return the metrics that only variants have."""
    facts = {SAME_ANSWER: SAME_ANSWER_FACTS, **{metric.name: metric.facts for metric in metrics}}
    return facts | ({CERTIFIED: CERTIFIED_FACTS} if any(mark.certify for mark in marks) else {})


def _of_twin(argument: Argument, experiment: Experiment, unit: Unit, sample: Sample) -> Any:
    return argument(experiment.twin(unit), sample)


def plan_attacks(draft: ExperimentDraft) -> None:
    """Add the attacks of an experiment to its draft. Raises SpecError."""
    attacks = AttackPlanner(draft.config, draft.settings.seed, draft.settings.option("attacks")).plan(
        Subject(
            item=draft.item,
            takes=frozenset(draft.takes),
            samples=draft.samples,
            metrics=draft.scored.metrics,
            judged=draft.judged,
            names=draft.names,
        )
    )
    check_members(attacks.names.groups, [arm.arm for arm in draft.arms], "an attack")
    draft.variants += attacks.variants
    draft.names, draft.variant_metrics, draft.late_variants = attacks.names, attacks.metrics, attacks.late_variants
    draft.arguments |= {name: partial(_of_twin, argument) for name, argument in attacks.arguments.items()}
    draft.plan_value(ROBUSTNESS, attacks.robustness)
