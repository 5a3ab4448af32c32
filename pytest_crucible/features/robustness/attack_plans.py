"""The runs of an experiment's attacks: each attack at one strength, with its draws and the maker of its texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.builtin import merge_offers
from pytest_crucible.features.robustness.edits import Attack
from pytest_crucible.features.robustness.late_variants import Certifying, Rewriting, Searching
from pytest_crucible.features.robustness.marks import RobustnessMark, labels, read_kept, robustness_marks
from pytest_crucible.features.robustness.records import (
    CONTROL,
    LEAKED,
    ROBUSTNESS,
    WORST,
    PlannedAttack,
    Robustness,
)
from pytest_crucible.features.robustness.registry import SEARCH, Attacks
from pytest_crucible.features.robustness.terms import ALIASES, CERTIFIED, SMOOTHED
from pytest_crucible.features.robustness.twins import Draw, Limits, Perturbations, find_text, injection_metrics, secret
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.models.scorers import SimilarityScorer, paraphraser, similarity_scorer
from pytest_crucible.plan.variants import SAME_ANSWER_FACTS, VariantNames, check_members
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, NoTwin, Sample, Twin, Variant, VariantGroup
from pytest_crucible.records.datasets import LATE, SAME_ANSWER
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.experiment import BoundArgument, ExperimentDraft, LateVariant
from pytest_crucible.signs import takes_fixture

CANARY, PERTURB = "canary", "perturb"
"""Arguments of a test function: the sample's secret, and the function that attacks a text of the test's choice."""


def injected_arguments(draft: ExperimentDraft) -> frozenset[str]:
    """Return the arguments that the plan binds, unless the suite has a fixture with this name."""
    return frozenset(name for name in (CANARY, PERTURB) if name in draft.takes and takes_fixture(draft.item, name))


@dataclass(frozen=True)
class AttackRun:
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
        return tuple(draw_name(self.label, draw.number) for draw in self.draws)

    @property
    def named_draws(self) -> tuple[tuple[str, Draw], ...]:
        """Its draws, each with the name of its variant."""
        return tuple(zip(self.names, self.draws, strict=True))

    @property
    def planned(self) -> PlannedAttack:
        """The attack in the plan of the experiment."""
        return PlannedAttack(
            name=self.label,
            attack=self.attack.name,
            kind=self.attack.kind,
            strength=self.strength if self.attack.has_strength else None,
            draws=len(self.draws),
            asks_for=self.attack.asks_for,
            requests=self.requests,
        )


# The search makes its texts itself.
SEARCHING = Attack(
    name=SEARCH,
    kind="own",
    summary="searches the worst text, edit by edit",
    perturb=lambda source, rng, strength: NoTwin(""),
)


def list_runs(marks: Sequence[RobustnessMark], draft: ExperimentDraft, attacks: Attacks) -> list[AttackRun]:
    """Return the runs of all marks. Raises SpecError for an unknown attack, and for one that the test cannot have."""
    runs = [run for mark in marks for run in _runs_of(mark, draft, attacks)]
    check_runs(runs, draft)
    return runs


def _runs_of(mark: RobustnessMark, draft: ExperimentDraft, attacks: Attacks) -> Iterator[AttackRun]:
    similarity = open_similarity() if mark.min_similarity is not None else None
    limits = Limits(max_edit_share=mark.max_edit_share, min_similarity=mark.min_similarity, similarity=similarity)
    for name in mark.attacks:
        attack = SEARCHING if name == SEARCH else attacks.get(name)
        for label, strength in labels(mark, name, has_strength=attack.has_strength):
            draws = tuple(
                Draw(
                    attack=attack,
                    strength=strength,
                    number=k,
                    seed=draft.settings.seed,
                    protect=mark.protect,
                    limits=limits,
                )
                for k in range(mark.draws)
            )
            yield AttackRun(label, attack, strength, draws, *_find_late(mark, attack, draft))


def _find_late(
    mark: RobustnessMark, attack: Attack, draft: ExperimentDraft
) -> tuple[Callable[[Draw], Rewriting | Searching] | None, int]:
    """Return the maker of an attack's texts while the experiment runs, and its most requests a text; None for rules."""
    if attack is SEARCHING:
        metric = find_metric(mark, draft, SEARCH)
        return lambda draw: Searching(metric, mark.queries, draw), mark.queries + 1
    model = paraphraser() if attack.needs_model else None
    return None if model is None else lambda draw: Rewriting(model, draw), 1


def find_metric(mark: RobustnessMark, draft: ExperimentDraft, what: str) -> Metric:
    """Return the metric that a mark names, or the first of the experiment. Raises SpecError without one."""
    named = {metric.name: metric for metric in draft.scored.metrics}
    if mark.metric is None and named:
        return next(iter(named.values()))
    if mark.metric not in named:
        has = f"this experiment has {', '.join(named)}" if named else "write metrics=[...] in @pytest.mark.crucible"
        raise SpecError(f"{what} needs a metric, and metric={mark.metric!r} is not among the marker's: {has}")
    return named[mark.metric]


def open_similarity() -> Callable[[str, str], float]:
    """Return the similarity of two texts by the scorer of `[scorers]`. Raises SpecError without one."""
    scorer = similarity_scorer()
    if scorer is None:
        raise SpecError(
            'min_similarity needs a scorer of similarity: write [scorers] similarity = { kind = "minilm" } (extra semantic)'
        )
    return lambda first, other: float(asyncio.run(_similarity(scorer, first, other)))


async def _similarity(scorer: SimilarityScorer, first: str, other: str) -> float:
    return (await scorer.similarity([(first, other)]))[0]


def check_runs(runs: Sequence[AttackRun], draft: ExperimentDraft) -> None:
    """Raise SpecError for an attack that is declared twice, that lacks a secret, or that cannot attack the test's own text."""
    names = [run.label for run in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"attack {twice!r} is declared twice: name it in one @pytest.mark.robustness")
    asking = next((run.attack.name for run in runs if run.attack.asks_for == "secret"), None)
    if asking is not None and CANARY not in injected_arguments(draft):
        raise SpecError(
            f"{asking} asks for a secret, and the test has none: add the argument 'canary', and put it into the prompt"
        )
    late = next((run.label for run in runs if run.late is not None), None)
    if late is not None and PERTURB in injected_arguments(draft):
        raise SpecError(
            f"{late} rewrites the sample's input, and the test chooses its text by 'perturb': leave out one of them"
        )


def draw_name(label: str, number: int) -> str:
    return label if not number else f"{label}, draw {number + 1}"


def attacked_variants(runs: Sequence[AttackRun], draft: ExperimentDraft) -> Iterator[Variant]:
    """Yield a variant for each draw. Where the test function attacks a text itself, twins have the sample's input."""
    samples, in_test = draft.samples, PERTURB in injected_arguments(draft)
    ruled = [(name, draw) for run in runs if run.late is None for name, draw in run.named_draws]
    # Sample by sample, because all attacks look at the same words.
    twins: dict[str, dict[str, Twin | NoTwin]] = {name: {} for name, _ in ruled}
    for sample in samples if not in_test else ():
        for name, draw in ruled:
            twins[name][sample.id] = draw.twin(sample)
    for run in runs:
        for name, draw in run.named_draws:
            if run.late is not None:
                yield late_variant(name, run.late(draw).key, samples)
                continue
            of_variant = same_samples(samples) if in_test else twins[name]
            if all(isinstance(twin, NoTwin) for twin in of_variant.values()):
                reason = next(twin.reason for twin in of_variant.values() if isinstance(twin, NoTwin))
                raise SpecError(
                    f"attack {run.label!r} can change none of {len(of_variant)} samples ({reason}): remove it"
                )
            yield Variant(name=name, twins=of_variant, key=draw.key)


def late_variant(name: str, key: str, samples: Sequence[Sample]) -> Variant:
    """Return a variant whose texts are made while the experiment runs."""
    missing = NoTwin("its input is neither a text nor a list of messages with one of the user")
    twins = {
        sample.id: missing if find_text(sample.input) is None else Twin(input=sample.input, facts={LATE: True})
        for sample in samples
    }
    return Variant(name=name, twins=twins, key=key)


def same_samples(samples: Sequence[Sample]) -> dict[str, Twin | NoTwin]:
    """Return twins equal to their samples."""
    return {sample.id: Twin(input=sample.input) for sample in samples}


def control_names(attacked: Sequence[str], judged: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the controls: one, or as many as attacked variants where the worst of these is judged."""
    count = len(attacked) if any(f"[{WORST}]" in name for name in judged) else min(len(attacked), 1)
    return tuple(draw_name(CONTROL, number) for number in range(count))


def variant_groups(
    runs: Sequence[AttackRun], controls: tuple[str, ...], not_run: Mapping[str, str]
) -> tuple[dict[str, VariantGroup], dict[str, str]]:
    """Return the names that brackets accept, and those that are not run; without an attack also the control."""
    groups = {run.label: VariantGroup(name=run.label, variants=run.names) for run in runs}
    if not controls:
        reason = next(iter(not_run.values()), "no attack is run")
        return groups, {**not_run, CONTROL: reason, WORST: reason}
    attacked = tuple(name for run in runs for name in run.names)
    groups[CONTROL] = VariantGroup(name=CONTROL, variants=controls)
    groups[WORST] = VariantGroup(name=WORST, variants=attacked, is_worst=True)
    return groups, dict(not_run)


HINTS = {LEAKED: "it needs a secret: give the test function the argument canary, and put it into the prompt"}
CERTIFIED_FACTS = MetricFacts(name=CERTIFIED, kind="unbounded", low=-1.0, version="1")
NO_MODEL = '[scorers] has no paraphraser: add paraphraser = { adapter = "NAME" }'
NONE = "--crucible-attacks=none runs no attacks"


def plan_attacks(draft: ExperimentDraft) -> None:
    """Add the attacks of an experiment to its draft. Raises SpecError."""
    added, own = draft.settings.option("attacks"), draft.names.variants
    marks, attacks = robustness_marks(draft.item, added), load_attacks(draft.config)
    every = frozenset((*attacks.names, SEARCH))
    if not marks:
        _bind_arguments(draft, {})
        draft.names = _declarable(draft.names, every)
        return
    runs = list_runs(marks, draft, attacks)
    not_run = _find_not_run(runs, added)
    active = [run for run in runs if run.label not in not_run]
    certifying = None if added == "none" else _read_certifying(marks, draft)
    variants, controls = _list_variants(active, certifying, draft)
    groups, not_run = variant_groups(active, controls, not_run)
    # Twins are numbered from 1, those of the samples' own first.
    numbers = {variant.name: len(own) + k for k, variant in enumerate(variants, start=1)}
    has_canary = CANARY in injected_arguments(draft)
    draft.variant_metrics = injection_metrics(draft.settings.seed, [run.attack for run in runs], has_canary)
    facts = _own_facts(draft.variant_metrics, marks)
    names = replace(draft.names, variants=(*own, *numbers), groups=groups, metrics=facts, not_run=not_run)
    draft.names = _declarable(names, every)
    check_members(groups, [arm.arm for arm in draft.arms], "an attack")
    draft.variants += variants
    draft.late_variants = _late_variants(active, certifying, numbers)
    _bind_arguments(draft, {numbers[name]: draw for run in active for name, draw in run.named_draws})
    robustness = Robustness(
        attacks=tuple(run.planned for run in active),
        controls=len(controls),
        not_run=not_run,
        normalise=next((mark.normalise for mark in marks if mark.normalise != "text"), "text"),
        certificate_requests=certifying.smoothing.requests if certifying else 0,
        kept=read_kept(marks, draft.item, numbers),
    )
    draft.plan_value(ROBUSTNESS, robustness)


def load_attacks(config: pytest.Config) -> Attacks:
    """Return all attacks that a marker may name. Raises SpecError for an invalid configuration."""
    offered = merge_offers(config.hook.pytest_crucible_attacks(config=config), "attack")
    return Attacks(read_table(config.rootpath, "attacks"), offered, config.rootpath)


def _bind_arguments(draft: ExperimentDraft, draws: Mapping[int, Draw]) -> None:
    """Give the test function its secret and its function that attacks a text, by the number of the twin (0: the original)."""
    seed, perturbations = draft.settings.seed, Perturbations(draws)
    arguments: dict[str, BoundArgument] = {
        CANARY: lambda bound: secret(seed, bound.sample.id),
        PERTURB: lambda bound: perturbations(bound.experiment.twin(bound.unit), bound.sample),
    }
    draft.arguments |= {name: arguments[name] for name in injected_arguments(draft)}


def _read_certifying(marks: Sequence[RobustnessMark], draft: ExperimentDraft) -> Certifying | None:
    certifying = [mark for mark in marks if mark.smoothing is not None]
    if not certifying:
        return None
    if len(certifying) > 1:
        raise SpecError("certify= is in two @pytest.mark.robustness: keep one of them")
    mark, metric = certifying[0], find_metric(certifying[0], draft, "certify=")
    if metric.facts.kind not in (None, "binary"):
        raise SpecError(
            f"certify= needs a binary metric, and {metric.name!r} is {metric.facts.kind}: name one by metric="
        )
    assert mark.smoothing is not None
    draw = Draw(attack=SEARCHING, strength=0.0, number=0, seed=draft.settings.seed)
    return Certifying(mark.smoothing, metric, mark.normalise, draw)


def _find_not_run(runs: Sequence[AttackRun], added: str | None) -> dict[str, str]:
    """Return the attacks that are declared and not run, with the reason."""
    if added == "none":
        return dict.fromkeys((*(run.label for run in runs), SMOOTHED), NONE)
    return {run.label: NO_MODEL for run in runs if run.attack.needs_model and run.late is None}


def _list_variants(
    runs: Sequence[AttackRun], certifying: Certifying | None, draft: ExperimentDraft
) -> tuple[list[Variant], tuple[str, ...]]:
    """Return all variants, and the names of the controls among them."""
    variants = list(attacked_variants(runs, draft))
    controls = control_names([variant.name for variant in variants], draft.judged)
    if certifying is not None:
        variants.append(late_variant(SMOOTHED, certifying.key, draft.samples))
    same = same_samples(draft.samples) if controls else {}
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
