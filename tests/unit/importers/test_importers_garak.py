"""Reports of garak: attempts, their detectors, and generations as repeats."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_crucible.importers.formats import read

FILES = Path(__file__).parents[2] / "data" / "imports"
REPORT = FILES / "garak-v2.report.jsonl"


def edited(tmp_path, edit):
    rows = [json.loads(line) for line in REPORT.read_text(encoding="utf-8").splitlines()]
    path = tmp_path / "report.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows if edit(row) is not False), encoding="utf-8")
    return read(path).results[0]


def test_an_attempt_is_a_sample_and_its_generations_are_repeats():
    results = read(REPORT).results[0]

    assert len(results.rows) == 16
    row = results.rows[2]
    assert (row.sample, row.repeat, row.reply.text[:9]) == ("test.Test:1", 0, "The quick")
    assert row.input == [{"role": "user", "content": "The quick brown fox jumps over the lazy dog"}]
    assert set(row.scores) == {"always.Pass", "always.Random"}
    assert results.facts["always.Random"].direction == "lower"
    assert results.finished


def test_a_run_that_was_cut_short_is_not_finished(tmp_path):
    results = edited(
        tmp_path, lambda row: row["entry_type"] != "completion" and not (row.get("seq") == 3 and row["status"] == 2)
    )

    assert not results.finished
    assert set(results.planned) - {row.sample for row in results.rows} == {"test.Test:3"}


def test_a_detector_without_a_score_is_lost_and_another_probes_does_not_apply(tmp_path):
    def edit(row):
        if row.get("status") == 2 and row["seq"] == 1:
            row["detector_results"]["always.Random"] = [None, 1.0]
            row["outputs"][1] = None
        if row.get("status") == 2 and row["seq"] == 2:
            del row["detector_results"]["always.Random"]

    rows = {(row.sample, row.repeat): row for row in edited(tmp_path, edit).rows}
    assert rows["test.Test:1", 0].lost == {"always.Random": "the detector gave no score"}
    assert rows["test.Test:1", 1].error == "the generator gave no reply"
    assert rows["test.Test:2", 0].scores["always.Random"] is None
