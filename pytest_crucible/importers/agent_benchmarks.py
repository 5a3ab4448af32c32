"""Reports of SWE-bench and scores of the Berkeley Function Calling Leaderboard (BFCL), which name samples by their outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pytest_crucible.importers.results import NoSampleScoresError, ParsedFile, Record, Row, Source, as_text, one_arm
from pytest_crucible.importers.sources import open_source
from pytest_crucible.records import MetricFacts, Reply
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.number_format import quantity

# SWE-bench: `MODEL.RUN.json` of `run_evaluation` (https://www.swebench.com)

RESOLVED = "resolved"
_IDS = ("resolved_ids", "unresolved_ids", "error_ids", "empty_patch_ids")


def recognises_swe_bench(source: Source) -> bool:
    """Return whether the document is the report of a run."""
    document = source.document
    return isinstance(document, dict) and {"total_instances", "submitted_ids", "resolved_ids"} <= set(document)


def read_swe_bench(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file. An empty patch is not resolved; what failed for the environment is lost."""
    report: Record = source.document
    if not all(isinstance(report.get(name, []), list) for name in _IDS):
        raise SpecError(f"{source.path} has no lists of instances: write the report again with SWE-bench 2 or later")
    rows = [row for name in _IDS for row in _swe_bench_rows(report, name)]
    notes = []
    without = len(report.get("incomplete_ids") or ())
    if without:
        notes.append(f"{source.path.name}: {quantity(without, 'instance')} without a prediction, left out")
    return one_arm(
        task="swe-bench",
        # MODEL.RUN.json
        arm=source.path.stem,
        rows=rows,
        facts={RESOLVED: MetricFacts(name=RESOLVED, low=0.0, high=1.0)},
        notes=notes,
    )


def _swe_bench_rows(report: Record, name: str) -> Iterator[Row]:
    """Yield the instances with one outcome. A report from before version 5 does not say what failed for the environment."""
    faults, reasons = set(report.get("infra_failure_ids") or ()), report.get("failure_reasons") or {}
    is_classified = "infra_failure_ids" in report
    for instance in report.get(name) or ():
        if instance in faults or (name == "error_ids" and not is_classified):
            yield Row(sample=instance, error=str(reasons.get(instance) or "its evaluation ended in an error"))
        else:
            yield Row(sample=instance, scores={RESOLVED: name == "resolved_ids"})


# BFCL: `score/MODEL/.../BFCL_v4_CATEGORY_score.json`, which lists failures, beside `result/` (https://gorilla.cs.berkeley.edu)

VALID = "valid"
_SCORE = re.compile(r"(?P<test>BFCL_v\d+_.+)_score\.json")
_HEADER = {"accuracy", "correct_count", "total_count"}


def recognises_bfcl(source: Source) -> bool:
    """Return whether the first line counts right answers. A file without failures has no other line."""
    if source.rows is None:
        return isinstance(source.document, dict) and set(source.document) >= _HEADER
    return bool(source.rows) and set(source.rows[0][1]) >= _HEADER


def read_bfcl(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one category. The scores list failures only: the file of results next to them has all entries."""
    header, *failures = source.records or [source.document]
    match, path = _SCORE.fullmatch(source.path.name), source.path.resolve()
    root = next((parent for parent in path.parents if parent.name == "score"), None)
    beside = root.parent / "result" / path.relative_to(root) if root else path
    results = beside.with_name(f"{match['test']}_result.json") if match else beside
    if not (match and root and results.is_file()):
        name = match["test"] if match else "BFCL_v4_CATEGORY"
        raise NoSampleScoresError(
            f"{source.path} are scores of BFCL, which list only failures: keep the folders score and result of a run together, "
            f"since the other entries are in result/MODEL/.../{name}_result.json"
        )
    replies = {entry["id"]: entry for entry in open_source(results).records}
    failed = {failure["id"] for failure in failures}
    if len(replies) != header["total_count"]:
        raise SpecError(
            f"{source.path} counts {header['total_count']} entries and {results} has {len(replies)}: evaluate the results again"
        )
    rows = [_bfcl_row(name, entry, name not in failed) for name, entry in replies.items()]
    return one_arm(
        task=match["test"],
        arm=str(path.relative_to(root).parts[0]),
        rows=rows,
        facts={VALID: MetricFacts(name=VALID, low=0.0, high=1.0)},
    )


def _bfcl_row(name: str, entry: Record, is_valid: bool) -> Row:
    """Return an entry. One whose inference failed has a traceback, which BFCL counts as wrong: its score is lost."""
    if entry.get("traceback"):
        return Row(sample=name, error=as_text(entry.get("result") or "the inference failed").partition("\n")[0])
    return Row(sample=name, scores={VALID: is_valid}, reply=Reply(text=as_text(entry.get("result") or "")))
