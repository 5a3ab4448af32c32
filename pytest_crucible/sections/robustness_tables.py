"""The tables of the robustness section: attacks, broken samples, injections and certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_crucible.analyse.drops import Breakage, Drop, Share
from pytest_crucible.measures.row import Measured
from pytest_crucible.records import Row, Table
from pytest_crucible.stats.number_format import p_value, with_interval


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
        rows=tuple(Row(cells=_cells(drop, adjusted.get(id(drop)))) for drop in drops if drop.metric == metric),
        numbers=("n", "n/a", "lost", "clean", "attacked", "adjusted p"),
        note="A positive drop is worse. The control is the original sample, sent again.",
    )


def _cells(drop: Drop, adjusted: float | None) -> tuple[str, ...]:
    clean, attacked = (_number(level) for level in (drop.clean, drop.attacked))
    counts = (f"{drop.n:,}", f"{drop.inapplicable:,}", f"{drop.lost:,}")
    return (drop.attack, drop.arm, clean, attacked, _format_signed(drop.drop), *counts, p_value(adjusted))


def broken_tables(breakages: Sequence[Breakage]) -> Iterator[Table]:
    """Yield the samples that attacks broke beyond the control; nothing without any."""
    if breakages:
        yield Table(
            title="Broken samples",
            heads=("broken by", "metric", "arm", "broken", "control", "excess over the control", "n"),
            rows=tuple(
                Row(
                    cells=(
                        *(entry.attack, entry.metric, entry.arm, _number(entry.broken), _number(entry.control)),
                        *(_format_signed(entry.excess), f"{entry.n:,}"),
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


def _number(measured: Measured) -> str:
    return "-" if measured.value is None else f"{measured.value:.3f}"


def _format_signed(measured: Measured) -> str:
    return with_interval(measured.value, measured.interval, sign=True)
