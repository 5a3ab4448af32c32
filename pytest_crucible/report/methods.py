"""Sentences for a methods section on the numbers of a run, and the publications that they cite."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_crucible.records import Comparison, Run, Statement
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.sections import section_methods
from pytest_crucible.stats.number_format import quantity

# Method to its name in a sentence and the references that it comes from.
METHODS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "wilson": ("Wilson's score interval", ("wilson1927",)),
    "t": ("Student's t", ("student1908",)),
    "paired t": ("Student's t of the paired differences", ("student1908",)),
    "cr2": (
        "cluster-robust variance (CR2) with Satterthwaite's degrees of freedom",
        ("bell2002", "pustejovsky2018"),
    ),
    "exact unconditional": (
        "exact unconditional inference on the difference of paired proportions",
        ("fagerland2013", "lloyd2007", "tango1998", "berger1994"),
    ),
    "sign flips": (
        "sign flips of the pairs' differences, whole groups together, with the studentised mean",
        ("pesarin2010", "hemerik2020"),
    ),
    "exchanged labels": (
        "exchanged labels of independent samples, or groups, with the studentised difference of means",
        ("pesarin2010",),
    ),
    "point mass": ("the exact law of equal differences", ()),
    "order statistics": ("order statistics", ("david2003",)),
    "inverted korn-graubard and gaffke": (
        "inverted bounds of the share of replies up to each value, the wider ones of Korn and Graubard and of Gaffke",
        ("woodruff1952", "korn1998", "gaffke2005"),
    ),
    "mover of order statistics": ("bounds recovered from order statistics of both arms", ("zou2008", "david2003")),
    "mover of inverted korn-graubard and gaffke": (
        "bounds recovered from those of both arms' clustered percentiles",
        ("zou2008", "woodruff1952", "korn1998", "gaffke2005"),
    ),
    "clopper-pearson": ("the exact binomial bound of Clopper and Pearson", ("clopper1934",)),
    "gaffke": ("Gaffke's bound: the values, or groups, and an end of their range, weighted at random", ("gaffke2005",)),
    "gaffke of logarithms": (
        "Gaffke's bounds for the mean logarithm of the pairs' ratios, which allow for an unseen ratio of 30",
        ("gaffke2005",),
    ),
    "swapped arms": (
        "swaps of the arms of samples, or groups, with the studentised difference of conditional means",
        ("janssen1997", "chung2013"),
    ),
    "gaffke of a ratio difference": (
        "Gaffke's bound of the linearised difference of two conditional means, the largest over their confidence sets",
        ("gaffke2005", "cochran1977", "berger1994"),
    ),
    "crossed t": (
        "Banerjee's combination of t intervals over samples and random factors",
        ("banerjee1961", "searle1992", "brennan2001"),
    ),
    "augmented crossed t": (
        "Banerjee's combination of t bounds over samples and random factors, after adding a sample (a group) at each bound, "
        "and no narrower than Gaffke's bounds by the samples",
        ("banerjee1961", "searle1992", "brennan2001", "agresti1998"),
    ),
    "score, simultaneous over pairs": (
        "skewness-corrected score bounds of pairs of slices, simultaneous by the studentized range where they prove a difference",
        ("laud2017", "berger1982", "fay2015"),
    ),
    "gaffke, simultaneous over pairs": (
        "Gaffke's bounds of differences of means of slices, simultaneous by Bonferroni where they prove a difference",
        ("gaffke2005", "berger1982"),
    ),
    "change of an extreme, gaffke": (
        "Gaffke's bounds of contrasts of the means of both arms' slices, simultaneous by Bonferroni",
        ("gaffke2005", "berger1982"),
    ),
    "wider of korn-graubard and gaffke": (
        "the wider of the Clopper-Pearson bound at the effective sample size and Gaffke's bound of groups",
        ("korn1998", "gaffke2005"),
    ),
    "tango, simultaneous over pairs": (
        "Tango's score bounds of pairs of versions, simultaneous by the studentized range where they prove a difference",
        ("tango1998", "berger1982"),
    ),
    "one-sided bounds of each slice": (
        "one-sided bounds of each slice, corrected by Bonferroni where one of them proves a target missed",
        ("berger1982",),
    ),
    "change of an extreme, cr2": (
        "simultaneous bounds of the differences of all pairs of slices between the arms, by their joint covariance (CR2)",
        ("bell2002", "berger1982"),
    ),
}


_REPEATS = "Repeats were averaged within each sample; rates, percentiles and counts are of single replies, clustered by sample. "


def method_statements(run: Run) -> Iterator[Statement]:
    """Yield the sentences on estimates, differences, bounds, p-values and percentiles of a run."""
    level = f"{(1 - run.alpha) * 100:g} %"
    repeats = _REPEATS if _has_repeats(run) else ""
    yield Statement(
        text=f"{repeats}Intervals are two-sided at {level} unless another level is beside them; n counts samples, and lost ones "
        "are counted apart."
    )
    factors = dict.fromkeys(name for analysis in run.experiments for name in analysis.plan.random_factors)
    if factors:
        yield Statement(text=f"Random factors, whose noise the intervals count: {', '.join(factors)}.")
    estimates = [result.method for analysis in run.experiments for result in analysis.estimates]
    yield from _by("Estimates", estimates)
    pairs = [result for analysis in run.experiments for result in analysis.comparisons]
    if pairs:
        yield Statement(
            text="Arms were compared on the samples that both answered: candidate minus baseline, positive where it is better."
        )
    yield from _by("Differences", [_difference_method(result) for result in pairs])
    yield from _permutation_tests([result for result in pairs if result.arrangements is not None])
    bounds = [result.evidence.method for analysis in run.experiments for result in analysis.targets]
    bounds += [result.evidence.method for result in pairs if result.contrast.limit is not None]
    all_share = any(analysis.bounds_share_alpha for analysis in run.experiments)
    bounds_alpha = run.alpha / max(run.family_size, 1) if all_share else run.alpha
    yield from _by(f"One-sided bounds, at {bounds_alpha:.3g} each,", bounds)
    reaches = list(dict.fromkeys(_reach_texts(run)))
    if reaches:
        yield Statement(
            text=f"By declaration no sample's value changes between two arms by more than {'; '.join(reaches)}; bounds of "
            "differences use it."
        )
    if any(result.p_exact is not None for result in pairs):
        yield Statement(text="Conditional p-values beside them are McNemar's.", cites=("mcnemar1947",))
    if run.family_size > 1:
        family = quantity(run.family_size, "claim" if all_share else "comparison")
        adjustment = (
            f"P-values are adjusted by Holm's procedure over the {family} of the session, in two families: those of the tests that "
            "can fail it, and those of the bounds by which a difference is called proven; intervals are not adjusted."
        )
        yield Statement(text=adjustment, cites=("holm1979",))
    yield from section_methods(run)
    version = run.environment.get("packages", {}).get("pytest-crucible", "")
    yield Statement(text=f"All was computed by pytest-crucible {version}".rstrip() + f" with seed {run.seed}.")


def cited_keys(statements: Sequence[Statement]) -> tuple[str, ...]:
    """Return every cited key once, in the order of first citation."""
    return tuple(dict.fromkeys(key for statement in statements for key in statement.cites))


def _by(what: str, names: Iterable[str]) -> Iterator[Statement]:
    """Yield one sentence that names all methods used for something."""
    # Other words, such as `no data`, are not methods.
    descriptions = [METHODS[name] for name in dict.fromkeys(names) if name in METHODS]
    if descriptions:
        keys = dict.fromkeys(key for _, cites in descriptions for key in cites)
        yield Statement(text=f"{what} are by {'; by '.join(words for words, _ in descriptions)}.", cites=tuple(keys))


def _difference_method(result: Comparison) -> str:
    """Return the method of the interval, which a permutation test does not have."""
    return result.interval.method if result.arrangements is not None and result.interval else result.method


def _permutation_tests(results: Sequence[Comparison]) -> Iterator[Statement]:
    """Yield what permutation tests claim, by which method, and how many arrangements they compare."""
    yield from _by("Tests that the replies of two arms could be exchanged", [result.method for result in results])
    if not results:
        return
    random = (
        " Random arrangements are drawn by the seed of the run." if not all(one.is_exact for one in results) else ""
    )
    counts = sorted({result.arrangements or 0 for result in results})
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    yield Statement(
        text=f"Each compares {number} arrangements, and p is the share of those as extreme as the observed one, itself included."
        f"{random} They do not show that a mean is lower or higher; that is called proven by bounds alone.",
        cites=("phipson2010", "besag1991"),
    )


def _reach_texts(run: Run) -> Iterator[str]:
    """Yield the declared reach of each metric whose comparisons use it: `0.25 (quality)`."""
    for analysis in run.experiments:
        for result in analysis.comparisons:
            facts = analysis.plan.facts.get(result.contrast.metric)
            is_used = result.contrast.statistic == "mean" and result.ratio is None and result.beyond_reach is None
            if facts is not None and facts.reach is not None and is_used:
                yield f"{facts.reach:g} ({facts.name})"


def _has_repeats(run: Run) -> bool:
    return any(analysis.plan.draws(0).size > 1 for analysis in run.experiments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One publication: the key that a paper cites it by, its BibTeX type and fields."""

    key: str
    type: str
    fields: Mapping[str, str]

    def bibtex(self) -> str:
        """Return the BibTeX entry, one field on each line."""
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.type}{{{self.key},", *lines, "}"])

    def plain(self) -> str:
        """Return `Holm, Sture (1979). A simple ... procedure. Scandinavian Journal of Statistics 6(2):65-70.`"""
        fields = {name: value.translate(_PLAIN).replace("--", "-") for name, value in self.fields.items()}
        where = fields.get("journal") or fields["publisher"]
        if "volume" in fields:
            where += f" {fields['volume']}({fields['number']}):{fields['pages']}"
        doi = f" doi:{fields['doi']}" if "doi" in fields else ""
        # BibTeX writes quotes as pairs of accents and apostrophes.
        title = fields["title"].replace("``", '"').replace("''", '"')
        if "edition" in fields:
            title += f", {fields['edition'].lower()} edition"
        return f"{fields['author']} ({fields['year']}). {title}. {where}.{doi}"


_PLAIN = {ord("\\"): None, ord("{"): None, ord("}"): None}


@cache
def known_references() -> Mapping[str, Reference]:
    """Return all that a run may cite, by key."""
    tables = tomllib.loads(Path(__file__).with_name("references.toml").read_text(encoding="utf-8"))
    return {key: Reference(key=key, type=table.pop("type"), fields=table) for key, table in tables.items()}


def find_references(keys: Sequence[str]) -> tuple[Reference, ...]:
    """Return the publications of some keys. Raises SpecError for a key that references.toml does not have."""
    references = known_references()
    unknown = next((key for key in keys if key not in references), None)
    if unknown is not None:
        raise SpecError(f"a section cites {unknown!r}, which is not a known reference (known: {', '.join(references)})")
    return tuple(references[key] for key in keys)
