#!/usr/bin/env bash
# SQLite creates a file for a connection that may write neither the database nor its shared index, and then refuses to open it.
#
# Stated: `mode=ro` opens a database for reading, and `readonly_shm=1` its shared index too. Expected of a database in WAL mode that
# no process has open: it is read, or refused, and its folder is as before. It is refused, and an empty log lies beside it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pysqlite3-binary==0.5.4 # has an SQLite of its own
cd "$folder"
cat >read.py <<'PYTHON'
from pathlib import Path

import pysqlite3.dbapi2 as sqlite3

path = Path("books.db").absolute()


def beside() -> dict[str, int]:
    """The files of the database with their sizes."""
    return {file.name: file.stat().st_size for file in sorted(Path().glob("books.db*"))}


print("SQLite", sqlite3.sqlite_version)
writer = sqlite3.connect(str(path))
writer.execute("PRAGMA journal_mode=WAL")
writer.execute("CREATE TABLE books (title)")
writer.commit()
writer.close()
before = beside()
print("after the last writer:", before)
assert list(before) == ["books.db"]
reader = sqlite3.connect(f"{path.as_uri()}?mode=ro&readonly_shm=1", uri=True)
try:
    print("rows:", reader.execute("SELECT * FROM books").fetchall())
    raise SystemExit("the database is read: this finding is out of date")
except sqlite3.OperationalError as error:
    print("reading raises:", error)
    assert str(error) == "unable to open database file"
reader.close()
after = beside()
print("after the reader:", after)
assert after == {**before, "books.db-wal": 0}
PYTHON
"$folder/venv/bin/python" read.py
echo "seen: a connection that only reads has left an empty log, and has read nothing"
