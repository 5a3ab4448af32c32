"""How the numbers of a run were got: sentences for a methods section, each with what it cites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.numerals import counted
from pytest_crucible.records import Run

METHODS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "wilson": ("Wilson's score interval", ("wilson1927",)),
    "korn-graubard": ("the Clopper-Pearson interval at the effective sample size of clustered values", ("korn1998",)),
    "t": ("Student's t", ("student1908",)),
    "paired t": ("Student's t of the paired differences", ("student1908",)),
    "cr2": (
        "cluster-robust variance (CR2) with Satterthwaite's degrees of freedom",
        ("bell2002", "pustejovsky2018"),
    ),
    "tango": ("Tango's score interval of the difference of paired proportions, with its p-value", ("tango1998",)),
    "point mass": ("the exact law of equal differences", ()),
    "order statistics": ("order statistics", ("david2003",)),
    "clopper-pearson": ("the exact binomial bound of Clopper and Pearson", ("clopper1934",)),
    "augmented t": ("Student's t after adding one observation at each bound", ("student1908", "agresti1998")),
    "augmented cr2": (
        "cluster-robust variance (CR2) after adding a group at each bound",
        ("bell2002", "pustejovsky2018", "agresti1998"),
    ),
    "augmented korn-graubard": (
        "the Clopper-Pearson bound at the effective sample size, after adding a group at each bound",
        ("korn1998", "agresti1998"),
    ),
}
"""What a method is called in a sentence, and what it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One sentence, with the keys of what it cites."""

    text: str
    cites: tuple[str, ...] = ()


def methods(run: Run) -> Iterator[Statement]:
    """How estimates, differences, bounds, p-values and percentiles of this run came about."""
    level = f"{(1 - run.alpha) * 100:g} %"
    repeats = "Repeats were averaged within each sample. " if _has_repeats(run) else ""
    yield Statement(
        text=f"{repeats}Intervals are two-sided at {level}; n counts samples, and lost ones are counted apart."
    )
    estimates = [one.method for analysis in run.experiments for one in analysis.estimates]
    yield from _by("Estimates", estimates)
    pairs = [one for analysis in run.experiments for one in analysis.comparisons]
    if pairs:
        yield Statement(
            text="Arms were compared on the samples that both answered: candidate minus baseline, positive where it is better."
        )
    yield from _by("Differences", [one.method for one in pairs])
    bounds = [one.evidence.method for analysis in run.experiments for one in analysis.targets]
    bounds += [one.evidence.method for one in pairs if one.contrast.margin is not None]
    yield from _by(f"One-sided bounds, at {run.alpha:g} each,", bounds)
    if any(one.p_exact is not None for one in pairs):
        yield Statement(text="Exact p-values beside them are McNemar's or those of sign flips.", cites=("mcnemar1947",))
    if run.questions > 1:
        told = (
            f"P-values are adjusted by Holm's procedure over the {counted(run.questions, 'comparison')} of the session."
        )
        yield Statement(text=told, cites=("holm1979",))
    if any(usage.latency is not None for analysis in run.experiments for usage in analysis.usage):
        told = "Percentiles are linear between order statistics (type 7), their intervals by order statistics."
        yield Statement(text=told, cites=("hyndman1996", "david2003"))
    if any(any(lost.values()) for analysis in run.experiments for lost in analysis.lost.values()):
        yield Statement(text="A verdict is called proven only where it holds whatever the lost values were.")
    version = run.environment.get("packages", {}).get("pytest-crucible", "")
    yield Statement(text=f"All was computed by pytest-crucible {version}".rstrip() + f" with seed {run.seed}.")


def cited(statements: Sequence[Statement]) -> tuple[str, ...]:
    """Every key once, in the order of first citation."""
    return tuple(dict.fromkeys(key for one in statements for key in one.cites))


def _by(what: str, names: Iterable[str]) -> Iterator[Statement]:
    """One sentence for all methods that were used for something; other words, such as `no data`, are no method."""
    known = [METHODS[name] for name in dict.fromkeys(names) if name in METHODS]
    if known:
        keys = dict.fromkeys(key for _, cites in known for key in cites)
        yield Statement(text=f"{what} are by {'; by '.join(words for words, _ in known)}.", cites=tuple(keys))


def _has_repeats(run: Run) -> bool:
    return any(analysis.plan.epochs > 1 for analysis in run.experiments)
