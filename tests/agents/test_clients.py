"""Clients and agents, unmodified, call the arm through the endpoint as they call a plain server.

Skipped where a client is not installed: `pip install -r tests/agents/requirements.txt`, in an environment of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.agents import clients
from tests.agents.conftest import Run, client_environment, run_suite
from tests.agents.scripted_server import LOST, ScriptedServer

pytestmark = pytest.mark.slow

PACKAGES = {
    "openai_agents": "openai-agents",
    "openai": "openai",
    "anthropic": "anthropic",
    "pydantic_ai": "pydantic-ai-slim",
    "langgraph": "langchain-openai",
    "agent_framework": "agent-framework-openai",
    "dspy": "dspy",
    "smolagents": "smolagents",
    "litellm": "litellm",
    "mini_swe_agent": "mini-swe-agent",
}
OTHER_DIALECTS = (
    *("agent_framework", "agent_framework_stream"),
    *("openai_responses", "openai_responses_stream", "anthropic_messages", "anthropic_messages_stream"),
    *("anthropic_tool_runner", "openai_agents", "openai_agents_stream", "pydantic_ai_responses"),
    *("pydantic_ai_responses_stream", "pydantic_ai_anthropic", "langgraph_responses", "langgraph_responses_stream"),
    *("litellm_responses", "litellm_anthropic", "litellm_anthropic_stream"),
)
CHATS = (
    *("openai_chat", "openai_chat_stream", "openai_agents_chat", "pydantic_ai_chat", "pydantic_ai_chat_stream"),
    *("langgraph_agent", "langgraph_agent_stream", "dspy_react", "smolagents_tools", "smolagents_tools_stream"),
    *("smolagents_code", "smolagents_code_stream", "smolagents_litellm", "dspy_react_stream"),
    *("litellm_completion", "litellm_completion_stream", "mini_swe_agent", "mini_swe_agent_command"),
)


def skip_if_missing(name: str) -> None:
    package = next(package for client, package in PACKAGES.items() if name.startswith(client))
    # Not by the name of its module: this folder is a module `agents`, too.
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed: pip install -r tests/agents/requirements.txt")


@pytest.mark.parametrize("name", CHATS)
def test_a_client_of_chats_goes_the_same_way_as_at_a_plain_server(name: str, run_client: Run):
    skip_if_missing(name)
    trajectories = run_client(name, streams=name.endswith("_stream"), with_plain=True)
    endpoint, plain = trajectories["endpoint"], trajectories["plain"]

    assert (endpoint.output, endpoint.cities) == (clients.ANSWER, ["Bern"])
    assert endpoint == plain


@pytest.mark.parametrize("name", OTHER_DIALECTS)
def test_a_client_of_another_dialect_has_its_conversation_with_a_model_behind_chats(name: str, run_client: Run):
    skip_if_missing(name)
    endpoint = run_client(name, streams=name.endswith("_stream"), with_plain=False)["endpoint"]
    first, second = endpoint.requests
    *question, called, result = second

    assert (endpoint.output, endpoint.cities) == (clients.ANSWER, ["Bern"])
    assert question == first
    assert question[-1] == {"role": "user", "content": clients.QUESTION}
    assert [call["function"]["name"] for call in called["tool_calls"]] == ["weather"]
    assert (called["role"], called["tool_calls"][0]["id"]) == ("assistant", "call_1")
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "call_1", "sunny")


@pytest.mark.parametrize(
    "name",
    [
        *("openai_chat", "openai_responses", "anthropic_messages", "openai_agents", "pydantic_ai_responses"),
        *("langgraph_agent", "dspy_react", "smolagents_tools", "litellm_completion", "mini_swe_agent"),
    ],
)
def test_a_client_stops_at_once_when_its_reply_is_lost(name: str, server: ScriptedServer, tmp_path: Path):
    skip_if_missing(name)
    program = f"from tests.agents import clients; clients.{name}({server.url(LOST, name)!r}, clients.Tool())"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=client_environment(tmp_path), timeout=600, capture_output=True
    )

    assert ended.returncode != 0
    assert len(server.bodies[f"{LOST}/{name}"]) == 1


PROGRAM = """
import pytest

@pytest.mark.crucible([{{"id": "a", "input": "Bern"}}])
def test_weather(sample, endpoint):
    options = ["-m", "openai/m", "-t", "The weather?", "-y", "--exit-immediately", "-o", "trajectory.json"]
    done = endpoint.run([{command!r}, *options], timeout_s=300)
    assert (done.exit_status, endpoint.calls) == (0, 2), done
"""


def test_a_program_runs_on_a_machine_where_it_was_never_set_up(server: ScriptedServer, tmp_path: Path):
    skip_if_missing("mini_swe_agent")
    (tmp_path / "test_agent.py").write_text(PROGRAM.format(command=str(Path(sys.executable).with_name("mini"))))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MSWEA_")}

    run_suite(tmp_path, server.url("mini_swe_agent", "program"), {**environment, "HOME": str(tmp_path)})

    assert len(server.messages("mini_swe_agent", "program")) == 2
