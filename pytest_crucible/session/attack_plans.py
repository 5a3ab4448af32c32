"""Plans the attacks of an experiment: its variants, the metrics that only these have, and the arguments that differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

from pytest_crucible.adapters.config import read_table
from pytest_crucible.adversary.attack import Attack
from pytest_crucible.adversary.canaries import secret
from pytest_crucible.adversary.registry import SEARCH, Attacks
from pytest_crucible.adversary.twins import Draw, Limits, find_text
from pytest_crucible.builtin import merge_offers
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.models.protocol import SimilarityScorer
from pytest_crucible.metrics.models.registry import paraphraser, similarity_scorer
from pytest_crucible.plan.variant_terms import VariantNames
from pytest_crucible.records import (
    MetricFacts,
    NoTwin,
    PlannedAttack,
    Robustness,
    Sample,
    Twin,
    Variant,
    VariantGroup,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.robustness import CERTIFIED, CONTROL, SAME_ANSWER, SMOOTHED, WORST
from pytest_crucible.session.experiment import LateVariant
from pytest_crucible.session.injection_metrics import injection_metrics
from pytest_crucible.session.kept_labels import read_kept
from pytest_crucible.session.late_variants import Certifying, Rewriting, Searching
from pytest_crucible.session.perturbation import Perturbations
from pytest_crucible.session.robustness_marks import RobustnessMark, labels, robustness_marks

CANARY, PERTURB = "canary", "perturb"
"""Arguments of a test function: the sample's secret, and the function that attacks a text of the test's choice."""
SAME_ANSWER_FACTS = MetricFacts(name=SAME_ANSWER, kind="binary", low=0.0, high=1.0, version="1")
CERTIFIED_FACTS = MetricFacts(name=CERTIFIED, kind="unbounded", low=-1.0, version="1")
NO_MODEL = '[scorers] has no paraphraser: add paraphraser = { adapter = "NAME" }'
Argument = Callable[[int, Sample], Any]
"""Returns the value of an argument, by the number of the twin (0: the sample as it is) and the sample."""


@dataclass(frozen=True, kw_only=True)
class AttackPlan:
    """The attacks of one experiment."""

    variants: tuple[Variant, ...] = ()
    names: VariantNames = field(default_factory=VariantNames)
    robustness: Robustness | None = None
    metrics: tuple[Metric, ...] = ()
    """Applied to replies to twins alone."""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    """Further arguments of the test function, by name."""
    late_variants: Mapping[int, LateVariant] = field(default_factory=dict)
    """Those whose texts are made while the experiment runs, by the number of their twins."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is attacked: a test function, its samples and its metrics."""

    item: pytest.Item
    takes: frozenset[str]
    """The arguments of the function."""
    samples: Sequence[Sample]
    metrics: Sequence[Metric]
    judged: Sequence[str]
    """The terms of its targets and comparisons."""
    own: Sequence[str]
    """The names of the variants that the samples bring along."""

    @property
    def injected(self) -> frozenset[str]:
        """The arguments that the plan binds, unless the suite has a fixture of that name."""
        return frozenset(name for name in (CANARY, PERTURB) if name in self.takes and _is_ours(self.item, name))


@dataclass(frozen=True)
class _Run:
    """One attack at one strength: its name in brackets, and its draws; `late` makes the texts of a draw, if no rule does."""

    label: str
    attack: Attack
    strength: float
    draws: tuple[Draw, ...]
    late: Callable[[Draw], Rewriting | Searching] | None = None
    requests: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its variants, one a draw."""
        return tuple(_draw_name(self.label, draw.number) for draw in self.draws)


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
        canary = {CANARY: self._canary} if CANARY in subject.injected else {}
        shared = {SAME_ANSWER: SAME_ANSWER_FACTS}
        every = frozenset((*self.attacks.names, SEARCH))
        if not marks:
            identity = {PERTURB: Perturbations({})} if PERTURB in subject.injected else {}
            known = VariantNames(subject.own, metrics=shared if subject.own else {}, attacks=every)
            return AttackPlan(names=known, arguments={**canary, **identity})
        runs = [run for mark in marks for run in self._runs(mark, subject)]
        _check_runs(runs, subject)
        not_run = self._not_run(runs)
        active = [run for run in runs if run.label not in not_run]
        variants = list(_variants(active, subject))
        attacked = tuple(variant.name for variant in variants)
        late = {
            name: run.late(draw) for run in active if run.late for name, draw in zip(run.names, run.draws, strict=True)
        }
        certifying = self._certifying(marks, subject)
        if certifying is not None:
            late[SMOOTHED] = certifying
            variants.append(_late_variant(SMOOTHED, certifying.key, subject.samples))
        controls = _controls(attacked, subject.judged)
        variants += [Variant(name=name, twins=_unchanged(subject.samples), key=name) for name in controls]
        groups, not_run = _groups(active, attacked, controls, not_run)
        metrics = injection_metrics(self._seed, [run.attack for run in runs], CANARY in subject.injected)
        shared |= {metric.name: metric.facts for metric in metrics}
        if any(mark.certify for mark in marks):
            shared[CERTIFIED] = CERTIFIED_FACTS
        numbers = {variant.name: len(subject.own) + k for k, variant in enumerate(variants, start=1)}
        drawn = {numbers[name]: draw for run in active for name, draw in zip(run.names, run.draws, strict=True)}
        return AttackPlan(
            variants=tuple(variants),
            names=VariantNames((*subject.own, *(variant.name for variant in variants)), groups, shared, not_run, every),
            robustness=Robustness(
                attacks=tuple(map(_planned, active)),
                controls=len(controls),
                not_run=not_run,
                normalise=_normaliser(marks),
                certificate_requests=certifying.smoothing.requests if certifying else 0,
                kept=read_kept(marks, subject.item, numbers),
            ),
            metrics=metrics,
            arguments={**canary, **({PERTURB: Perturbations(drawn)} if PERTURB in subject.injected else {})},
            late_variants={numbers[name]: maker for name, maker in late.items()},
        )

    def _canary(self, twin: int, sample: Sample) -> str:
        return secret(self._seed, sample.id)

    def _runs(self, mark: RobustnessMark, subject: Subject) -> Iterator[_Run]:
        for name in mark.attacks:
            attack = _SEARCHING if name == SEARCH else self.attacks.get(name)
            for label, strength in labels(mark, name, has_strength=attack.has_strength):
                draws = tuple(self._draws(mark, attack, strength))
                yield _Run(label, attack, strength, draws, *_late(mark, attack, subject))

    def _draws(self, mark: RobustnessMark, attack: Attack, strength: float) -> Iterator[Draw]:
        similarity = open_similarity() if mark.min_similarity is not None else None
        limits = Limits(max_edit_share=mark.max_edit_share, min_similarity=mark.min_similarity, similarity=similarity)
        for number in range(mark.draws):
            yield Draw(
                attack=attack, strength=strength, number=number, seed=self._seed, protect=mark.protect, limits=limits
            )

    def _certifying(self, marks: Sequence[RobustnessMark], subject: Subject) -> Certifying | None:
        certifying = [mark for mark in marks if mark.smoothing is not None]
        if not certifying or self._added == "none":
            return None
        if len(certifying) > 1:
            raise SpecError("certify= is in two @pytest.mark.robustness: keep one of them")
        mark, metric = certifying[0], _metric(certifying[0], subject, "certify=")
        if metric.facts.kind not in (None, "binary"):
            raise SpecError(
                f"certify= needs a metric of yes and no, and {metric.name!r} is {metric.facts.kind}: name one by metric="
            )
        draw = Draw(attack=_SEARCHING, strength=0.0, number=0, seed=self._seed)
        assert mark.smoothing is not None
        return Certifying(mark.smoothing, metric, mark.normalise, draw)

    def _not_run(self, runs: Sequence[_Run]) -> dict[str, str]:
        """Return the attacks that are declared and not run, with the reason."""
        if self._added == "none":
            return dict.fromkeys((*(run.label for run in runs), SMOOTHED), "--crucible-attacks=none runs no attacks")
        return {run.label: NO_MODEL for run in runs if run.attack.needs_model and run.late is None}


# The search makes its texts itself.
_SEARCHING = Attack(
    name=SEARCH,
    kind="own",
    summary="searches the worst text, edit by edit",
    perturb=lambda source, rng, strength: NoTwin(""),
)


def _late(
    mark: RobustnessMark, attack: Attack, subject: Subject
) -> tuple[Callable[[Draw], Rewriting | Searching] | None, int]:
    """Return what makes an attack's texts while the experiment runs, and the most requests for one; None for one with rules."""
    if attack is _SEARCHING:
        metric = _metric(mark, subject, SEARCH)
        return lambda draw: Searching(metric, mark.queries, draw), mark.queries + 1
    model = paraphraser() if attack.needs_model else None
    return None if model is None else lambda draw: Rewriting(model, draw), 1


def _metric(mark: RobustnessMark, subject: Subject, what: str) -> Metric:
    """Return the metric that a mark names, or the first of the experiment. Raises SpecError without one."""
    named = {metric.name: metric for metric in subject.metrics}
    if mark.metric is None and named:
        return next(iter(named.values()))
    if mark.metric not in named:
        has = f"this experiment has {', '.join(named)}" if named else "write metrics=[...] in @pytest.mark.crucible"
        raise SpecError(f"{what} needs a metric, and metric={mark.metric!r} is none of the marker's: {has}")
    return named[mark.metric]


def _is_ours(item: pytest.Item, name: str) -> bool:
    """Return whether an argument is the plugin's, and not a fixture of the suite with the same name."""
    definitions = item._fixtureinfo.name2fixturedefs.get(name, ())  # type: ignore[attr-defined]  # a Function has it
    return bool(definitions) and definitions[-1].func.__module__ == "pytest_crucible.fixtures"


def open_similarity() -> Callable[[str, str], float]:
    """Return the similarity of two texts by the scorer of `[scorers]`. Raises SpecError without one."""
    scorer = similarity_scorer()
    if scorer is None:
        raise SpecError(
            'min_similarity needs a scorer of similarity: write [scorers] similarity = { kind = "minilm" } (extra semantic)'
        )
    return lambda one, other: float(asyncio.run(_similarity(scorer, one, other)))


async def _similarity(scorer: SimilarityScorer, one: str, other: str) -> float:
    return (await scorer.similarity([(one, other)]))[0]


def _check_runs(runs: Sequence[_Run], subject: Subject) -> None:
    """Raise SpecError for an attack that is declared twice, that lacks a secret, or that cannot attack the test's own text."""
    names = [run.label for run in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"attack {twice!r} is declared twice: name it in one @pytest.mark.robustness")
    asking = next((run.attack.name for run in runs if run.attack.asks_for == "secret"), None)
    if asking is not None and CANARY not in subject.injected:
        raise SpecError(
            f"{asking} asks for a secret, and the test has none: add the argument 'canary', and put it into the prompt"
        )
    late = next((run.label for run in runs if run.late is not None), None)
    if late is not None and PERTURB in subject.injected:
        raise SpecError(
            f"{late} rewrites the sample's input, and the test chooses its text by 'perturb': leave out one of them"
        )


def _planned(run: _Run) -> PlannedAttack:
    return PlannedAttack(
        name=run.label,
        attack=run.attack.name,
        kind=run.attack.kind,
        strength=run.strength if run.attack.has_strength else None,
        draws=len(run.draws),
        asks_for=run.attack.asks_for,
        requests=run.requests,
    )


def _draw_name(label: str, number: int) -> str:
    return label if not number else f"{label}, draw {number + 1}"


def _variants(runs: Sequence[_Run], subject: Subject) -> Iterator[Variant]:
    """Yield a variant for each draw. Where the test function attacks a text itself, twins have the sample's input."""
    samples, in_test = subject.samples, PERTURB in subject.injected
    ruled = [(name, draw) for run in runs if run.late is None for name, draw in zip(run.names, run.draws, strict=True)]
    # Sample by sample, because all attacks look at the same words.
    twins: dict[str, dict[str, Twin | NoTwin]] = {name: {} for name, _ in ruled}
    for sample in samples if not in_test else ():
        for name, draw in ruled:
            twins[name][sample.id] = draw.twin(sample)
    for run in runs:
        for name, draw in zip(run.names, run.draws, strict=True):
            if run.late is not None:
                yield _late_variant(name, run.late(draw).key, samples)
                continue
            of_variant = _unchanged(samples) if in_test else twins[name]
            if all(isinstance(twin, NoTwin) for twin in of_variant.values()):
                reason = next(twin.reason for twin in of_variant.values() if isinstance(twin, NoTwin))
                raise SpecError(
                    f"attack {run.label!r} can change none of {len(of_variant)} samples ({reason}): remove it"
                )
            yield Variant(name=name, twins=of_variant, key=draw.key)


def _late_variant(name: str, key: str, samples: Sequence[Sample]) -> Variant:
    missing = NoTwin("its input is no text, and no list of messages that ends with one of the user")
    twins = {sample.id: missing if find_text(sample.input) is None else Twin(input=sample.input) for sample in samples}
    return Variant(name=name, twins=twins, key=key)


def _unchanged(samples: Sequence[Sample]) -> dict[str, Twin | NoTwin]:
    return {sample.id: Twin(input=sample.input) for sample in samples}


def _controls(attacked: Sequence[str], judged: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the controls: one, or as many as attacked variants where the worst of these is judged."""
    count = len(attacked) if any(f"[{WORST}]" in name for name in judged) else min(len(attacked), 1)
    return tuple(_draw_name(CONTROL, number) for number in range(count))


def _groups(
    runs: Sequence[_Run], attacked: tuple[str, ...], controls: tuple[str, ...], not_run: Mapping[str, str]
) -> tuple[dict[str, VariantGroup], dict[str, str]]:
    """Return what brackets may name, and what is not run; without an attack that is also the control."""
    groups = {run.label: VariantGroup(name=run.label, variants=run.names) for run in runs}
    if not attacked:
        reason = next(iter(not_run.values()), "no attack is run")
        return groups, {**not_run, CONTROL: reason, WORST: reason}
    groups[CONTROL] = VariantGroup(name=CONTROL, variants=controls)
    groups[WORST] = VariantGroup(name=WORST, variants=attacked, is_worst=True)
    return groups, dict(not_run)


def _normaliser(marks: Sequence[RobustnessMark]) -> str:
    return next((mark.normalise for mark in marks if mark.normalise != "text"), "text")
