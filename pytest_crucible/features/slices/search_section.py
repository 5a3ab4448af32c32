"""The reasons why the candidate won or lost: slices in which its difference from the baseline is unlike that elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_crucible.analyse.analysis import main_metric
from pytest_crucible.analyse.conditional import have_other_samples
from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.analyse.statistics import Clusters
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Note, Row, Sample, Statement, Table, View
from pytest_crucible.records.serialize import pick
from pytest_crucible.sections.inputs import SectionInputs, no_claims
from pytest_crucible.stats.number_format import p_equals, quantity

if TYPE_CHECKING:
    from pytest_crucible.features.slices.candidates import CandidateSlices, Importance
    from pytest_crucible.stats.slices.search import SearchedSlice

decides = False  # no claim of it can fail the session
claims = no_claims

# Samples below which no slice of 20 can be searched.
FEWEST_SAMPLES = 40
# Rows of the table of findings, the least likely by chance first.
MOST_FINDINGS = 10
# Samples that a finding names, to be read first.
_TO_READ = 3
# Slices with more of their samples in common are one finding.
_SAME = 0.7
# Differences closer than this part of the largest score are equal.
_ROUNDING = 1e-12
# The texts of more samples are not read at the end of every session; `crucible show --why-better` reads them.
MOST_SAMPLES = 10_000
MOST_IN_GROUPS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A slice whose difference (candidate minus baseline, positive is better) differs from that of the other samples."""

    slice: str
    n: int
    inside: float
    outside: float
    excess: float
    low: float
    high: float
    """Joint interval of the excess."""
    p_adjusted: float
    samples: tuple[str, ...]
    """Ids of samples in the slice that show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The findings of a search over many slices."""

    metric: str
    candidate: str
    baseline: str
    n: int
    searched: int
    findings: tuple[Finding, ...]
    similar: int
    """Further slices with a proven difference, which hold nearly the same samples as a finding does."""
    permutations: int
    seed: int
    importances: tuple[Importance, ...] = ()
    """Importances of the features that predict held-out differences; empty unless they do so better than shuffled ones."""


@dataclass(frozen=True, slots=True)
class NotSearched:
    """An experiment with too many samples for a search at the end of a session."""

    samples: int
    in_groups: bool


def compute(inputs: SectionInputs) -> SearchResult | NotSearched | None:
    """Return the search by the main metric against the first baseline; None without one, and for few samples."""
    metric = main_metric(inputs.plan, inputs.scores)
    most = MOST_SAMPLES if inputs.clusters is None else MOST_IN_GROUPS
    if metric is None or len(inputs.plan.arms) < 2 or inputs.samples < FEWEST_SAMPLES:
        return None
    return (
        search(inputs, metric) if inputs.samples <= most else NotSearched(inputs.samples, inputs.clusters is not None)
    )


def view(result: SearchResult | NotSearched, claims: Sequence[Claim]) -> View:
    """Return the findings as a table, or a note that there are none, or no search."""
    if isinstance(result, NotSearched):
        groups = " in groups" if result.in_groups else ""
        which = f"no slices were searched at the end of this run, of {result.samples:,} samples{groups}"
        text = f"{which}: crucible show --why-better does it"
        document = {"searched": 0, "reason": "too many samples", "n": result.samples}
        return View(title="Where the difference lies", notes=(Note(text=text, verbosity=1),), document=document)
    head = f"{result.metric}, {result.candidate} vs {result.baseline}"
    if not result.findings:
        return View(title="Where the difference lies", notes=(Note(text=f"{head}: {nothing(result)}", verbosity=2),),
                    document=asdict(result))  # fmt: skip
    table = Table(
        title=f"Where the difference of {head} is unlike elsewhere",
        heads=("slice", "n", "inside", "elsewhere", "excess [joint interval]", "adjusted p", "samples to read"),
        rows=tuple(Row(cells=_cells(finding)) for finding in result.findings),
        numbers=("n", "inside", "elsewhere"),
        note=f"{quantity(result.searched, 'slice')} {'was' if result.searched == 1 else 'were'} searched; p-values and intervals "
        f"hold for all of them. They decide no verdict.{_similar_text(result.similar)}",
        verbosity=1,
    )
    return View(
        title="Where the difference lies",
        tables=(table,),
        methods=(Statement(text=_METHODS, cites=CITES),),
        document=asdict(result),
    )


CITES = ("westfall1993",)
_METHODS = "Slices were searched by the largest studentised difference over permutations of samples."


def nothing(result: SearchResult) -> str:
    """Return a sentence for a search that found no slice."""
    return f"the difference is the same everywhere ({quantity(result.searched, 'slice')})"


def _similar_text(similar: int) -> str:
    if not similar:
        return ""
    return " 1 more is nearly the same slice." if similar == 1 else f" {similar} more are nearly the same slices."


def search(
    inputs: SectionInputs,
    metric: str,
    further: Mapping[str, Sequence[Any]] | None = None,
    *,
    seed: int = 0,
    ranks_features: bool = False,
) -> SearchResult | None:
    """Return the search by one metric against the first baseline, also over features of the user's own.

    With `ranks_features` it also returns the importance of features, which takes some seconds and scikit-learn.
    None if too few samples have both scores, or no slice has 20 samples inside and outside.
    """
    from pytest_crucible.features.slices.candidates import candidate_slices, find_features, rank_features
    from pytest_crucible.stats.slices.search import search_slices

    paired = _pair_samples(inputs, metric)
    if paired is None:
        return None
    columns = {name: list(compress(values, paired.flags)) for name, values in (further or {}).items()}
    features = find_features(
        [sample.input for sample in paired.samples],
        [sample.expected for sample in paired.samples],
        [sample.metadata for sample in paired.samples],
        columns,
        seed=seed,
    )
    candidates = candidate_slices(features)
    if not candidates.names:
        return None
    result = search_slices(paired.differences, candidates.members, groups=paired.clusters, alpha=inputs.alpha, rng=seed)
    proven = [each for each in result.slices if each.p_adjusted <= inputs.alpha]
    # Slices of one feature first: a pair of features that holds nearly the same samples adds nothing to them.
    proven.sort(key=lambda each: candidates.is_pair[each.column])
    distinct, similar = _without_similar(proven, candidates.members)
    importances = None
    if ranks_features:
        importances = rank_features(paired.differences, features, groups=paired.clusters, seed=seed)
    return SearchResult(
        metric=metric,
        candidate=inputs.plan.arms[0].name,
        baseline=inputs.plan.arms[1].name,
        n=result.n,
        searched=len(candidates.names),
        findings=tuple(_finding(each, candidates, paired) for each in distinct),
        similar=similar,
        permutations=result.permutations,
        seed=seed,
        importances=importances or (),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Paired:
    """The samples that both arms scored, with the difference of each; positive is better."""

    samples: Sequence[Sample]
    flags: Flags
    """Which of all samples they are."""
    differences: Floats
    clusters: Clusters | None


def _pair_samples(inputs: SectionInputs, metric: str) -> _Paired | None:
    facts, (ours, theirs, *_) = inputs.facts[metric], inputs.scores[metric]
    # The differences of those samples alone to which the metric applies in both arms are not what is compared.
    if have_other_samples(facts, (ours, theirs)):
        return None
    # A difference of finite scores may be infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        differences = ours.values - theirs.values
    both = ours.seen & theirs.seen & np.isfinite(differences)
    samples = inputs.stored.all_samples()
    if both.sum() < FEWEST_SAMPLES or len(samples) != inputs.samples:
        return None
    # 0.3 - 0.1 and 0.2 are one difference: rounding is not searched for slices.
    digit = _ROUNDING * max(float(np.abs(arm.values[both]).max()) for arm in (ours, theirs)) or 1.0
    sign = 1.0 if facts.direction == "higher" else -1.0
    return _Paired(
        samples=list(compress(samples, both)),
        flags=both,
        differences=sign * digit * np.round(differences[both] / digit),
        clusters=None if inputs.clusters is None else inputs.clusters[both],
    )


def _without_similar(proven: Sequence[SearchedSlice], members: Flags) -> tuple[list[SearchedSlice], int]:
    """Return the slices to list, and the number of slices left out because their samples are nearly the same."""
    listed: list[SearchedSlice] = []
    similar = 0
    for each in proven:
        inside = members[:, each.column]
        if any(_overlap(inside, members[:, other.column]) > _SAME for other in listed):
            similar += 1
        elif len(listed) < MOST_FINDINGS:
            listed.append(each)
    return listed, similar


def _finding(each: SearchedSlice, candidates: CandidateSlices, paired: _Paired) -> Finding:
    inside = candidates.members[:, each.column]
    positions = np.flatnonzero(inside & (paired.differences * np.sign(each.excess) > 0))[:_TO_READ]
    return Finding(
        slice=candidates.names[each.column],
        **pick(each, "n inside outside excess low high p_adjusted"),
        samples=tuple(paired.samples[at].id for at in positions),
    )


def _overlap(first: Flags, second: Flags) -> float:
    """Return the share of common samples among those of either slice, or of the other slice's complement."""
    pairs = ((first, second), (first, ~second))
    return max(float((flags & other).sum() / max((flags | other).sum(), 1)) for flags, other in pairs)


def _cells(finding: Finding) -> tuple[str, ...]:
    return (
        finding.slice,
        f"{finding.n:,}",
        f"{finding.inside:+.3f}",
        f"{finding.outside:+.3f}",
        f"{finding.excess:+.3f} [{finding.low:+.3f}, {finding.high:+.3f}]",
        p_equals(finding.p_adjusted).removeprefix("p ").removeprefix("= "),
        ", ".join(finding.samples),
    )
