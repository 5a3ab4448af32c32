#!/usr/bin/env bash
# SQLAlchemy's type JSON on SQLite changes a value that is a number itself: large integers lose digits, 1.0 comes back as 1.
#
# Expected: a JSON column returns what was stored, as it does for the same numbers within a list or an object. SQLAlchemy creates the
# column with the type JSON, which SQLite reads as numeric (https://sqlite.org/datatype3.html, 3.1), so that SQLite converts the text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sqlalchemy==2.0.44
cat >"$folder/stored_numbers.py" <<'PYTHON'
import sqlalchemy as sa

VALUES = [12345678901234567890123, 2**63, 1.0, [12345678901234567890123], {"n": 1.0}, "007"]
engine = sa.create_engine("sqlite://")
table = sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("value", sa.JSON))
table.create(engine)
with engine.begin() as connection:
    connection.execute(table.insert(), [{"value": value} for value in VALUES])
    stored = list(connection.scalars(sa.select(table.c.value).order_by(table.c.id)))
print("SQLAlchemy", sa.__version__)
for value, returned in zip(VALUES, stored):
    print(f"stored {value!r}, returned {returned!r}")
assert stored[0] == 1.2345678901234568e22 and stored[1] == 9.223372036854776e18
assert repr(stored[2]) == "1"
assert repr(stored[3:]) == repr(VALUES[3:])
PYTHON
"$folder/venv/bin/python" "$folder/stored_numbers.py"
echo "seen: numbers of their own are changed, numbers within lists and objects are not"
