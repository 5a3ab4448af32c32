"""Contamination and drift as a section of reports and as pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.features.contamination.compare import LEAST_COSINE, Similar
from pytest_crucible.features.contamination.drift import MOST_CODES, PLACES, DriftReport, DriftRow
from pytest_crucible.features.contamination.matching import OVERLAPS, SHORT, ArmOverlap, How, Overlap
from pytest_crucible.records import Claim, Note, Row, State, Statement, Table, View
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.data_drift import FieldDrift
from pytest_crucible.stats.number_format import p_value, quantity

decides = False  # no claim of it can fail the session


def compute(inputs: SectionInputs) -> tuple[ArmOverlap, ...] | None:
    """Return the overlaps of the arms with their training files; None without a known training file."""
    return OVERLAPS.of(inputs.plan) or None


def claims(overlaps: Sequence[ArmOverlap]) -> Sequence[Claim]:
    """Return nothing: verdicts are decided again without the matched samples."""
    return ()


def view(overlaps: Sequence[ArmOverlap], claims: Sequence[Claim]) -> View:
    """Return a note for each arm, and tables of files and matched samples."""
    files = {overlap.file: overlap for arm in overlaps for overlap in arm.files}
    compared = list(files.values())
    notes = (
        Note(
            text=f"training data of {arm.arm}: {'; '.join(map(overlap_text, arm.files))}",
            verbosity=0 if any(overlap.matches or overlap.problem for overlap in arm.files) else 1,
        )
        for arm in overlaps
    )
    return View(
        title="Contamination",
        tables=(
            replace(overlap_table(compared), verbosity=2),
            *(replace(table, verbosity=3) for table in match_tables(compared)),
        ),
        notes=tuple(notes),
        methods=(Statement(text=METHOD + " Verdicts are decided with and without the matched samples."),),
        document=[{"arm": arm.arm, "files": list(arm.files)} for arm in overlaps],
    )


# Rows of the table of matches: more are not read, and JSON has all.
MOST_MATCHES = 100

_HOW: tuple[How, ...] = ("exact", "long", "near", "group")


def overlap_text(overlap: Overlap) -> str:
    """Return the result of one file in a sentence.

    >>> overlap_text(Overlap(file="train.jsonl", problem="it does not exist"))
    'train.jsonl cannot be checked: it does not exist'
    """
    if overlap.problem:
        return f"{overlap.file} cannot be checked: {overlap.problem}"
    counts = Counter(match.how for match in overlap.matches)
    kinds = ", ".join(f"{counts[how]} {how}" for how in _HOW if counts[how])
    others = sum(match.other_answer for match in overlap.matches)
    answers = f"; {others:,} of them with another answer" if others else ""
    details = f" ({kinds}{answers})" if overlap.matches else ""
    verb = "matches" if len(overlap.matches) == 1 else "match"
    return f"{len(overlap.matches):,} of {quantity(overlap.samples, 'sample')} {verb} {overlap.file}{details}"


def overlap_table(overlaps: Sequence[Overlap]) -> Table:
    """Return a row for each file."""
    further = ("other answer", "J >= near", "J >= 0.5", "8 words", "too short")
    heads = ("file", "rows", "samples", "matched", *_HOW, *further)
    return Table(
        title="Training files",
        heads=heads,
        rows=tuple(Row(cells=_cells(overlap), below=overlap.problem) for overlap in overlaps),
        numbers=heads[1:],
        note="J is the Jaccard similarity of the words; 8 words: samples that share a sequence of "
        f"{SHORT} words; too short: samples of fewer words.",
    )


def match_tables(overlaps: Sequence[Overlap]) -> Iterator[Table]:
    """Yield the matched samples, and apart from them those whose rows have another answer."""
    for title, other in (("Matched samples", False), ("Matched samples, with another answer", True)):
        matches = [
            (overlap.file, match) for overlap in overlaps for match in overlap.matches if match.other_answer == other
        ]
        yield Table(
            title=title,
            heads=("sample", "match", "similarity", "file", "row"),
            rows=tuple(
                Row(cells=(match.sample, match.how, f"{match.similarity:.3f}", file, f"{match.row:,}"))
                for file, match in matches[:MOST_MATCHES]
            ),
            numbers=("similarity", "row"),
            note=f"{len(matches) - MOST_MATCHES:,} more are in the JSON." if len(matches) > MOST_MATCHES else "",
        )


def overlap_view(
    name: str,
    overlaps: Sequence[Overlap],
    lines: Sequence[str] = (),
    tests: Mapping[str, Any] | None = None,
    similar: Sequence[tuple[str, Similar]] | None = None,
) -> View:
    """Return the comparison of a dataset with training files as a page, and the lines of tests of memorisation.

    `similar` are the samples with similar embeddings, by file; None if these were not compared.
    """
    tables = (overlap_table(overlaps), *match_tables(overlaps)) if overlaps else ()
    if similar is not None:
        tables = (*tables, _similar_table(similar))
        tests = {**(tests or {}), "similar": [{"file": file, **to_plain(entry)} for file, entry in similar]}
    return View(
        title=f"Contamination of {name}",
        tables=tables,
        notes=tuple(Note(text=text) for text in (*map(overlap_text, overlaps), *lines)),
        methods=(Statement(text=METHOD),) if overlaps else (),
        document={"dataset": name, "files": list(overlaps), **(tests or {})},
    )


def _similar_table(similar: Sequence[tuple[str, Similar]]) -> Table:
    rows = [Row(cells=(entry.sample, f"{entry.cosine:.3f}", file, f"{entry.row:,}")) for file, entry in similar]
    return Table(
        title="Similar embeddings",
        heads=("sample", "cosine", "file", "row"),
        rows=tuple(rows[:MOST_MATCHES]),
        numbers=("cosine", "row"),
        note=f"Cosines of at least {LEAST_COSINE:g}; they are listed, and no verdict leaves these samples out.",
    )


METHOD = (
    "A sample matches a training row if their texts are equal after normalising (exact), if the row contains at least half of the "
    "sample's sequences of 13 words (long), if the Jaccard similarity of their words is at least that of `near` (near), or if both "
    "have one group. Each sample has its strongest match."
)


def _cells(overlap: Overlap) -> tuple[str, ...]:
    if overlap.problem:
        return (overlap.file, "-", f"{overlap.samples:,}", "cannot be checked", *["-"] * 9)
    counts = Counter(match.how for match in overlap.matches)
    others = sum(match.other_answer for match in overlap.matches)
    numbers = (overlap.rows, overlap.samples, len(overlap.matches), *(counts[how] for how in _HOW), others)
    further = (overlap.similar_near, overlap.similar, overlap.shared, overlap.too_short)
    return (overlap.file, *(f"{number:,}" for number in (*numbers, *further)))


def drift_view(old: str, new: str, report: DriftReport, vectors: str = "TF-IDF vectors") -> View:
    """Return a row for each field, and the method. `vectors` names those of texts."""
    heads = ("field", "test", "n", "missing", "distance (bound)", "p", "p (Holm)", "PSI - expected", "result")
    table = Table(
        title="Drift",
        heads=heads,
        rows=tuple(Row(cells=_drift_cells(row, report), state=_state(row, report)) for row in report.rows),
        # With missing values the cell has two p-values.
        numbers=("p (Holm)", "PSI - expected", *(() if any(row.missing_drift for row in report.rows) else ("p",))),
    )
    return View(
        title=f"Drift from {old} to {new}",
        tables=(table,),
        notes=tuple(Note(text=text) for text in _notes(report)),
        methods=(Statement(text=_method(report, vectors)),),
        document={
            "old": old,
            "new": new,
            "vectors": vectors,
            "alpha": report.alpha,
            "margin": report.margin,
            "seed": report.seed,
            "only_old": report.only_old,
            "only_new": report.only_new,
            "fields": [_document(row, report) for row in report.rows],
        },
    )


def _notes(report: DriftReport) -> Sequence[str]:
    failed = [row.field for row in report.failed]
    beyond = "" if report.margin is None else f" beyond the margin {report.margin:g}"
    names = f": {', '.join(failed)}" if failed else ""
    notes = [f"drift{beyond} is proven in {quantity(len(failed), 'field')} of {len(report.rows)}{names}"]
    if any(report.left_out):
        old, new = report.left_out
        notes.append(
            f"one row of each group is compared: {old:,} of the old rows and {new:,} of the new ones are left out"
        )
    for fields, which in ((report.only_old, "old"), (report.only_new, "new")):
        if fields:
            notes.append(f"only the {which} dataset has {', '.join(fields)}")
    return notes


def _drift_cells(row: DriftRow, report: DriftReport) -> tuple[str, ...]:
    drift = row.drift
    missing = f"{row.missing[0]:,}, {row.missing[1]:,}" if any(row.missing) else "0"
    if not row.parts:
        return (row.field, "-", "-", missing, "-", "-", "-", "-", f"not compared: {row.note}")
    stability = "-" if row.stability is None else f"{row.stability[0] - row.stability[1]:+.3f}"
    return (
        row.field,
        *(("-", "-") if drift is None else (drift.test, f"{drift.n[0]:,}, {drift.n[1]:,}")),
        missing,
        _join_parts(row, _distance),
        _join_parts(row, lambda each: p_value(each.p_value)),
        p_value(row.p_adjusted),
        stability,
        result_text(row, report.alpha),
    )


def _join_parts(row: DriftRow, text: Callable[[FieldDrift], str]) -> str:
    """Return a cell on the values and, where some are missing, on the shares of missing values."""
    of_values = "-" if row.drift is None else text(row.drift)
    return of_values if row.missing_drift is None else f"{of_values}; missing {text(row.missing_drift)}"


def _distance(drift: FieldDrift) -> str:
    # Only the upper bound: the lower one is more cautious than the test, and would be 0 for some proven drifts.
    upper = drift.upper(0.05)
    return "-" if upper is None else f"{drift.distance:.3f} (<= {upper:.3f})"


def result_text(row: DriftRow, alpha: float) -> str:
    """Return the result of a field in a few words."""
    proven = "drift proven" if row.is_proven(alpha) else "no drift proven"
    note = f"; {row.note}" if row.note else ""
    if row.state is None:
        return f"{proven}{note}"
    return f"{proven}, {PLACES[row.state]} the margin{note}"


def _state(row: DriftRow, report: DriftReport) -> State:
    if not row.parts:
        return "undecided"
    return row.state or ("missed" if row.fails(report.alpha) else "met")


def _method(report: DriftReport, vectors: str) -> str:
    return (
        "Numbers are compared by the Kolmogorov-Smirnov test (labels are permuted where values are tied), categories and "
        f"numbers of at most {MOST_CODES} different values by the chi-squared test (labels are permuted where expected counts "
        f"are small), texts by the maximum mean discrepancy of {vectors} with permuted labels, and shares of missing values by "
        "the chi-squared test. p-values are adjusted over both comparisons of a field (Bonferroni) and over all fields (Holm). "
        "The distance is the largest difference of the distribution functions, or the total variation distance; its upper "
        "bound at 95 % follows from McDiarmid's inequality. PSI is shown minus its mean over permuted labels. alpha is "
        f"{report.alpha:g}, the seed {report.seed}."
    )


_FACTS = ("test", "n", "statistic", "p", "distance", "distance_low", "distance_high", "seed")


def _facts(drift: FieldDrift | None) -> dict[str, object]:
    """Return the facts of a comparison by name; None for each where there was none."""
    if drift is None:
        return dict.fromkeys(_FACTS)
    tested = drift.test, drift.n, drift.statistic, drift.p_value
    return dict(zip(_FACTS, (*tested, drift.distance, drift.lower(0.05), drift.upper(0.05), drift.seed), strict=True))


def _document(row: DriftRow, report: DriftReport) -> dict[str, object]:
    own, missing = _facts(row.drift), _facts(row.missing_drift)
    distance = ("distance", "distance_low", "distance_high")
    return {
        "field": row.field,
        "kind": row.kind,
        **{name: own[name] for name in ("test", "n")},
        "missing": row.missing,
        **{f"missing_{name}": missing[name] for name in ("test", "p", *distance)},
        **{name: own[name] for name in ("statistic", "p")},
        "p_adjusted": row.p_adjusted,
        **{name: own[name] for name in distance},
        "psi": row.stability and row.stability[0],
        "psi_expected": row.stability and row.stability[1],
        "seed": own["seed"],
        "state": _state(row, report),
        "note": row.note,
    }
