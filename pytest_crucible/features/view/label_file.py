"""The one file that the dashboard writes: people's labels, each durable before it is confirmed."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import os
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_crucible.datasets.labels import (
    ID_COLUMNS,
    KEY_COLUMNS,
    NOTE,
    LabelTable,
    ReplyKey,
    key_of,
    read_label_table,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.views import guard_cell

try:
    import fcntl
except ImportError:  # Windows: two dashboards on one file are then not kept apart
    fcntl = None  # type: ignore[assignment]

BOM = b"\xef\xbb\xbf"


class LabelConflict(SpecError):
    """A label was changed elsewhere, and is not the one that the page showed."""

    def __init__(self, label: str) -> None:
        super().__init__(f"this reply was labelled {label!r} elsewhere: press a label's key again to change it")
        self.label = label


class LabelFile:
    """A file of labels that several people, pages and dashboards may write at once."""

    def __init__(self, path: Path) -> None:
        """Create the file if it is missing. Raises SpecError for another table, or if it cannot be written."""
        # A file behind a link is replaced, and not the link.
        self.path = Path(os.path.realpath(path))
        self._lock = threading.Lock()
        self._read: tuple[object, LabelTable] = (None, LabelTable((), ()))
        try:
            if not self.path.exists():
                self._write(LabelTable(ID_COLUMNS, ()), b"", "\r\n")
            self._check_writable()
        except OSError as error:
            raise SpecError(f"{path} cannot be written ({error.strerror or error}): name another file") from None
        self.table()

    def table(self) -> LabelTable:
        """Return the table as the file has it now, which others may write. Raises SpecError if it is gone or another one."""
        version, table = self._read
        if version != (current := self._version()):
            table = read_label_table(self.path)
            self._read = (current, table)
        return table

    def record(self, ids: Mapping[str, str], person: str, label: str, note: str, *, before: str) -> None:
        """Write a person's label and note of a reply; returns when they are on the disk. `ids` has the cells of ID_COLUMNS.

        `before` is the label that the page showed. Raises LabelConflict if it is another one now, SpecError as `table`.
        """
        with self._lock, self._locked_file():
            self._check_writable()
            table = self.table()
            key = ReplyKey(*(ids[name] for name in KEY_COLUMNS))
            place = next((place for place, row in enumerate(table.rows) if key_of(row) == key), len(table.rows))
            row = dict(table.rows[place]) if place < len(table.rows) else dict(ids)
            current = row.get(person, "")
            if current not in (before, label):
                raise LabelConflict(current)
            row |= {person: label, person + NOTE: note}
            columns = (*table.columns, *(name for name in (person, person + NOTE) if name not in table.columns))
            self._write(LabelTable(columns, (*table.rows[:place], row, *table.rows[place + 1 :])), *self._form())

    def _version(self) -> object:
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            raise SpecError(
                f"{self.path} is gone: put it back, or start crucible view again, which begins a new one"
            ) from None
        if not stat.S_ISREG(facts.st_mode):
            raise SpecError(f"{self.path} is not a file that can be written: name another one")
        return _version_of(facts)

    def _check_writable(self) -> None:
        """Raise PermissionError if the file or its folder is write-protected, and SpecError if the path is not a file."""
        self._version()
        # It is replaced, so that the folder counts, and a file that is write-protected is so on purpose.
        if not (os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)):
            raise PermissionError(errno.EACCES, "the file or its folder is read-only")

    @contextlib.contextmanager
    def _locked_file(self) -> Iterator[None]:
        """Keep other dashboards from writing the file."""
        while fcntl is not None:
            # Opening a pipe would wait for its other end.
            self._version()
            with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # Another dashboard may have replaced the file meanwhile: its lock is then on one without a name.
                if os.fstat(file.fileno()).st_ino == self.path.stat().st_ino:
                    yield
                    return
        yield

    def _form(self) -> tuple[bytes, str]:
        """Return the byte order mark of the file, and its line ends."""
        with self.path.open("rb") as file:
            begin = file.readline()
        return (BOM if begin.startswith(BOM) else b""), ("\r\n" if begin.endswith(b"\r\n") else "\n")

    def _write(self, table: LabelTable, mark: bytes, line_end: str) -> None:
        """Replace the file by one that is complete on the disk: a crash leaves the old or the new one."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator=line_end)
        writer.writerow(map(guard_cell, table.columns))
        writer.writerows([guard_cell(row.get(name, "")) for name in table.columns] for row in table.rows)
        # In the same folder, because a file cannot be replaced across file systems.
        number, draft = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with open(number, "wb") as file:
                # mkstemp makes it private.
                os.chmod(draft, self.path.stat().st_mode & 0o777 if self.path.exists() else 0o644)
                file.write(mark + text.getvalue().encode("utf-8", "backslashreplace"))
                file.flush()
                os.fsync(file.fileno())
                # Before it has its name: from then on others may replace it.
                version = _version_of(os.fstat(file.fileno()))
            os.replace(draft, self.path)
        except BaseException:
            os.unlink(draft)
            raise
        self._read = (version, table)
        sync_folder(self.path.parent)


def _version_of(facts: os.stat_result) -> object:
    # A replaced file has another inode, one that was edited in place another time or size.
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def sync_folder(folder: Path) -> None:
    """Make the names of files in a folder durable."""
    if os.name == "posix":
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
