"""The results of data checks and the profile of a dataset, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_crucible.records import Note, Row, Statement, Table, View
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.stats.number_format import quantity

if TYPE_CHECKING:
    # Its module imports scipy, and results of checks are shown without.
    from pytest_crucible.datasets.checks.profile import Association, FieldProfile, NumberSummary, Profile

_STATES = {"passed": "met", "warned": "undecided", "failed": "missed"}


def check_table(results: Sequence[CheckResult]) -> Table:
    """Return a row for each check."""
    rows = [
        Row(
            cells=(result.call, f"{result.checked:,}", f"{result.missing:,}", f"{result.failing:,}", result.state),
            state=_STATES[result.state],  # type: ignore[arg-type]  # a state, by the table above
            below="" if result.state == "passed" else result.message,
        )
        for result in results
    ]
    heads = ("check", "checked", "missing", "failing", "result")
    return Table(title="Data checks", heads=heads, rows=tuple(rows), numbers=("checked", "missing", "failing"))


def count_text(results: Sequence[CheckResult]) -> str:
    """Return how many checks passed, warned and failed.

    >>> count_text([CheckResult(subject="s", call="c", state="passed", message="")])
    '1 check passed'
    """
    counts = [(state, sum(result.state == state for result in results)) for state in ("failed", "warned", "passed")]
    states = [(state, count) for state, count in counts if count]
    first = f"{quantity(states[0][1], 'check')} {states[0][0]}" if states else "no checks"
    return ", ".join([first, *(f"{count} {state}" for state, count in states[1:])])


def check_view(name: str, results: Sequence[CheckResult], notes: Sequence[str] = ()) -> View:
    """Return the checks of a dataset as a page."""
    return View(
        title=f"Data checks of {name}",
        tables=(check_table(results),),
        notes=(Note(text=count_text(results)), *(Note(text=text) for text in notes)),
        document={"dataset": name, "checks": list(results)},
    )


QUALITY = {
    "complete": "fields that have a value, over all samples",
    "unique": "samples whose input no other sample has",
    "answered": "samples with an expected answer",
    "consistent": "answered samples whose input has one answer only",
    "clean": "inputs that are not empty, without control characters or signs of a wrong encoding",
    "of one type": "values of the most frequent type of their field",
}
"""Name of a share -> its denominator."""
# Rows of the table of associations, the strongest first.
MOST_ASSOCIATIONS = 30
# Longer values are texts, which a table of values cannot show.
LONGEST_VALUE = 60
_NUMBERS = ("least", "quartile", "median", "mean", "quartile 3", "most", "sd", "beyond fences", "beyond 3.5 MAD")


def profile_view(name: str, profile: Profile) -> View:
    """Return the tables of a profile."""
    tables = (
        _quality_table(profile),
        _field_table(profile),
        _number_table("Numbers", [(entry, entry.numbers) for entry in profile.fields]),
        _number_table("Lengths of texts, in characters", [(entry, entry.lengths) for entry in profile.fields]),
        _value_table(profile),
        _association_table(profile.associations),
    )
    method = (
        "Quantiles are of type 7 (Hyndman & Fan 1996), the standard deviation is that of the population. Outliers lie beyond 1.5 "
        "interquartile ranges of the quartiles (Tukey 1977), or have a modified z-score above 3.5 (Iglewicz & Hoaglin 1993). "
        "Associations are over the samples that have both values; Spearman's gives ties the mean of their ranks."
    )
    return View(
        title=f"Profile of {name}",
        tables=tables,
        notes=(Note(text=quantity(profile.samples, "sample")),),
        methods=(Statement(text=method),),
        document={"dataset": name, **_document(profile)},
    )


def _document(profile: Profile) -> dict[str, object]:
    return {
        "samples": profile.samples,
        "quality": dict(profile.quality),
        "fields": list(profile.fields),
        "associations": list(profile.associations),
    }


def _quality_table(profile: Profile) -> Table:
    rows = [
        Row(cells=(name, "-" if share is None else f"{share:.4f}", QUALITY[name]))
        for name, share in profile.quality.items()
    ]
    return Table(title="Quality", heads=("share", "value", "of"), rows=tuple(rows), numbers=("value",))


def _field_table(profile: Profile) -> Table:
    rows = [
        Row(cells=(entry.name, _types(entry), f"{entry.missing:,}", f"{entry.different:,}")) for entry in profile.fields
    ]
    heads = ("field", "types", "missing", "different")
    return Table(title="Fields", heads=heads, rows=tuple(rows), numbers=("missing", "different"))


def _types(entry: FieldProfile) -> str:
    if len(entry.types) == 1:
        return next(iter(entry.types))
    return ", ".join(f"{name} {count:,}" for name, count in entry.types.items())


def _number_table(title: str, entries: list[tuple[FieldProfile, NumberSummary | None]]) -> Table:
    rows = [Row(cells=(entry.name, *_number_cells(summary))) for entry, summary in entries if summary is not None]
    return Table(title=title, heads=("field", *_NUMBERS), rows=tuple(rows), numbers=_NUMBERS)


def _number_cells(summary: NumberSummary) -> Iterator[str]:
    values = (
        *(summary.minimum, summary.lower_quartile, summary.median, summary.mean),
        *(summary.upper_quartile, summary.maximum, summary.stdev),
    )
    yield from (f"{value:.6g}" for value in values)
    yield f"{summary.beyond_fences:,}"
    yield f"{summary.beyond_deviations:,}"


def _value_table(profile: Profile) -> Table:
    rows = [
        Row(cells=(entry.name, ", ".join(f"{value} {count:,}" for value, count in entry.values.items())))
        for entry in profile.fields
        if entry.values and entry.name != "id" and max(map(len, entry.values)) <= LONGEST_VALUE
    ]
    return Table(title="Most frequent values", heads=("field", "values"), rows=tuple(rows))


def _association_table(associations: tuple[Association, ...]) -> Table:
    rows = [
        Row(cells=(*item.fields, item.measure, f"{item.value:.4f}", f"{item.n:,}"))
        for item in associations[:MOST_ASSOCIATIONS]
    ]
    more = len(associations) - len(rows)
    return Table(
        title="Associations",
        heads=("field", "and", "measure", "value", "n"),
        rows=tuple(rows),
        numbers=("value", "n"),
        note=f"{more:,} weaker ones are in the JSON file." if more else "",
    )
