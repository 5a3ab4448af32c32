"""The drift between two datasets as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_crucible.datasets.contamination.drift import MOST_CODES, DriftReport, DriftRow
from pytest_crucible.records import Note, Row, State, Statement, Table, View
from pytest_crucible.stats.data_drift import FieldDrift
from pytest_crucible.stats.number_format import p_value, quantity


def drift_view(old: str, new: str, report: DriftReport, vectors: str = "TF-IDF vectors") -> View:
    """Return a row for each field, and the method. `vectors` names those of texts."""
    heads = ("field", "test", "n", "missing", "distance (bound)", "p", "p (Holm)", "PSI - expected", "result")
    table = Table(
        title="Drift",
        heads=heads,
        rows=tuple(Row(cells=_cells(row, report), state=_state(row, report)) for row in report.rows),
        # With missing values the cell has two p-values.
        numbers=("p (Holm)", "PSI - expected", *(() if any(row.missing_drift for row in report.rows) else ("p",))),
    )
    return View(
        title=f"Drift from {old} to {new}",
        tables=(table,),
        notes=tuple(Note(text=text) for text in _notes(report)),
        methods=(Statement(text=_method(report, vectors)),),
        document={"old": old, "new": new, "vectors": vectors, **_document(report)},
    )


def _notes(report: DriftReport) -> Sequence[str]:
    failed = [row.field for row in report.failed]
    beyond = "" if report.margin is None else f" beyond the margin {report.margin:g}"
    notes = [
        f"drift{beyond} is proven in {quantity(len(failed), 'field')} of {len(report.rows)}"
        + (f": {', '.join(failed)}" if failed else "")
    ]
    if any(report.left_out):
        old, new = report.left_out
        notes.append(
            f"one row of each group is compared: {old:,} of the old rows and {new:,} of the new ones are left out"
        )
    for fields, which in ((report.only_old, "old"), (report.only_new, "new")):
        if fields:
            notes.append(f"only the {which} dataset has {', '.join(fields)}")
    return notes


def _cells(row: DriftRow, report: DriftReport) -> tuple[str, ...]:
    drift = row.drift
    missing = f"{row.missing[0]:,}, {row.missing[1]:,}" if any(row.missing) else "0"
    if not row.parts:
        return (row.field, "-", "-", missing, "-", "-", "-", "-", f"not compared: {row.note}")
    stability = "-" if row.stability is None else f"{row.stability[0] - row.stability[1]:+.3f}"
    return (
        row.field,
        "-" if drift is None else drift.test,
        "-" if drift is None else f"{drift.n[0]:,}, {drift.n[1]:,}",
        missing,
        _joined(row, _distance),
        _joined(row, lambda each: p_value(each.p_value)),
        p_value(row.p_adjusted),
        stability,
        result_text(row, report.alpha),
    )


def _joined(row: DriftRow, text: Callable[[FieldDrift], str]) -> str:
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
    place = {
        "met": "within the margin",
        "missed": "beyond the margin",
        "undecided": "not shown to be within the margin",
    }
    return f"{proven}, {place[row.state]}{note}"


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


def _document(report: DriftReport) -> dict[str, object]:
    return {
        "alpha": report.alpha,
        "margin": report.margin,
        "seed": report.seed,
        "only_old": report.only_old,
        "only_new": report.only_new,
        "fields": [
            {
                "field": row.field,
                "kind": row.kind,
                "test": row.drift and row.drift.test,
                "n": row.drift and row.drift.n,
                "missing": row.missing,
                "missing_test": row.missing_drift and row.missing_drift.test,
                "missing_p": row.missing_drift and row.missing_drift.p_value,
                "missing_distance": row.missing_drift and row.missing_drift.distance,
                "missing_distance_low": row.missing_drift and row.missing_drift.lower(0.05),
                "missing_distance_high": row.missing_drift and row.missing_drift.upper(0.05),
                "statistic": row.drift and row.drift.statistic,
                "p": row.drift and row.drift.p_value,
                "p_adjusted": row.p_adjusted,
                "distance": row.drift and row.drift.distance,
                "distance_low": row.drift and row.drift.lower(0.05),
                "distance_high": row.drift and row.drift.upper(0.05),
                "psi": row.stability and row.stability[0],
                "psi_expected": row.stability and row.stability[1],
                "seed": row.drift and row.drift.seed,
                "state": _state(row, report),
                "note": row.note,
            }
            for row in report.rows
        ],
    }
