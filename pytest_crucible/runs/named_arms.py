"""Compares two arms of stored runs that are named as on the command line: RUN or RUN:ARM, and NAME[:lower|:higher]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias, cast, get_args

from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Contrast, Run
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.measures import Direction
from pytest_crucible.runs.compare import PairedExperiment, StoredArm, decide_pairs, pair_experiments
from pytest_crucible.store.runs import TAGGED, RunStore

Claims: TypeAlias = tuple[tuple[Contrast, ...], Mapping[str, Direction]]
"""The named comparisons, and metric -> direction as far as it is named; no comparison compares all metrics."""


def split_arm(named: str) -> tuple[str, str]:
    """Return run and arm of `RUN:ARM`, the arm empty without one; the colon of `tag:NAME` does not separate an arm.

    >>> split_arm("latest:v1"), split_arm("tag:main"), split_arm("tag:main:v1")
    (('latest', 'v1'), ('tag:main', ''), ('tag:main', 'v1'))
    """
    prefix = TAGGED if named.startswith(TAGGED) else ""
    run, _, arm = named.removeprefix(prefix).partition(":")
    return prefix + run, arm


def find_arm(store: RunStore, named: str) -> StoredArm:
    """Return the arm of `RUN:ARM`. Raises SpecError for an unknown run."""
    run, arm = split_arm(named)
    return StoredArm(store.find_run(run), arm)


def read_claims(
    metrics: Sequence[str], margin: float | str | None, alternative: str | None, relevant: float | str | None
) -> Claims:
    """Return the comparisons of metrics that are named `NAME[:lower|:higher]`. Raises SpecError."""
    if not metrics and any(option is not None for option in (margin, alternative, relevant)):
        raise SpecError("--margin, --alternative and --relevant apply to one metric: name it with --metric")
    parts = [_split_direction(text) for text in metrics]
    contrasts = [parse_contrast(name, margin, alternative, relevant) for name, _ in parts]
    named = zip(contrasts, (direction for _, direction in parts), strict=True)
    return tuple(contrasts), {claim.metric: direction for claim, direction in named if direction}


def _split_direction(text: str) -> tuple[str, Direction | None]:
    name, _, direction = text.rpartition(":")
    return (name, cast(Direction, direction)) if direction in get_args(Direction) else (text, None)


@dataclass(frozen=True, kw_only=True)
class Question:
    """The subject of a comparison of two arms."""

    ours: StoredArm
    theirs: StoredArm
    contrasts: tuple[Contrast, ...] = ()
    """Empty: those that the candidate's suite declares, or of every metric if it declares none."""
    directions: Mapping[str, Direction] = field(default_factory=dict)
    """The direction that is better of metrics for which the run did not record one."""
    alpha: float | None = None
    """None: that of the candidate's run."""
    arms_differ_in: tuple[str, ...] = ()
    """The settings that the arms are compared for, beside those that the candidate's suite declares."""


def make_question(store: RunStore, candidate: str, baseline: str, claims: Claims = ((), {}), **rest: Any) -> Question:
    """Return the question whether one arm differs from another. Raises SpecError for unknown runs, and for an arm and itself."""
    ours, theirs = find_arm(store, candidate), find_arm(store, baseline)
    if ours == theirs:
        raise SpecError(f"{candidate} and {baseline} are the same replies: compare two that differ")
    contrasts, directions = claims
    return Question(ours=ours, theirs=theirs, contrasts=contrasts, directions=directions, **rest)


def pair_named(store: RunStore, question: Question) -> tuple[PairedExperiment, ...]:
    """Return the experiments that both arms have. Raises SpecError, also for a metric that is missing in one of them."""
    return pair_experiments(
        store,
        question.ours,
        question.theirs,
        lambda metrics: _check_metrics(question.contrasts, metrics),
        question.directions,
        arms_differ_in=question.arms_differ_in,
    )


def decide_named(store: RunStore, question: Question, pairs: Sequence[PairedExperiment]) -> tuple[Run, tuple[str, ...]]:
    """Return the comparison as a run that is not stored, and notes on other differences."""
    alpha = store.run(question.ours.run)["alpha"] if question.alpha is None else question.alpha
    return decide_pairs(store, question.ours, question.theirs, pairs, alpha=alpha)


def _check_metrics(contrasts: tuple[Contrast, ...], metrics: Sequence[str]) -> tuple[Contrast, ...]:
    """Return the comparisons. Raises SpecError for a metric that is missing in one of the arms."""
    for contrast in contrasts:
        missing = next((name for name in contrast.metrics if name not in metrics), None)
        if missing is not None:
            whole = ", ".join(name for name in metrics if "[" not in name)
            hint = suggest(missing, metrics, otherwise=f"they share {whole or 'none'}")
            raise SpecError(f"metric {missing!r} was not scored in both arms: {hint}")
    return contrasts
