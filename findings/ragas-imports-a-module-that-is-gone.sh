#!/usr/bin/env bash
# ragas 0.4.3 is installed with langchain-community 0.4.2, which its requirements allow, and cannot be imported beside it.
#
# Expected: an installation that pip reports as consistent can be imported. ragas asks for langchain-community in any version, and
# imports one of its modules that 0.4 no longer has.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ragas==0.4.3 langchain-community==0.4.2
"$folder/venv/bin/pip" check | grep -i ragas && exit 1
seen=$("$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import requires, version

print("ragas", version("ragas"), "beside langchain-community", version("langchain-community"))
print("requires", [name for name in requires("ragas") if name.startswith("langchain-community")])
try:
    import ragas
    print("imported", ragas.__name__)
except ModuleNotFoundError as error:
    print("ModuleNotFoundError:", error)
PYTHON
)
echo "$seen"
grep -q "ModuleNotFoundError: No module named 'langchain_community.chat_models.vertexai'" <<<"$seen"
echo "seen: pip finds nothing wrong, and ragas cannot be imported"
