"""The progress of a run as finished texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_crucible.features.view.live.progress import ArmProgress, ExperimentProgress, RunProgress
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Row, Table
from pytest_crucible.stats.number_format import number, quantity, three_digits

_NONE = "-"
Rates = Mapping[tuple[int, str], float]
"""By number of the experiment and name of the arm, replies per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLine:
    """The line of one arm."""

    name: str
    planned: int
    done: int
    text: str
    """Both as text, such as `412 of 1,319`."""
    rate: str
    failed: str
    lost: str
    reused: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentLayout:
    """The tables of one experiment."""

    number: int
    title: str
    withheld: str
    """The reason why nothing is sent; empty if it is."""
    lines: tuple[ArmLine, ...]
    means: Table | None
    usage: Table | None


def lay_out(progress: RunProgress, rates: Rates) -> tuple[ExperimentLayout, ...]:
    """Return the tables of each experiment of a run."""
    return tuple(
        ExperimentLayout(
            number=experiment.number,
            title=experiment.nodeid,
            withheld=experiment.withheld,
            lines=tuple(_arm_line(arm, rates.get((experiment.number, arm.name))) for arm in experiment.arms),
            means=_means_table(experiment),
            usage=experiment.usage,
        )
        for experiment in progress.experiments
    )


def progress_sentence(progress: RunProgress) -> str:
    """Return what screen readers announce, such as `412 of 1,319 replies, 3 lost`."""
    lost = progress.lost
    return f"{progress.done:,} of {quantity(progress.planned, 'reply')}" + (f", {lost:,} lost" if lost else "")


def _arm_line(arm: ArmProgress, rate: float | None) -> ArmLine:
    counts = arm.counts
    lost = [_amounts(counts.lost), *(f"{text} scores" for text in _amount_texts(counts.lost_scores))]
    failed = [_amounts(counts.failed), f"{counts.skipped:,} skipped" if counts.skipped else ""]
    reused = [
        f"{arm.copied:,} from run {arm.source}" if arm.copied else "",
        f"{arm.cached:,} cached" if arm.cached else "",
    ]
    return ArmLine(
        name=arm.name,
        planned=arm.planned,
        done=min(counts.done, arm.planned),
        text=f"{counts.done:,} of {arm.planned:,}",
        rate=_NONE if rate is None else three_digits(rate),
        failed=_join(failed),
        lost=_join(lost),
        reused=_join(reused),
    )


def _amounts(counts: Mapping[str, int]) -> str:
    return ", ".join(_amount_texts(counts))


def _amount_texts(counts: Mapping[str, int]) -> Iterator[str]:
    return (f"{n:,} {kind}" for kind, n in sorted(counts.items()))


def _join(texts: list[str]) -> str:
    return ", ".join(filter(None, texts)) or _NONE


def _means_table(experiment: ExperimentProgress) -> Table | None:
    """Return a row for each metric, planned ones from the beginning, so that the page does not jump."""
    by_arm = [{mean.metric: mean for mean in arm.means} for arm in experiment.arms]
    metrics = dict.fromkeys((*experiment.metrics, *(name for means in by_arm for name in means)))
    rows = tuple(
        Row(
            cells=(
                name,
                *(f"{number(m.mean)} (n = {m.n:,})" if (m := means.get(name)) else _NONE for means in by_arm),
            )
        )
        for name in metrics
    )
    heads = ("metric", *(arm.name for arm in experiment.arms))
    return Table(title="Mean so far", heads=heads, rows=rows) if rows else None
