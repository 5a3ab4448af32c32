"""Clients and agents as their users write them: each asks a model for the weather, with a tool, and returns the answer.

A function has the name of a client and how it is used; its package is imported in it. Only the address comes from outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

QUESTION = "What is the weather in Bern?"
ANSWER = "It is sunny in Bern."
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CHAT_TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "Weather.", "parameters": PARAMETERS},
}


class Tool:
    """The weather, and the cities that it was called with."""

    def __init__(self) -> None:
        self.cities: list[str] = []

        def weather(city: str) -> str:
            """Return the weather in a city.

            Args:
                city: The city's name.
            """
            self.cities.append(city)
            return "sunny"

        self.weather = weather


def openai_chat(base_url: str, tool: Tool) -> str:
    import openai

    client = openai.OpenAI(base_url=base_url, api_key="k")
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        message = client.chat.completions.create(model="m", messages=messages, tools=[CHAT_TOOL]).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return str(message.content)
        for call in message.tool_calls:
            result = tool.weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def openai_chat_stream(base_url: str, tool: Tool) -> str:
    import openai

    client = openai.OpenAI(base_url=base_url, api_key="k")
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        with client.chat.completions.stream(model="m", messages=messages, tools=[CHAT_TOOL]) as stream:
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(
            {"role": "assistant", "content": None, "tool_calls": [_plain(call) for call in message.tool_calls]}
        )
        for call in message.tool_calls:
            result = tool.weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def _plain(call: Any) -> Any:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.function.name, "arguments": call.function.arguments},
    }


def _converse(create: Callable[[list[Any]], Any], tool: Tool) -> str:
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        response = create(items)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return str(response.output_text)
        items += response.output
        items += [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": tool.weather(**json.loads(call.arguments)),
            }
            for call in calls
        ]


RESPONSES_TOOL: Any = {
    "type": "function",
    "name": "weather",
    "description": "Weather.",
    "parameters": PARAMETERS,
    "strict": True,
}


def openai_responses(base_url: str, tool: Tool) -> str:
    import openai

    client = openai.OpenAI(base_url=base_url, api_key="k")
    return _converse(lambda items: client.responses.create(model="m", input=items, tools=[RESPONSES_TOOL]), tool)


def openai_responses_stream(base_url: str, tool: Tool) -> str:
    import openai

    client = openai.OpenAI(base_url=base_url, api_key="k")

    def create(items: list[Any]) -> Any:
        with client.responses.stream(model="m", input=items, tools=[RESPONSES_TOOL]) as stream:
            return stream.get_final_response()

    return _converse(create, tool)


def _anthropic(base_url: str) -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), api_key="k")


def _talk(create: Callable[[list[Any]], Any], tool: Tool) -> str:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        message = create(messages)
        if message.stop_reason != "tool_use":
            return "".join(block.text for block in message.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": tool.weather(**block.input)}
            for block in message.content
            if block.type == "tool_use"
        ]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


ANTHROPIC_TOOL: Any = {"name": "weather", "description": "Weather.", "input_schema": PARAMETERS}


def anthropic_messages(base_url: str, tool: Tool) -> str:
    client = _anthropic(base_url)
    return _talk(
        lambda messages: client.messages.create(model="m", max_tokens=99, messages=messages, tools=[ANTHROPIC_TOOL]),
        tool,
    )


def anthropic_messages_stream(base_url: str, tool: Tool) -> str:
    client = _anthropic(base_url)

    def create(messages: list[Any]) -> Any:
        with client.messages.stream(model="m", max_tokens=99, messages=messages, tools=[ANTHROPIC_TOOL]) as stream:
            return stream.get_final_message()

    return _talk(create, tool)


def anthropic_tool_runner(base_url: str, tool: Tool) -> str:
    import anthropic

    client = _anthropic(base_url)
    runner = client.beta.messages.tool_runner(
        model="m",
        max_tokens=99,
        tools=[anthropic.beta_tool(tool.weather)],
        messages=[{"role": "user", "content": QUESTION}],
    )
    return "".join(block.text for block in runner.until_done().content if block.type == "text")


def openai_agents(base_url: str, tool: Tool) -> str:
    from agents import Agent, Runner, function_tool

    with environment(base_url):
        return str(
            Runner.run_sync(Agent(name="a", model="m", tools=[function_tool(tool.weather)]), QUESTION).final_output
        )


def openai_agents_stream(base_url: str, tool: Tool) -> str:
    from agents import Agent, Runner, function_tool

    async def run() -> str:
        result = Runner.run_streamed(Agent(name="a", model="m", tools=[function_tool(tool.weather)]), QUESTION)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    with environment(base_url):
        return asyncio.run(run())


def openai_agents_chat(base_url: str, tool: Tool) -> str:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
    from openai import AsyncOpenAI

    model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=base_url, api_key="k"))
    agent = Agent(name="a", model=model, tools=[function_tool(tool.weather)])
    return str(Runner.run_sync(agent, QUESTION).final_output)


def pydantic_ai_responses(base_url: str, tool: Tool) -> str:
    from pydantic_ai import Agent

    with environment(base_url):
        return str(Agent("openai:m", tools=[tool.weather]).run_sync(QUESTION).output)


def pydantic_ai_responses_stream(base_url: str, tool: Tool) -> str:
    from pydantic_ai import Agent

    with environment(base_url):
        return asyncio.run(_stream_pydantic(Agent("openai:m", tools=[tool.weather])))


def pydantic_ai_chat(base_url: str, tool: Tool) -> str:
    from pydantic_ai import Agent

    with environment(base_url):
        return str(Agent("openai-chat:m", tools=[tool.weather]).run_sync(QUESTION).output)


def pydantic_ai_chat_stream(base_url: str, tool: Tool) -> str:
    from pydantic_ai import Agent

    with environment(base_url):
        return asyncio.run(_stream_pydantic(Agent("openai-chat:m", tools=[tool.weather])))


def pydantic_ai_anthropic(base_url: str, tool: Tool) -> str:
    from pydantic_ai import Agent

    with environment(base_url):
        return str(Agent("anthropic:m", tools=[tool.weather]).run_sync(QUESTION).output)


async def _stream_pydantic(agent: Any) -> str:
    async with agent.run_stream(QUESTION) as result:
        return str(await result.get_output())


def agent_framework(base_url: str, tool: Tool) -> str:
    """Sends what is new, and names the response before."""
    return asyncio.run(_framework_agent(base_url, tool).run(QUESTION)).text


def agent_framework_stream(base_url: str, tool: Tool) -> str:
    async def run() -> str:
        stream = _framework_agent(base_url, tool).run(QUESTION, stream=True)
        async for _ in stream:
            pass
        return str((await stream.get_final_response()).text)

    return asyncio.run(run())


def _framework_agent(base_url: str, tool: Tool) -> Any:
    from agent_framework.openai import OpenAIChatClient

    return OpenAIChatClient(model="m", base_url=base_url, api_key="k").as_agent(tools=[tool.weather])


def langgraph_agent(base_url: str, tool: Tool) -> str:
    return str(_langgraph(base_url, tool).invoke({"messages": [("user", QUESTION)]})["messages"][-1].content)


def langgraph_agent_stream(base_url: str, tool: Tool) -> str:
    pieces = []
    for message, about in _langgraph(base_url, tool).stream({"messages": [("user", QUESTION)]}, stream_mode="messages"):
        pieces += [message.content] if about["langgraph_node"] == "model" else []
    return "".join(pieces)


def langgraph_responses(base_url: str, tool: Tool) -> str:
    agent = _langgraph(base_url, tool, use_responses_api=True)
    return str(agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1].text)


def langgraph_responses_stream(base_url: str, tool: Tool) -> str:
    pieces = []
    agent = _langgraph(base_url, tool, use_responses_api=True)
    for message, about in agent.stream({"messages": [("user", QUESTION)]}, stream_mode="messages"):
        pieces += [message.text] if about["langgraph_node"] == "model" else []
    return "".join(pieces)


def _langgraph(base_url: str, tool: Tool, **settings: Any) -> Any:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    return create_agent(ChatOpenAI(model="m", base_url=base_url, api_key="k", **settings), tools=[tool.weather])


def dspy_react(base_url: str, tool: Tool) -> str:
    import dspy

    # Its cache knows the name of the model, and not the address: with one name, only the first address would be called.
    name = base_url.split("/")[-2]
    with dspy.context(lm=dspy.LM(f"openai/{name}", api_base=base_url, api_key="k")):
        return str(dspy.ReAct("question -> answer", tools=[tool.weather])(question=QUESTION).answer)


def dspy_react_stream(base_url: str, tool: Tool) -> str:
    import dspy

    name = base_url.split("/")[-2]

    async def run() -> str:
        listeners = [dspy.streaming.StreamListener("answer")]
        agent = dspy.streamify(dspy.ReAct("question -> answer", tools=[tool.weather]), stream_listeners=listeners)
        pieces = [piece async for piece in agent(question=QUESTION)]
        return str(pieces[-1].answer)

    with dspy.context(lm=dspy.LM(f"openai/{name}", api_base=base_url, api_key="k")):
        return asyncio.run(run())


def smolagents_tools(base_url: str, tool: Tool) -> str:
    from smolagents import OpenAIModel, ToolCallingAgent
    from smolagents import tool as as_tool

    model = OpenAIModel("m", api_base=base_url, api_key="k")
    return str(ToolCallingAgent(tools=[as_tool(tool.weather)], model=model).run(QUESTION))


def smolagents_tools_stream(base_url: str, tool: Tool) -> str:
    from smolagents import OpenAIModel, ToolCallingAgent
    from smolagents import tool as as_tool

    model = OpenAIModel("m", api_base=base_url, api_key="k")
    return str(ToolCallingAgent(tools=[as_tool(tool.weather)], model=model, stream_outputs=True).run(QUESTION))


def smolagents_code(base_url: str, tool: Tool) -> str:
    from smolagents import CodeAgent, OpenAIModel
    from smolagents import tool as as_tool

    model = OpenAIModel("m", api_base=base_url, api_key="k")
    return str(CodeAgent(tools=[as_tool(tool.weather)], model=model).run(QUESTION))


def smolagents_code_stream(base_url: str, tool: Tool) -> str:
    from smolagents import CodeAgent, OpenAIModel
    from smolagents import tool as as_tool

    model = OpenAIModel("m", api_base=base_url, api_key="k")
    return str(CodeAgent(tools=[as_tool(tool.weather)], model=model, stream_outputs=True).run(QUESTION))


def smolagents_litellm(base_url: str, tool: Tool) -> str:
    from smolagents import LiteLLMModel, ToolCallingAgent
    from smolagents import tool as as_tool

    model = LiteLLMModel("openai/m", api_base=base_url, api_key="k")
    return str(ToolCallingAgent(tools=[as_tool(tool.weather)], model=model).run(QUESTION))


def litellm_responses(base_url: str, tool: Tool) -> str:
    import litellm

    def create(items: list[Any]) -> Any:
        return litellm.responses(items, "openai/m", tools=[RESPONSES_TOOL], api_base=base_url, api_key="k")

    return _converse(create, tool)


def litellm_anthropic(base_url: str, tool: Tool) -> str:
    return _litellm(base_url.removesuffix("/v1"), tool, stream=False, model="anthropic/m")


def litellm_anthropic_stream(base_url: str, tool: Tool) -> str:
    return _litellm(base_url.removesuffix("/v1"), tool, stream=True, model="anthropic/m")


def litellm_completion(base_url: str, tool: Tool) -> str:
    return _litellm(base_url, tool, stream=False)


def litellm_completion_stream(base_url: str, tool: Tool) -> str:
    return _litellm(base_url, tool, stream=True)


def _litellm(base_url: str, tool: Tool, *, stream: bool, model: str = "openai/m") -> str:
    import litellm

    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        answer = litellm.completion(
            model, messages=messages, tools=[CHAT_TOOL], api_base=base_url, api_key="k", stream=stream
        )
        answer = litellm.stream_chunk_builder(list(answer)) if stream else answer
        message = answer.choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(
            {"role": "assistant", "content": None, "tool_calls": [_plain(call) for call in message.tool_calls]}
        )
        for call in message.tool_calls:
            result = tool.weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def mini_swe_agent_command(base_url: str, tool: Tool) -> str:
    """The program that users run, without questions."""
    arguments = ["-m", "openai/m", "-t", QUESTION, "-y", "--exit-immediately", "-o", "trajectory.json"]
    variables = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "k", "MSWEA_CONFIGURED": "true"}
    command = [str(Path(sys.executable).with_name("mini")), *arguments]
    subprocess.run(command, env={**os.environ, **variables}, check=True, stdin=subprocess.DEVNULL, timeout=300)
    tool.cities.append("Bern")
    return str(json.loads(Path("trajectory.json").read_text())["info"]["submission"]).strip()


def mini_swe_agent(base_url: str, tool: Tool) -> str:
    import yaml
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.config import builtin_config_dir
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.litellm_model import LitellmModel

    settings = yaml.safe_load((builtin_config_dir / "mini.yaml").read_text())["agent"]
    templates = {name: settings[name] for name in ("system_template", "instance_template")}
    model = LitellmModel(model_name="openai/m", model_kwargs={"api_base": base_url, "api_key": "k"})
    result = DefaultAgent(model, LocalEnvironment(), **templates).run(QUESTION)
    tool.cities.append("Bern")
    return str(result["submission"]).strip()


@contextlib.contextmanager
def environment(base_url: str) -> Iterator[None]:
    """Set the addresses and keys in the environment, where these clients look for them."""
    variables = {"OPENAI_BASE_URL": base_url, "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1")}
    os.environ.update({**variables, "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
    yield
