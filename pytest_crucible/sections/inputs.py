"""Inputs of a section: one experiment's plan, scores and replies, and the run store's details about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.analyse.analysis import AnalysisInputs, ScoreTable
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import Clusters
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    ArmEvents,
    ArmOutcomes,
    CachedReplies,
    Claim,
    Contrast,
    Look,
    MetricFacts,
    OutcomeCounts,
    PastComparison,
    Plan,
    ReusedReplies,
    Sample,
    SentAgain,
    Target,
)
from pytest_crucible.records.calls import CallColumns, ReplyColumns
from pytest_crucible.records.datasets import By
from pytest_crucible.records.plan import HelperReplies

if TYPE_CHECKING:
    from pytest_crucible.stats.slices.slicing import Slicing


class StoredDetails(Protocol):
    """Details of an experiment that only some sections need. Each method reads them when it is called.

    Its own results are those of an experiment that was put together from several runs, as by `crucible compare`.
    """

    def events(self) -> Mapping[str, ArmEvents]:
        """Return the counted events by the name of the arm, or of the judge (`judge:NAME`)."""
        return {}

    def reused_replies(self) -> Mapping[str, ReusedReplies]:
        """Return, by arm, the stored replies that stood in for new ones."""
        return {}

    def cached_replies(self) -> Mapping[str, CachedReplies]:
        """Return, by arm, how many replies came from the reply cache."""
        return {}

    def replies_sent_again(self) -> Mapping[str, SentAgain]:
        """Return, by arm, the stored replies that answered other calls and were sent again."""
        return {}

    def earlier_answers(self, arm: int) -> tuple[str, ArmOutcomes] | None:
        """Return the latest earlier run that measured the same arm on the same samples, and its replies to the same calls."""
        return None

    def past_comparisons(self, contrast: Contrast) -> Sequence[PastComparison]:
        """Return the earlier comparisons of the candidate with the same baseline by the same measure, oldest first."""
        return ()

    def sessions_with_same_replies(self, baseline: int) -> int:
        """Return how many sessions in a row, this one last, compared with the same replies of a baseline."""
        return 1

    def has_new_replies(self, arm: int) -> bool:
        """Return whether an arm has any reply that was neither copied from a stored run nor cached."""
        return True

    def candidates_on_samples(self) -> int:
        """Return how many candidates were measured on these samples so far, this one included."""
        return 1

    def texts(self, arm: int, metric: str) -> Mapping[tuple[int, int], str]:
        """Return the values of a text metric by (position, repeat)."""
        return {}

    def samples(self, positions: Sequence[int]) -> Mapping[int, Sample]:
        """Return the samples at some positions."""
        return {}

    def all_samples(self) -> Sequence[Sample]:
        """Return all samples, in the dataset's order."""
        return ()

    def replies(self, arm: int, positions: Sequence[int]) -> Mapping[int, str]:
        """Return an arm's first reply to the samples at some positions."""
        return {}

    def first_prompts(self, forms: Mapping[int, int | None]) -> Mapping[int, tuple[Any, Any]]:
        """Return first prompts by position, from the forms of their messages: each as it was sent, and with references in it."""
        return {}

    def reply_texts(self, arm: int, twin: int) -> Mapping[tuple[int, int], str]:
        """Return the texts of an arm's replies by (position, place): to the original samples (0), or to their twins."""
        return {}

    def calls(self, arm: int) -> CallColumns:
        """Return all calls of an arm about the original samples."""
        return CallColumns()

    def prompts(self, arms: Sequence[CallColumns]) -> Sequence[Mapping[int, tuple[int, ...]]]:
        """Return, for each arm's calls, a hash of each prompt of its first reply to a sample, by position."""
        return [{} for _ in arms]

    def twin_prompts(self, arm: int, twin: int) -> Mapping[int, tuple[int, ...]]:
        """Return the same hashes of an arm's calls about the twins with a number, where these have another input."""
        return {}

    def reply_columns(self, arm: int) -> ReplyColumns:
        """Return all replies of an arm to the original samples."""
        return ReplyColumns()

    def long_texts(self, keys: Collection[bytes]) -> Mapping[bytes, str]:
        """Return texts of calls and replies by the keys that stand for them."""
        return {}

    def helper(self, nodeid: str) -> HelperReplies | None:
        """Return the replies of an experiment that served this one in its run; None if it has not begun."""
        return None

    def competitions(self) -> Sequence[tuple[HelperReplies, StoredDetails]]:
        """Return the replies and details of each experiment of the run that chose a candidate for this test."""
        return ()

    def decisions(self, subject: str) -> Mapping[int, Mapping[str, Any]]:
        """Return the decisions that the run has made on a subject, by their numbers."""
        return {}


class NoStoredDetails(StoredDetails):
    """The details of an experiment that is not stored."""


def no_claims(result: Any) -> Sequence[Claim]:
    """Return no claims: for sections that only show."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionInputs:
    """One experiment, as a section sees it."""

    plan: Plan
    answers: tuple[ArmOutcomes, ...]
    """Each arm's replies, in the order of `plan.arms`: the candidate first."""
    groups: Sequence[str | None]
    """Each sample's group."""
    finished: bool
    """False when sampling was cut short."""
    alpha: float
    facts: Mapping[str, MetricFacts]
    """Each metric's declaration, its kind resolved."""
    scores: Mapping[str, tuple[Scores, ...]]
    """Metric -> arm -> one score a sample, repeats averaged; on the original samples."""
    clusters: Clusters | None
    """A number for the group of each sample; None if samples are independent."""
    stored: StoredDetails
    looks: Mapping[Contrast, Look] = field(default_factory=dict)
    """The looks at pooled replies by which comparisons are decided."""
    target_looks: Mapping[Target, Look] = field(default_factory=dict)
    """The looks at pooled replies by which targets are decided that must be proven."""

    slicings: Mapping[By, Slicing] = field(default_factory=dict)
    """The slices of each field that a target or a comparison names."""
    twins: Mapping[str, tuple[tuple[Scores, ...], ...]] = field(default_factory=dict)
    """Metric that is compared by twin -> its scores on the variants: variants x arms."""
    looked_at: Sequence[int] | None = None
    """The samples until the last look, in the order of looks; None for a run without looks."""
    claims_alpha: float | None = None
    """The error rate that all claims share where bounds share it, too; None elsewhere."""
    of_features: Mapping[str, Any] = field(default_factory=dict)
    """What features know of the experiment, for their own sections."""

    variants: Mapping[str, tuple[ArmOutcomes, ...]] = field(default_factory=dict)
    """Each arm's replies to the twins of the samples, by the name of their variant."""
    counts: tuple[OutcomeCounts, ...] = ()
    """Of each arm, in place of its replies, where the experiment is larger than memory; else empty."""
    left_out: tuple[str, ...] = ()
    """The sections that such an experiment has not."""
    without_doubts_of: tuple[str, ...] = ()
    """Those of them that could have failed the run."""
    most_in_memory: int = 0
    """The most replies that are analysed in memory, where this experiment has more."""

    @property
    def samples(self) -> int:
        """The number of samples in the dataset."""
        return len(self.groups) or self.plan.selected


def large_inputs(
    plan: Plan,
    counts: tuple[OutcomeCounts, ...],
    stored: StoredDetails,
    *,
    alpha: float,
    finished: bool,
    most_in_memory: int,
) -> SectionInputs:
    """Return the inputs of the sections of an experiment that is larger than memory."""
    return SectionInputs(
        plan=plan,
        answers=(),
        groups=(),
        finished=finished,
        alpha=alpha,
        facts={},
        scores={},
        clusters=None,
        stored=stored,
        counts=counts,
        most_in_memory=most_in_memory,
    )


def section_inputs(inputs: AnalysisInputs, table: ScoreTable, stored: StoredDetails, *, alpha: float) -> SectionInputs:
    """Return the inputs of the sections of one experiment."""
    of_variants = {term.facts.name for term in inputs.plan.variant_terms}
    return SectionInputs(
        plan=inputs.plan,
        answers=inputs.answers,
        groups=inputs.groups,
        finished=inputs.finished,
        alpha=alpha,
        facts=table.facts,
        scores={name: scores for name, scores in table.scores.items() if name not in of_variants},
        clusters=table.clusters,
        stored=stored,
        slicings=table.attributes.slicings,
        twins=table.twins,
        looks={contrast: pool.look for contrast, pool in inputs.pools.items()},
        target_looks={target: pool.look for target, pool in inputs.target_pools.items()},
        looked_at=inputs.looked_at,
        claims_alpha=inputs.claims_alpha,
        of_features=inputs.of_features,
        variants=inputs.variants,
    )
