#!/usr/bin/env bash
# agno's Claude cannot be made where both of Anthropic's keys are in the environment, which Anthropic's own client reads.
#
# Stated: the client takes ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN from the environment. Made without arguments it accepts both. agno
# reads both and passes them on as arguments, of which the client allows one. Expected: the same as without agno.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet agno==3.1.10 anthropic==2.14.0
cat >keys.py <<'PYTHON'
from importlib.metadata import version

import anthropic
from agno.models.anthropic import Claude


def make(function):
    try:
        return f"made: {type(function()).__name__}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


print("agno", version("agno"), "anthropic", version("anthropic"))
own = make(anthropic.Anthropic)
agno = make(Claude(id="claude-sonnet-4-5").get_client)
print("anthropic.Anthropic():", own)
print("agno's Claude:", agno)
assert own == "made: Anthropic", own
assert "Pass at most one of" in agno, agno
PYTHON
ANTHROPIC_API_KEY=a ANTHROPIC_AUTH_TOKEN=b venv/bin/python keys.py 2>keys.log || { tail -5 keys.log; exit 1; }
echo "seen: with both variables set the client is made, and agno's model is not"
