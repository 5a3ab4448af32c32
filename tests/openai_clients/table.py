"""The table of what clients in OpenAI's format can use at the local server: `python -m tests.openai_clients.table`.

Every use runs, each client in a process of its own. Status 1 if one fails; its error is on standard error. It needs
`pip install -e . -r tests/openai_clients/requirements.txt`, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from pytest_crucible.local_model.server.process import LocalServer

PACKAGES = {
    "openai": "openai",
    "litellm": "litellm",
    "langchain_openai": "langchain-openai",
    "pydantic_ai": "pydantic-ai-slim",
    "inspect_ai": "inspect-ai",
    "lm_eval": "lm-eval",
}
# Nothing outside this machine is needed: no price lists, traces or data.
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
}
RUNS, FAILS, HAS_NONE = "yes", "**no**", ""


def run_uses(client: str, address: str) -> None:
    """Print the outcome of each use of a client, as JSON, on the last line."""
    from tests.openai_clients import uses

    server, outcomes = uses.Server(**json.loads(address)), {}
    for use in uses.USES:
        if function := getattr(uses, f"{client}__{use}", None):
            try:
                function(server)
                outcomes[use] = RUNS
            except Exception:
                print(f"{client}: {use}", traceback.format_exc(), file=sys.stderr)
                outcomes[use] = FAILS
    print(json.dumps(outcomes))


def collect_outcomes() -> Mapping[str, Mapping[str, str]]:
    """Return the outcomes of the uses by client, of those that are installed."""
    with tempfile.TemporaryDirectory() as folder, LocalServer.start(Path(folder) / "tinker") as server:
        tokenizer = re.search(r"crucible/tiny is (.*?): clients", server.log.read_text(encoding="utf-8"))
        assert tokenizer, "the server prints the directory of its tokenizer"
        address = {"base_url": f"{server.url}/oai/api/v1", "key": server.key, "tokenizer": tokenizer[1]}
        environment = {**os.environ, **server.environment(), **OFFLINE, "HF_HOME": folder}
        return {
            client: _run_client(client, json.dumps(address), environment)
            for client, package in PACKAGES.items()
            if find_version(package)
        }


def _run_client(client: str, address: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    program = "import sys; from tests.openai_clients.table import run_uses; run_uses(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, client, address],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=900,
    )
    outcomes: Mapping[str, str] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


def find_version(package: str) -> str:
    """Return the version of an installed package; empty if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def format_table(outcomes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the table in Markdown: a row for each use, a column for each client."""
    from tests.openai_clients.uses import USES

    heads = [f"{PACKAGES[client]} {find_version(PACKAGES[client])}" for client in outcomes]
    rows = [[text, *(outcomes[client].get(use, HAS_NONE) for client in outcomes)] for use, text in USES.items()]
    return [f"| {' | '.join(cells)} |" for cells in (["", *heads], ["---"] * (len(heads) + 1), *rows)]


def main() -> int:
    outcomes = collect_outcomes()
    print("\n".join(format_table(outcomes)))
    missing = [package for package in PACKAGES.values() if not find_version(package)]
    if missing:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
    return int(bool(missing) or any(FAILS in each.values() for each in outcomes.values()))


if __name__ == "__main__":
    raise SystemExit(main())
