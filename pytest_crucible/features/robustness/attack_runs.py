"""The runs of an experiment's attacks: each attack at one strength, with its draws and the maker of its texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from pytest_crucible.features.robustness.edits import Attack
from pytest_crucible.features.robustness.late_variants import Rewriting, Searching
from pytest_crucible.features.robustness.marks import RobustnessMark, labels
from pytest_crucible.features.robustness.records import CONTROL, WORST, PlannedAttack
from pytest_crucible.features.robustness.registry import SEARCH, Attacks
from pytest_crucible.features.robustness.twins import Draw, Limits, find_text
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.models.scorers import SimilarityScorer, paraphraser, similarity_scorer
from pytest_crucible.plan.variants import VariantNames
from pytest_crucible.records import NoTwin, Sample, Twin, Variant, VariantGroup
from pytest_crucible.records.datasets import LATE
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.markers import takes_fixture

CANARY, PERTURB = "canary", "perturb"
"""Arguments of a test function: the sample's secret, and the function that attacks a text of the test's choice."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A test function, its samples and its metrics, which attacks are planned for."""

    item: pytest.Item
    takes: frozenset[str]
    """The arguments of the function."""
    samples: Sequence[Sample]
    metrics: Sequence[Metric]
    judged: Sequence[str]
    """The terms of its targets and comparisons."""
    names: VariantNames
    """The names that terms may use without attacks: those of the variants of the samples' own."""

    @property
    def own(self) -> Sequence[str]:
        """The names of the variants of the samples' own."""
        return self.names.variants

    @property
    def injected(self) -> frozenset[str]:
        """The arguments that the plan binds, unless the suite has a fixture with this name."""
        return frozenset(name for name in (CANARY, PERTURB) if name in self.takes and takes_fixture(self.item, name))


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


def list_runs(marks: Sequence[RobustnessMark], subject: Subject, attacks: Attacks, seed: int) -> list[AttackRun]:
    """Return the runs of all marks. Raises SpecError for an unknown attack, and for one that the test cannot have."""
    runs = [run for mark in marks for run in _runs_of(mark, subject, attacks, seed)]
    check_runs(runs, subject)
    return runs


def _runs_of(mark: RobustnessMark, subject: Subject, attacks: Attacks, seed: int) -> Iterator[AttackRun]:
    similarity = open_similarity() if mark.min_similarity is not None else None
    limits = Limits(max_edit_share=mark.max_edit_share, min_similarity=mark.min_similarity, similarity=similarity)
    for name in mark.attacks:
        attack = SEARCHING if name == SEARCH else attacks.get(name)
        for label, strength in labels(mark, name, has_strength=attack.has_strength):
            draws = tuple(
                Draw(attack=attack, strength=strength, number=k, seed=seed, protect=mark.protect, limits=limits)
                for k in range(mark.draws)
            )
            yield AttackRun(label, attack, strength, draws, *_find_late(mark, attack, subject))


def _find_late(
    mark: RobustnessMark, attack: Attack, subject: Subject
) -> tuple[Callable[[Draw], Rewriting | Searching] | None, int]:
    """Return the maker of an attack's texts while the experiment runs, and its most requests a text; None for rules."""
    if attack is SEARCHING:
        metric = find_metric(mark, subject, SEARCH)
        return lambda draw: Searching(metric, mark.queries, draw), mark.queries + 1
    model = paraphraser() if attack.needs_model else None
    return None if model is None else lambda draw: Rewriting(model, draw), 1


def find_metric(mark: RobustnessMark, subject: Subject, what: str) -> Metric:
    """Return the metric that a mark names, or the first of the experiment. Raises SpecError without one."""
    named = {metric.name: metric for metric in subject.metrics}
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
    return lambda one, other: float(asyncio.run(_similarity(scorer, one, other)))


async def _similarity(scorer: SimilarityScorer, one: str, other: str) -> float:
    return (await scorer.similarity([(one, other)]))[0]


def check_runs(runs: Sequence[AttackRun], subject: Subject) -> None:
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


def draw_name(label: str, number: int) -> str:
    return label if not number else f"{label}, draw {number + 1}"


def attacked_variants(runs: Sequence[AttackRun], subject: Subject) -> Iterator[Variant]:
    """Yield a variant for each draw. Where the test function attacks a text itself, twins have the sample's input."""
    samples, in_test = subject.samples, PERTURB in subject.injected
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
