"""Scripts of replies, and a suite whose test function runs a client at the endpoint and at the plain server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agents.clients import ANSWER
from tests.agents.scripted_server import ScriptedServer, call, text

WEATHER = [call("weather", city="Bern"), text(ANSWER)]
SCRIPTS = {
    "smolagents_tools": [call("weather", city="Bern"), call("final_answer", answer=ANSWER)],
    "smolagents_tools_stream": [call("weather", city="Bern"), call("final_answer", answer=ANSWER)],
    "smolagents_code": [
        text("I look it up.\n<code>\nprint(weather(city='Bern'))\n</code>"),
        text(f"I have it.\n<code>\nfinal_answer('{ANSWER}')\n</code>"),
    ],
    "mini_swe_agent": [
        # Not the files of the folder: each run adds one.
        call("bash", command="echo sunny"),
        call("bash", command=f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo '{ANSWER}'"),
    ],
    "dspy_react": [
        text(
            "[[ ## next_thought ## ]]\nI look it up.\n\n[[ ## next_tool_name ## ]]\nweather\n\n"
            '[[ ## next_tool_args ## ]]\n{"city": "Bern"}\n\n[[ ## completed ## ]]'
        ),
        text(
            "[[ ## next_thought ## ]]\nI have it.\n\n[[ ## next_tool_name ## ]]\nfinish\n\n"
            "[[ ## next_tool_args ## ]]\n{}\n\n[[ ## completed ## ]]"
        ),
        text(f"[[ ## reasoning ## ]]\nSunny.\n\n[[ ## answer ## ]]\n{ANSWER}\n\n[[ ## completed ## ]]"),
    ],
}
# The same agents in other ways.
SCRIPTS |= {
    f"{name}{way}": SCRIPTS[name]
    for name, way in (*(("smolagents_code", "_stream"), ("dspy_react", "_stream"), ("mini_swe_agent", "_command")),)
} | {"smolagents_litellm": SCRIPTS["smolagents_tools"]}
SUITE = """
import json
import pytest
from tests.agents import clients

@pytest.mark.crucible("samples.jsonl")
def test_weather(sample, endpoint, score):
    addresses = [("endpoint", endpoint.base_url), *({plain!r})]
    for use, address in addresses:
        tool = clients.Tool()
        output = clients.{name}(address, tool)
        with open(use + ".json", "w") as file:
            json.dump({{"output": output, "cities": tool.cities}}, file)
    score(calls=endpoint.calls)
"""
# Nothing outside this machine is needed: no price lists, traces or update checks.
OFFLINE = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_SILENT_STARTUP": "1",
    "LANGSMITH_TRACING": "false",
}
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Trajectory:
    """The output of a client, the tool's calls, and the messages of its requests as a server of chats received them."""

    output: str
    cities: list[str]
    requests: list[Any]


@pytest.fixture(scope="session")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(SCRIPTS, WEATHER).serve() as running:
        yield running


def client_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process with a client; files of its own go into the folder."""
    return {**os.environ, **OFFLINE, "PYTHONPATH": str(ROOT), "DSPY_CACHEDIR": str(folder / "dspy")}


def run_suite(folder: Path, base_url: str, environment: dict[str, str], *, streams: bool = False) -> None:
    """Run the suite of a folder on an arm whose server is at an address. It must pass."""
    options = [f'backend = "openai"\nbase_url = "{base_url}"\nmodel = "m"\nmode = "chat"']
    options += ["stream = true"] if streams else []
    (folder / "crucible.toml").write_text("[adapters.v2]\n" + "\n".join(options) + "\n")
    options = "-p no:cacheprovider --crucible-adapter=v2 --crucible-cache=off".split()
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


Run = Callable[..., dict[str, Trajectory]]


@pytest.fixture
def run_client(server: ScriptedServer, tmp_path: Path) -> Run:
    """Return a function that runs a client in a suite, and returns its trajectories by the place of its model."""

    def run(name: str, *, streams: bool, with_plain: bool) -> dict[str, Trajectory]:
        plain = [("plain", server.url(name, "plain"))] if with_plain else []
        (tmp_path / "samples.jsonl").write_text('{"id": "a", "input": "Bern"}\n')
        (tmp_path / "test_agent.py").write_text(SUITE.format(plain=plain, name=name))
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        run_suite(tmp_path, server.url(name, "arm"), client_environment(tmp_path), streams=streams)
        places = {"endpoint": "arm", **({"plain": "plain"} if with_plain else {})}
        return {
            place: Trajectory(
                **json.loads((tmp_path / f"{place}.json").read_text()), requests=server.messages(name, use)
            )
            for place, use in places.items()
        }

    return run
