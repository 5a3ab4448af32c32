"""Robustness: the effect of each attack on each arm, with both levels of every drop, and of a mere repetition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import main_metric
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.features.robustness.drops import (
    Breakage,
    Drop,
    Share,
    VariantData,
    compute_breakages,
    compute_drops,
    compute_shares,
    count_certificates,
)
from pytest_crucible.features.robustness.labelled_drops import (
    Corrected,
    SlicedDrops,
    Uncorrected,
    correct_drops,
    corrected_document,
    corrected_notes,
    corrected_tables,
    drop_cells,
    level_text,
    levels_document,
    pick,
    slice_document,
    slice_drops,
    slice_note,
    slice_table,
)
from pytest_crucible.features.robustness.records import CONTROL, ROBUSTNESS, WORST
from pytest_crucible.plan.variants import term_metric
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Chart, Claim, Note, Plan, Point, Row, Statement, Table, View
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import p_value, with_interval

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Robustness:
    """The attacks of one experiment on its judged metrics."""

    plan: Plan
    alpha: float
    drops: tuple[Drop, ...]
    breakages: tuple[Breakage, ...]
    shares: tuple[Share, ...]
    certificates: Mapping[str, Mapping[int, int]]
    """Arm -> certified word edits -> samples."""
    sliced: tuple[SlicedDrops, ...] = ()
    """Drops by slice, for each field and metric."""
    corrected: tuple[Corrected, ...] = ()
    """Means and drops of judges' metrics that people's labels correct."""
    uncorrected: tuple[Uncorrected, ...] = ()

    @property
    def tested(self) -> tuple[Drop, ...]:
        """The drops that are claims: those of single attacks."""
        return tuple(drop for drop in self.drops if CONTROL not in drop.attack and drop.attack != WORST)


def compute(inputs: SectionInputs) -> Robustness | None:
    """Return the effects of the attacks; None for an experiment without attacks."""
    plan = inputs.plan
    if ROBUSTNESS.of(plan) is None or not inputs.variants:
        return None
    data = VariantData(
        plan=plan,
        facts=inputs.facts,
        originals=inputs.scores,
        variants=inputs.variants,
        attributes=SampleAttributes(inputs.clusters, random_factors=plan.random_factors),
        samples=inputs.samples,
        alpha=inputs.alpha,
    )
    metrics = _judged_metrics(inputs)
    drops = compute_drops(data, metrics)
    of_labels = tuple(correct_drops(data, inputs.answers, metrics))
    return Robustness(
        plan=plan,
        alpha=inputs.alpha,
        # The scores decided where the run stopped, which these p-values do not take into account.
        drops=tuple(drops if plan.look_alpha is None else (replace(drop, p_value=None) for drop in drops)),
        breakages=tuple(compute_breakages(data, metrics)),
        shares=tuple(compute_shares(data, plan.variant_metrics)),
        certificates=count_certificates(data),
        sliced=tuple(slice_drops(inputs, data, metrics)),
        corrected=tuple(entry for entry in of_labels if isinstance(entry, Corrected)),
        uncorrected=tuple(entry for entry in of_labels if isinstance(entry, Uncorrected)),
    )


def claims(result: Robustness) -> Sequence[Claim]:
    """Return a claim for each drop, in a family of their own. Claims that a marker names belong to the session's family."""
    return tuple(
        Claim(subject=f"{drop.attack} changes {drop.metric} of {drop.arm}", p_value=drop.p_value)
        for drop in result.tested
    )


def view(result: Robustness, claims: Sequence[Claim]) -> View:
    """Return the matrix of attacks and metrics, the breaks beyond the control, and the results of injections."""
    adjusted = {id(drop): claim.p_adjusted for drop, claim in zip(result.tested, claims, strict=True)}
    metrics = dict.fromkeys(drop.metric for drop in result.drops)
    return View(
        title="Robustness",
        tables=(
            *(attack_table(result.drops, metric, adjusted, result.alpha) for metric in metrics),
            *corrected_tables(result.corrected, result.alpha),
            *broken_tables(result.breakages),
            *share_tables(result.shares),
            *certificate_tables(result.certificates),
            *(slice_table(sliced) for sliced in result.sliced if sliced.drops),
        ),
        notes=tuple(_notes(result)),
        charts=tuple(_chart(result, metric) for metric in metrics),
        methods=(METHOD,),
        document=_document(result, adjusted),
    )


METHOD = Statement(
    text="Each sample was paired with its attacked variants and with a control, the same prompt sent again. A drop is the paired "
    "difference of the original sample and the attacked one, judged as two arms are: by an exact unconditional or Tango's score "
    "interval for one reply of yes or no, otherwise by the paired t or, with groups, CR2. The p-values of all drops are adjusted "
    "by Holm."
)


def _judged_metrics(inputs: SectionInputs) -> list[str]:
    """Return the metrics that targets and comparisons are about; without any, the main one."""
    plan = inputs.plan
    named = [term_metric(name) for measure in (*plan.contrasts, *plan.targets) for name in measure.metrics]
    judged = [name for name in dict.fromkeys(named) if name in inputs.scores]
    main = main_metric(plan, inputs.scores)
    return judged or ([] if main is None else [main])


def _kept_notes(result: Robustness) -> Iterator[Note]:
    """Yield the share of labels that are kept by people's judgement, attack by attack."""
    robustness = ROBUSTNESS.of(result.plan)
    for variant, labels in (robustness.kept if robustness else {}).items():
        share = stats.wilson_interval(sum(labels.values()), len(labels), level=1 - result.alpha)
        share_text = with_interval(sum(labels.values()) / len(labels), share)
        yield Note(
            text=f"{variant}: the expected answer is kept in {share_text} of {len(labels):,} labelled texts; others are left out"
        )


def _notes(result: Robustness) -> Iterator[Note]:
    robustness = ROBUSTNESS.of(result.plan)
    for name, reason in dict(robustness.not_run if robustness else {}).items():
        if name not in (CONTROL, WORST):
            yield Note(text=f"{name} is not run: {reason}")
    if result.plan.look_alpha is not None:
        yield Note(
            text="the intervals of the attacks are not adjusted for the looks of --crucible-stop; those of targets are"
        )
    yield from _kept_notes(result)
    yield from corrected_notes(result.corrected, result.uncorrected)
    yield from (slice_note(sliced) for sliced in result.sliced if not sliced.drops)
    for drop in result.drops:
        if drop.simultaneous is not None and drop.simultaneous.value is not None and drop.simultaneous.value > 0:
            held = with_interval(drop.simultaneous.value, drop.simultaneous.interval, sign=True)
            yield Note(
                text=f"the largest drop of {drop.metric} is that of {drop.arm} under {drop.attack}: {held}, an interval that "
                "holds for all drops at once"
            )


def _chart(result: Robustness, metric: str) -> Chart:
    points = [
        Point(label=f"{drop.attack}, {drop.arm}", value=drop.drop.value, interval=drop.drop.interval)
        for drop in result.drops
        if drop.metric == metric
    ]
    return Chart(title=f"Drops of {metric}", points=tuple(points), limits=(0.0,))


def _document(result: Robustness, adjusted: dict[int, float | None]) -> dict[str, object]:
    return {
        "drops": [_drop_document(drop, adjusted.get(id(drop))) for drop in result.drops],
        "slices": [entry for sliced in result.sliced for entry in slice_document(sliced)],
        "corrected": [corrected_document(entry) for entry in result.corrected],
        "uncorrected": [asdict(entry) for entry in result.uncorrected],
        "broken": [_breakage_document(entry) for entry in result.breakages],
        "certificates": {
            arm: {str(edits): n for edits, n in sorted(of.items())} for arm, of in result.certificates.items()
        },
        "shares": [_share_document(share) for share in result.shares],
    }


def _drop_document(drop: Drop, p_adjusted: float | None) -> dict[str, object]:
    return {
        **pick(drop, "metric", "attack", "arm", "n", "inapplicable", "lost", "p_value"),
        **levels_document(drop),
        "method": drop.drop.method,
        "p_adjusted": p_adjusted,
        "simultaneous": None if drop.simultaneous is None else interval_ends(drop.simultaneous.interval),
    }


def _breakage_document(breakage: Breakage) -> dict[str, object]:
    return {
        **pick(breakage, "metric", "attack", "arm", "n"),
        "broken": breakage.broken.value,
        "control": breakage.control.value,
        "excess": breakage.excess.value,
        **interval_ends(breakage.excess.interval),
    }


def _share_document(share: Share) -> dict[str, object]:
    return {
        **pick(share, "metric", "attack", "arm", "n", "lost"),
        "value": share.share.value,
        **interval_ends(share.share.interval),
    }


def attack_table(drops: Sequence[Drop], metric: str, adjusted: dict[int, float | None], alpha: float) -> Table:
    """Return the drops of one metric; `adjusted` has the adjusted p-values by the identity of the drop."""
    percent = f"{(1 - alpha) * 100:g} %"
    heads = (
        f"attack on {metric}",
        "arm",
        "clean",
        "attacked",
        f"drop [{percent} interval]",
        "n",
        "n/a",
        "lost",
        "adjusted p",
    )
    return Table(
        title=f"Attacks by {metric}",
        heads=heads,
        rows=tuple(
            Row(cells=(drop.attack, drop.arm, *drop_cells(drop), p_value(adjusted.get(id(drop)))))
            for drop in drops
            if drop.metric == metric
        ),
        numbers=("n", "n/a", "lost", "clean", "attacked", "adjusted p"),
        note="A positive drop is worse. The control is the original sample, sent again.",
    )


def broken_tables(breakages: Sequence[Breakage]) -> Iterator[Table]:
    """Yield the samples that attacks broke beyond the control; nothing without any."""
    if breakages:
        yield Table(
            title="Broken samples",
            heads=("broken by", "metric", "arm", "broken", "control", "excess over the control", "n"),
            rows=tuple(
                Row(
                    cells=(
                        *(entry.attack, entry.metric, entry.arm, level_text(entry.broken), level_text(entry.control)),
                        *(with_interval(entry.excess.value, entry.excess.interval, sign=True), f"{entry.n:,}"),
                    )
                )
                for entry in breakages
            ),
            numbers=("broken", "control", "n"),
            note="Of the samples that are right as they are, the share of attacked replies that are wrong. A model whose replies "
            "vary breaks some without any attack, as the control does.",
            verbosity=1,
        )


def share_tables(shares: Sequence[Share]) -> Iterator[Table]:
    """Yield a table for each metric of injections, such as `obeyed`."""
    for metric in dict.fromkeys(share.metric for share in shares):
        rows = [share for share in shares if share.metric == metric]
        yield Table(
            title=f"Attacks by {metric}",
            heads=(f"{metric} under", "arm", metric, "n", "lost"),
            rows=tuple(
                Row(
                    cells=(
                        share.attack,
                        share.arm,
                        with_interval(share.share.value, share.share.interval),
                        f"{share.n:,}",
                        f"{share.lost:,}",
                    )
                )
                for share in rows
            ),
            numbers=("n", "lost"),
        )


def certificate_tables(certificates: Mapping[str, Mapping[int, int]]) -> Iterator[Table]:
    """Yield the shares of samples that are certified for each number of edits; nothing without certificates."""
    if certificates:
        most = max((edits for counts in certificates.values() for edits in counts), default=0)
        limits = range(max(most, 0) + 1)
        rows = []
        for arm, counts in certificates.items():
            n = sum(counts.values())
            reached = [sum(count for edits, count in counts.items() if edits >= limit) for limit in limits]
            shares = (f"{number / n:.3f}" if n else "unknown" for number in reached)
            rows.append(Row(cells=(arm, *shares, f"{n:,}")))
        yield Table(
            title="Certificates of the smoothed model",
            heads=("certified", *(f">= {limit} edits" for limit in limits), "n"),
            rows=tuple(rows),
            numbers=(*(f">= {limit} edits" for limit in limits), "n"),
            note="The share of samples that the smoothed model (the answer to most texts with words left out) gets right, "
            "whichever words are inserted, deleted or replaced, up to that number. The model without smoothing has no certificate.",
        )
