"""Report files: which function renders a file, whether it can be written, and that it is written whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.report_files import ReportFile, check_writable, report_files, write_report

FORMATS = {"md": str, "forest.svg": repr, "html": "html:escape"}


@pytest.mark.parametrize(
    ("name", "render"), [("a.md", str), ("forest.svg", repr), ("v2-forest.svg", repr), ("v2.forest.svg", repr)]
)
def test_the_ending_of_a_file_chooses_its_format(tmp_path, name, render):
    (file,) = report_files([name], FORMATS, tmp_path)

    assert file == ReportFile(tmp_path / name, render)


def test_a_format_named_by_a_string_is_imported(tmp_path):
    (file,) = report_files(["page.html"], FORMATS, tmp_path)

    assert file.render("<b>") == "&lt;b&gt;"  # type: ignore[arg-type]  # not a run, for brevity


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a.htm", "report 'a.htm': nothing writes .htm: did you mean .html"),
        ("a.docx", "report 'a.docx': nothing writes .docx (known: forest.svg, html, md)"),
        ("a", "report 'a': its name has no ending that says how to write it (known: forest.svg, html, md)"),
    ],
)
def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path, name, sentence):
    with pytest.raises(SpecError) as refused:
        report_files([name], FORMATS, tmp_path)

    assert str(refused.value) == sentence


def test_a_folder_that_is_missing_is_found_before_writing(tmp_path):
    with pytest.raises(SpecError, match=r"missing' is not a directory"):
        check_writable(ReportFile(tmp_path / "missing" / "a.md", str))


def test_a_directory_cannot_be_a_report(tmp_path):
    (tmp_path / "a.md").mkdir()

    with pytest.raises(SpecError, match="cannot be written: it is a directory"):
        check_writable(ReportFile(tmp_path / "a.md", str))


def test_checking_leaves_no_file_behind(tmp_path):
    check_writable(ReportFile(tmp_path / "a.md", str))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("rendered", "content"), [("text \udc80", b"text \\udc80"), (b"\x00", b"\x00")])
def test_text_and_bytes_are_written(tmp_path, rendered, content):
    write_report(ReportFile(tmp_path / "a.md", lambda run: rendered), None)  # type: ignore[arg-type]  # the run is unused

    assert (tmp_path / "a.md").read_bytes() == content


def test_a_report_that_cannot_be_rendered_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("old")

    def fail(run: object) -> str:
        raise SpecError("no samples")

    with pytest.raises(SpecError, match="no samples"):
        write_report(ReportFile(path, fail), None)  # type: ignore[arg-type]  # the run is unused

    assert [file.read_text() for file in Path(tmp_path).iterdir()] == ["old"]
