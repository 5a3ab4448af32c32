#!/usr/bin/env bash
# PyALE 1.2.0 installs a top-level package `tests`: a project's own folder `tests` without __init__.py is then imported from PyALE.
#
# Expected: a package installs what its name says. A regular package of site-packages wins over a namespace package of the project,
# although the project's folder stands first on the path.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet PyALE==1.2.0
mkdir -p "$folder/project/tests"
echo 'NAME = "the project'"'"'s own helpers"' >"$folder/project/tests/helpers.py"
cd "$folder/project"
seen=$("$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import files, version

print("PyALE", version("PyALE"), "installs", sorted({file.parts[0] for file in files("PyALE") if file.suffix == ".py"}))
try:
    from tests.helpers import NAME
    print("imported", NAME)
except ModuleNotFoundError as error:
    print("ModuleNotFoundError:", error)
PYTHON
)
echo "$seen"
grep -q "'tests'" <<<"$seen"
grep -q "ModuleNotFoundError: No module named 'tests.helpers'" <<<"$seen"
echo "seen: the project's tests.helpers cannot be imported"
