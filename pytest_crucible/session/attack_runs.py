"""The runs of an experiment's attacks: each attack at one strength, with its draws and the maker of its texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from pytest_crucible.adversary.edits import Attack
from pytest_crucible.adversary.registry import SEARCH, Attacks
from pytest_crucible.adversary.twins import Draw, Limits
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.models.scorers import SimilarityScorer, paraphraser, similarity_scorer
from pytest_crucible.records import NoTwin, PlannedAttack, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.late_variants import Rewriting, Searching
from pytest_crucible.session.markers import takes_fixture
from pytest_crucible.session.robustness_marks import RobustnessMark, labels

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
    own: Sequence[str]
    """The names of the variants of the samples' own."""

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
