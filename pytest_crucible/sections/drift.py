"""Drift: a baseline that was called again, against its stored replies. With one identity, a difference is the server's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_crucible.analyse.comparisons import compare_means
from pytest_crucible.analyse.pool import realign
from pytest_crucible.analyse.scores import scores
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes, Claim, Comparison, Contrast, Note, View
from pytest_crucible.records.serialize import pick
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.report.verdicts import difference_text
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.distributions import binomial_cdf
from pytest_crucible.stats.number_format import p_equals

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One baseline on one metric: today's replies compared with those of an earlier run."""

    arm: str
    run: str
    """The run of the stored replies."""
    alpha: float
    comparison: Comparison
    """The replies of today are its candidate."""


def compute(inputs: SectionInputs) -> tuple[Drift, ...] | None:
    """Return the comparison of each baseline that was called again with its earlier replies."""
    return tuple(_drifts(inputs)) or None


def claims(drifts: Sequence[Drift]) -> Sequence[Claim]:
    """Return a claim for each drift, in a family of their own: a server's drift costs the candidate no power."""
    return tuple(
        Claim(
            subject=f"{drift.arm} on {drift.comparison.contrast.metric} since run {drift.run}",
            p_value=drift.comparison.evidence.weakest_p_value,
        )
        for drift in drifts
    )


def view(drifts: Sequence[Drift], claims: Sequence[Claim]) -> View:
    """Return a note for each drift that these samples could show, proven or not: that it was looked for is worth knowing."""
    pairs = list(zip(drifts, claims, strict=True))
    return View(
        title="Drift of the baselines",
        notes=tuple(Note(text=_sentence(drift, claim)) for drift, claim in pairs if _can_be_proven(drift)),
        document=[_document(drift, claim) for drift, claim in pairs],
    )


def _drifts(inputs: SectionInputs) -> Iterator[Drift]:
    # An arm with any stored or cached reply would partly be compared with itself.
    not_called = {*inputs.stored.reused_replies(), *inputs.stored.cached_replies()}
    for number, arm in enumerate(inputs.plan.arms):
        if arm.role == "candidate" or arm.name in not_called or arm.stored_run is not None:
            continue
        earlier = inputs.stored.earlier_answers(number)
        if earlier is not None:
            run, answers = earlier
            for comparison in _comparisons(inputs, number, answers):
                yield Drift(arm=arm.name, run=run, alpha=inputs.alpha, comparison=comparison)


def _comparisons(inputs: SectionInputs, number: int, earlier: ArmOutcomes) -> Iterator[Comparison]:
    """Yield today's answers against the earlier ones, on each metric on which the arm is a baseline."""
    arm, today = inputs.plan.arms[number], inputs.answers[number]
    # Repeats that only one of the two runs has would count as lost in the other.
    repeats = {k: k for k in range(min(inputs.plan.repeats, 1 + max(earlier.repeats, default=0)))}
    positions = {k: k for k in range(inputs.samples)}
    today, earlier = (realign(answers, positions, repeats) for answers in (today, earlier))
    size = {"samples": inputs.samples, "repeats": len(repeats)}
    contrasts = [contrast for contrast in inputs.plan.contrasts if contrast.baseline == arm.name]
    metrics = dict.fromkeys(name for contrast in contrasts for name in contrast.metrics)
    for name in metrics:
        if name in today.scores and name in earlier.scores:
            facts, contrast = inputs.facts[name], Contrast(metric=name, baseline="stored")
            pair = (scores(facts, today, **size), scores(facts, earlier, **size))
            yield compare_means(
                contrast, facts, arm.name, pair, inputs.clusters, alpha=inputs.alpha, family_size=len(metrics)
            )


def _is_proven(drift: Drift, claim: Claim) -> bool:
    return claim.p_adjusted is not None and claim.p_adjusted <= drift.alpha


def _can_be_proven(drift: Drift) -> bool:
    """Return False where no replies could prove a drift: of too few samples, or beside too many lost ones."""
    pair = drift.comparison
    if pair.lost and pair.evidence.worst.value is None:
        return False  # without bounds, the lost samples could reverse any difference
    # The strongest evidence there could be: all samples differ in one direction, and all lost ones in the other.
    units = pair.clusters or pair.pairs
    return 2 * binomial_cdf(pair.lost, units + pair.lost, 0.5) <= drift.alpha


def _sentence(drift: Drift, claim: Claim) -> str:
    pair = drift.comparison
    lost = f", {pair.lost:,} lost" if pair.lost else ""
    difference = difference_text(pair)
    numbers = f"{pair.contrast.metric} {difference}, n {pair.pairs:,}{lost}"
    if _is_proven(drift, claim):
        return (
            f"{drift.arm} has drifted since run {drift.run}: {numbers}, {p_equals(claim.p_adjusted)}; "
            "the server changed, not the adapter"
        )
    return f"no drift of {drift.arm} since run {drift.run} is proven: {numbers}"


def _document(drift: Drift, claim: Claim) -> dict[str, object]:
    pair = drift.comparison
    return {
        **pick(drift, "arm run"),
        "metric": pair.contrast.metric,
        **pick(pair, "pairs lost difference"),
        **interval_ends(pair.interval),
        "p_adjusted": claim.p_adjusted,
        "proven": _is_proven(drift, claim),
    }
