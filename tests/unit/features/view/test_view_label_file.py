"""The file of labels: each label is durable, and what others wrote stays."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.datasets.labels import ID_COLUMNS, KEY_COLUMNS
from pytest_crucible.features.view.label_file import LabelConflict, LabelFile
from pytest_crucible.records.errors import SpecError

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["anna", "ben"]), st.sampled_from(["good", "poor", ""]), TEXTS, st.booleans()
    ),
    max_size=25,
)


def ids(number: int) -> dict[str, str]:
    return dict(zip(ID_COLUMNS, ("r1", "test_it", f"=q{number}", "", f"{number:032x}", "all", "4"), strict=True))


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@given(actions=ACTIONS)
def test_labels_of_two_people_with_restarts_give_the_file_of_a_naive_model(actions):
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / "labels.csv", {}
        file = LabelFile(path)
        for number, person, label, note, restarts in actions:
            file = LabelFile(path) if restarts else file
            before = model.get((number, person), ("", ""))[0]
            file.record(ids(number), person, label, note, before=before)
            model[number, person] = label, note
        rows = LabelFile(path).table().rows

        order = list(dict.fromkeys(number for number, *_ in actions))
        assert [row["reply_sha256"] for row in rows] == [f"{number:032x}" for number in order]
        for number, row in zip(order, rows, strict=True):
            for person in {person for _, person, *_ in actions}:
                assert (row[person], row[f"{person} note"]) == model.get((number, person), ("", ""))
        assert os.listdir(folder) == ["labels.csv"]


def test_an_existing_file_keeps_its_columns_rows_and_line_ends(tmp_path):
    path = tmp_path / "labels.csv"
    head = ["checked", *ID_COLUMNS, "ben", "ben note"]
    row = ["by hand", *ids(1).values(), "poor", "too short"]
    path.write_bytes(("\ufeff" + ",".join(head) + "\n" + ",".join(row) + "\n").encode())
    path.chmod(0o640)

    LabelFile(path).record(ids(2), "anna", "good", "", before="")

    assert path.read_bytes().startswith(b"\xef\xbb\xbfchecked,run,")
    assert b"\r" not in path.read_bytes()
    assert path.read_text(encoding="utf-8-sig").splitlines()[0] == ",".join([*head, "anna", "anna note"])
    assert path.stat().st_mode & 0o777 == 0o640
    first, second = LabelFile(path).table().rows
    assert (first["checked"], first["ben"], first["anna"]) == ("by hand", "poor", "")
    assert (second["checked"], second["ben"], second["anna"]) == ("", "", "good")


def test_no_cell_is_a_formula_of_a_spreadsheet(tmp_path):
    file = LabelFile(tmp_path / "labels.csv")
    file.record(ids(1), "anna", "+", "=HYPERLINK(1)", before="")

    (row,) = cells(tmp_path / "labels.csv")
    assert (row["sample"], row["anna"], row["anna note"]) == ("'=q1", "'+", "'=HYPERLINK(1)")
    assert file.table().rows[0]["anna note"] == "=HYPERLINK(1)"


def test_a_label_that_was_changed_elsewhere_is_not_overwritten(tmp_path):
    path = tmp_path / "labels.csv"
    first, other = LabelFile(path), LabelFile(path)
    first.record(ids(1), "anna", "good", "", before="")

    with pytest.raises(LabelConflict, match="labelled 'good' elsewhere"):
        other.record(ids(1), "anna", "poor", "", before="")

    assert cells(path)[0]["anna"] == "good"


def test_dashboards_that_write_at_once_lose_no_label(tmp_path):
    files = [LabelFile(tmp_path / "labels.csv") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: files[k % 4].record(ids(k), f"p{k % 3}", "good", "", before=""), range(120)))

    assert sorted(row["sample"] for row in files[0].table().rows) == sorted(ids(k)["sample"] for k in range(120))


def test_a_dashboard_that_writes_right_after_another_one_is_not_overwritten(tmp_path, monkeypatch):
    file, other = LabelFile(tmp_path / "labels.csv"), LabelFile(tmp_path / "labels.csv")
    replace = os.replace

    def replace_and_lose_the_turn(draft, path):
        replace(draft, path)
        monkeypatch.undo()
        other.record(ids(2), "ben", "good", "", before="")

    monkeypatch.setattr(os, "replace", replace_and_lose_the_turn)
    file.record(ids(1), "anna", "good", "", before="")
    file.record(ids(3), "anna", "good", "", before="")

    assert [row["sample"] for row in cells(tmp_path / "labels.csv")] == ["'=q1", "'=q2", "'=q3"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "is not a file of labels: expected one column 'run'"),
        ("", "is not a file of labels"),
        (",".join([*ID_COLUMNS, *KEY_COLUMNS]) + "\n", "is not a file of labels: expected one column 'experiment'"),
        (",".join(ID_COLUMNS) + "\nr1,t,q\n", "line 2 of .* has 3 cells under 7 columns"),
        (",".join(ID_COLUMNS) + "\nr1,t,q,,x,all,many\n", "stratum_size 'many', which is not a number"),
        (",".join(ID_COLUMNS) + 2 * "\nr1,t,q,,x,all,4", "line 3 of .* has a reply that an earlier line has"),
        ('"unclosed\n', "is not CSV"),
    ],
)
def test_another_table_is_refused_and_stays_as_it_is(tmp_path, text, sentence):
    path = tmp_path / "labels.csv"
    path.write_text(text)

    with pytest.raises(SpecError, match=sentence):
        LabelFile(path)

    assert path.read_text() == text


def test_a_file_that_became_another_table_is_not_overwritten(tmp_path):
    path = tmp_path / "labels.csv"
    file = LabelFile(path)
    path.write_text("my,own\ntable,now\n")

    with pytest.raises(SpecError, match="is not a file of labels"):
        file.record(ids(1), "anna", "good", "", before="")
    assert path.read_text() == "my,own\ntable,now\n"

    path.unlink()
    with pytest.raises(SpecError, match="is gone: put it back"):
        file.record(ids(1), "anna", "good", "", before="")


def test_a_folder_that_cannot_be_written_is_refused_before_serving(tmp_path):
    with pytest.raises(SpecError, match="cannot be written"):
        LabelFile(tmp_path / "no folder" / "labels.csv")


def test_a_link_to_the_file_stays_a_link(tmp_path):
    link = tmp_path / "link.csv"
    LabelFile(tmp_path / "labels.csv")
    link.symlink_to(tmp_path / "labels.csv")

    LabelFile(link).record(ids(1), "anna", "good", "", before="")

    assert link.is_symlink()
    assert len(cells(tmp_path / "labels.csv")) == 1


LABELS_UNTIL_KILLED = """
import sys
from pathlib import Path
from pytest_crucible.datasets.labels import ID_COLUMNS
from pytest_crucible.features.view.label_file import LabelFile
file = LabelFile(Path(sys.argv[1]))
for number in range(10_000):
    ids = dict(zip(ID_COLUMNS, ("r1", "test_it", f"q{number}", "", f"{number:032x}", "all", "4")))
    file.record(ids, "anna", "good", "", before="")
    print(number, flush=True)
"""


def test_a_program_that_is_killed_loses_no_label_that_it_confirmed(tmp_path):
    path = tmp_path / "labels.csv"
    with subprocess.Popen(
        [sys.executable, "-c", LABELS_UNTIL_KILLED, str(path)], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        confirmed = [program.stdout.readline() for _ in range(20)]
        program.kill()
        confirmed += program.stdout.readlines()

    samples = [row["sample"] for row in LabelFile(path).table().rows]
    assert samples[: len(confirmed)] == [f"q{number}" for number in range(len(confirmed))]
    assert len(samples) <= len(confirmed) + 1


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path, make):
    path = tmp_path / "labels.csv"
    make(path)
    with pytest.raises(SpecError, match="is not a file that can be written: name another one"):
        LabelFile(path)
    os.rename(path, tmp_path / "odd")

    labels = LabelFile(path)
    path.unlink()
    os.rename(tmp_path / "odd", path)
    with pytest.raises(SpecError, match="is not a file"):
        labels.record(ids(1), "anna", "good", "", before="")


def test_a_file_that_became_read_only_stays_as_it_is(tmp_path, monkeypatch):
    """An administrator may write it all the same, which is why its rights are looked up."""
    labels = LabelFile(tmp_path / "labels.csv")
    before = labels.path.read_bytes()
    monkeypatch.setattr(os, "access", lambda path, mode: path != labels.path)

    with pytest.raises(PermissionError, match="read-only"):
        labels.record(ids(1), "anna", "good", "", before="")
    assert labels.path.read_bytes() == before
