"""Checkpoints on disk: whole or not at all, never changed, gone when their time is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.local_model.server.archive import (
    SAMPLER,
    Archive,
    CheckpointInfo,
    CheckpointPath,
    MissingCheckpoint,
    format_time,
)

PATH = CheckpointPath("S:train:0", SAMPLER, "step20")
ABOUT = CheckpointInfo("crucible/tiny", "abc", {"rank": 8}, created=1000.0, user_metadata={"a": "b"})


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def archive(tmp_path, clock):
    return Archive(tmp_path, clock)


def write(archive, path=PATH, about=ABOUT, content=b"weights", **options):
    with archive.write_checkpoint(path, about, **options) as directory:
        (directory / "weights").write_bytes(content)


def test_a_checkpoint_is_found_as_it_was_written(archive):
    write(archive)

    result = archive.find(PATH)

    assert (result.path, result.info) == (PATH, ABOUT)
    assert (result.directory / "weights").read_bytes() == b"weights"
    assert result.size > len(b"weights")


def test_a_name_is_taken_once_unless_overwriting_is_allowed(archive, tmp_path):
    write(archive)
    with pytest.raises(FileExistsError, match="tinker://S:train:0/sampler_weights/step20 exists already"):
        write(archive, content=b"other")
    assert (archive.find(PATH).directory / "weights").read_bytes() == b"weights"

    write(archive, content=b"other", overwrite=True)
    assert (Archive(tmp_path).find(PATH).directory / "weights").read_bytes() == b"other"


def test_a_write_that_fails_leaves_nothing(archive, tmp_path):
    with pytest.raises(ZeroDivisionError), archive.write_checkpoint(PATH, ABOUT) as directory:
        divmod((directory / "weights").write_bytes(b"half"), 0)

    assert archive.all() == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_checkpoint_is_gone_when_its_time_is_over(archive, clock, tmp_path):
    write(archive, about=replace(ABOUT, expires=1500.0))
    clock.now = 1499.0

    assert archive.find(PATH)

    clock.now = 1500.0
    with pytest.raises(MissingCheckpoint, match=r"expired at 1970-01-01T00:25:00\+00:00"):
        archive.find(PATH)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_lists_show_the_newest_first_and_nothing_expired(archive):
    for number, expires in enumerate([None, 999.0, None]):
        about = replace(ABOUT, created=float(number), expires=expires)
        write(archive, replace(PATH, run=f"S:train:{number}"), about)

    assert [item.path.run for item in archive.all()] == ["S:train:2", "S:train:0"]
    assert [item.path.run for item in archive.all("S:train:0")] == ["S:train:0"]
    assert archive.all("S:train:1") == []


def test_the_description_can_change_but_not_the_weights(archive):
    write(archive)
    archive.change(PATH, public=True, expires=2000.0)

    result = archive.find(PATH)

    assert result.info == replace(ABOUT, public=True, expires=2000.0)
    assert (result.directory / "weights").read_bytes() == b"weights"


def test_a_deleted_checkpoint_is_missing(archive):
    write(archive)
    archive.delete(PATH)

    with pytest.raises(MissingCheckpoint, match="unknown checkpoint tinker://S:train:0/sampler_weights/step20"):
        archive.find(PATH)
    with pytest.raises(MissingCheckpoint, match="unknown checkpoint"):
        archive.delete(PATH)


def test_a_damaged_description_is_reported_and_hides_no_other(archive):
    write(archive)
    other = replace(PATH, name="other")
    write(archive, other)
    (archive.find(other).directory / "checkpoint.json").write_text("{")

    with pytest.raises(MissingCheckpoint, match=r"the description of .*other cannot be read"):
        archive.find(other)

    assert [item.path for item in archive.all()] == [PATH]


@pytest.mark.parametrize(
    "text",
    [
        "step20",
        "tinker://S:train:0/step20",
        "tinker://S:train:0/weights/a/b",
        "tinker://S:train:0/other_weights/a",
        "tinker://../weights/a",
        "tinker://S:train:0/weights/..",
        "tinker://S:train:0/weights/.hidden",
        "tinker://S:train:0/weights/a\n",
        "tinker://S:train:0/weights/" + "a" * 129,
        "tinker:///weights/a",
        "https://S:train:0/weights/a",
    ],
)
def test_an_invalid_path_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"is not a (checkpoint path|kind|valid)"):
        CheckpointPath.parse(text)


def test_a_path_comes_back():
    assert CheckpointPath.parse(str(PATH)) == PATH


def test_times_are_written_in_utc():
    assert format_time(1000.5) == "1970-01-01T00:16:40.500000+00:00"
