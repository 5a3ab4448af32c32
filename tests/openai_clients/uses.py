"""Uses of the local server by clients in OpenAI's format, as their users write them.

A function `CLIENT__USE` fails where the use does not work; `USES` names the uses, in the order of the table. Its package is
imported in it. A client that has no such call has no function.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

USES = {
    "generation": "generation",
    "streams": "streams",
    "tools": "tools",
    "structured": "structured output: `Field(ge=, le=)`, `date`, `pattern`",
    "logprobs": "log-probabilities",
    "echo": "`echo`, multiple choice",
    "rolling": "rolling log-likelihood",
    "embeddings": "embeddings",
    "models": "`models.retrieve`",
    "responses": "responses",
    "responses_streams": "responses: streams",
    "responses_tools": "responses: tools",
}
MODEL = "crucible/tiny"
# The small model continues this with a text of many tokens; to most questions its reply is empty.
QUESTION = "claim"


class Person(BaseModel):
    """A person, with the bounds that pydantic's users write."""

    name: str = Field(pattern=r"^[a-z]{3,8}$")
    age: int = Field(ge=0, le=10)
    born: date


def weather(city: str) -> str:
    """Return the weather in a city.

    Args:
        city: The city's name.
    """
    return "sunny"


PARAMETERS: Any = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION: Any = {"name": "weather", "description": "Weather.", "parameters": PARAMETERS}
CHAT_TOOL: Any = {"type": "function", "function": FUNCTION}
RESPONSES_TOOL: Any = {"type": "function", **FUNCTION, "strict": True}
MESSAGES: Any = [{"role": "user", "content": QUESTION}]


@dataclass(frozen=True)
class Server:
    """Address and key of the endpoint, and the directory of the model's tokenizer."""

    base_url: str
    key: str
    tokenizer: str


def _check_call(name: str, arguments: Any) -> None:
    content = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert name == "weather"
    assert isinstance(content["city"], str)


def _openai(server: Server) -> Any:
    import openai

    return openai.OpenAI(base_url=server.base_url, api_key=server.key)


def openai__generation(server: Server) -> None:
    client = _openai(server)
    assert (
        client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0, max_tokens=8)
        .choices[0]
        .message.content
    )
    assert client.completions.create(model=MODEL, prompt=QUESTION, temperature=0, max_tokens=8, n=2).choices[1].text


def openai__streams(server: Server) -> None:
    client = _openai(server)
    settings: Any = {
        "model": MODEL,
        "temperature": 0,
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    chat = list(client.chat.completions.create(messages=MESSAGES, **settings))
    text = list(client.completions.create(prompt=QUESTION, **settings))
    assert len(chat) > 3
    assert len(text) > 3
    assert chat[-1].usage.completion_tokens == text[-1].usage.completion_tokens == 8


def openai__tools(server: Server) -> None:
    client = _openai(server)
    settings: Any = {"model": MODEL, "messages": MESSAGES, "tools": [CHAT_TOOL], "tool_choice": "required"}
    call = client.chat.completions.create(**settings).choices[0].message.tool_calls[0]
    _check_call(call.function.name, call.function.arguments)
    with client.chat.completions.stream(**settings) as stream:
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    _check_call(call.function.name, call.function.arguments)


def openai__structured(server: Server) -> None:
    parsed = _openai(server).chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Person)
    assert isinstance(parsed.choices[0].message.parsed, Person)


def openai__logprobs(server: Server) -> None:
    client = _openai(server)
    settings: Any = {
        "model": MODEL,
        "messages": MESSAGES,
        "temperature": 0,
        "max_tokens": 4,
        "logprobs": True,
        "top_logprobs": 3,
    }
    tokens = client.chat.completions.create(**settings).choices[0].logprobs.content
    assert [len(token.top_logprobs) for token in tokens] == [3] * 4
    chunks = [chunk.choices[0] for chunk in client.chat.completions.create(stream=True, **settings)]
    assert sum(len(chunk.logprobs.content) for chunk in chunks if chunk.logprobs) == 4


def openai__echo(server: Server) -> None:
    settings: Any = {"echo": True, "logprobs": 1, "max_tokens": 0}
    choice = _openai(server).completions.create(model=MODEL, prompt="Bern is sunny", **settings).choices[0]
    assert choice.text == "Bern is sunny"
    assert choice.logprobs.token_logprobs[0] is None
    assert all(math.isfinite(value) for value in choice.logprobs.token_logprobs[1:])


def openai__embeddings(server: Server) -> None:
    data = _openai(server).embeddings.create(model=MODEL, input=["Bern", "Basel"]).data
    assert len(data[0].embedding) == len(data[1].embedding) > 1


def openai__models(server: Server) -> None:
    client = _openai(server)
    assert client.models.retrieve(MODEL).id == MODEL
    assert MODEL in [model.id for model in client.models.list()]


def openai__responses(server: Server) -> None:
    client = _openai(server)
    assert client.responses.create(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=8).output_text
    assert isinstance(client.responses.parse(model=MODEL, input=QUESTION, text_format=Person).output_parsed, Person)


def openai__responses_streams(server: Server) -> None:
    with _openai(server).responses.stream(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=8) as stream:
        events = list(stream)
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(pieces) > 1
    # As at OpenAI, a reply that is cut has no `response.completed`.
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == "".join(pieces)


def openai__responses_tools(server: Server) -> None:
    settings: Any = {"model": MODEL, "input": QUESTION, "tools": [RESPONSES_TOOL], "tool_choice": "required"}
    (call,) = _openai(server).responses.create(**settings).output
    _check_call(call.name, call.arguments)
    with _openai(server).responses.stream(**settings) as stream:
        (call,) = stream.get_final_response().output
    _check_call(call.name, call.arguments)


def _litellm(server: Server) -> dict[str, Any]:
    return {"model": f"openai/{MODEL}", "api_base": server.base_url, "api_key": server.key}


def litellm__generation(server: Server) -> None:
    import litellm

    assert (
        litellm.completion(messages=MESSAGES, temperature=0, max_tokens=8, **_litellm(server))
        .choices[0]
        .message.content
    )


def litellm__streams(server: Server) -> None:
    import litellm

    chunks = litellm.completion(messages=MESSAGES, temperature=0, max_tokens=8, stream=True, **_litellm(server))
    assert sum(bool(chunk.choices[0].delta.content) for chunk in chunks) > 1


def litellm__tools(server: Server) -> None:
    import litellm

    settings: Any = {"messages": MESSAGES, "tools": [CHAT_TOOL], "tool_choice": "required", **_litellm(server)}
    call = litellm.completion(**settings).choices[0].message.tool_calls[0]
    _check_call(call.function.name, call.function.arguments)


def litellm__structured(server: Server) -> None:
    import litellm

    response = litellm.completion(messages=MESSAGES, response_format=Person, **_litellm(server))
    Person.model_validate_json(response.choices[0].message.content)


def litellm__logprobs(server: Server) -> None:
    import litellm

    settings: Any = {
        "messages": MESSAGES,
        "temperature": 0,
        "max_tokens": 4,
        "logprobs": True,
        "top_logprobs": 2,
        **_litellm(server),
    }
    assert len(litellm.completion(**settings).choices[0].logprobs.content) == 4


def litellm__echo(server: Server) -> None:
    import litellm

    settings = {**_litellm(server), "model": f"text-completion-openai/{MODEL}"}
    response = litellm.text_completion(prompt="Bern is", echo=True, logprobs=1, max_tokens=1, **settings)
    assert response.choices[0].text.startswith("Bern is")


def litellm__embeddings(server: Server) -> None:
    import litellm

    assert len(litellm.embedding(input=["Bern"], **_litellm(server)).data[0]["embedding"]) > 1


def litellm__responses(server: Server) -> None:
    import litellm

    assert (
        litellm.responses(input=QUESTION, temperature=0, max_output_tokens=8, **_litellm(server))
        .output[0]
        .content[0]
        .text
    )


def litellm__responses_streams(server: Server) -> None:
    import litellm

    events = litellm.responses(input=QUESTION, temperature=0, max_output_tokens=8, stream=True, **_litellm(server))
    assert sum(event.type == "response.output_text.delta" for event in events) > 1


def litellm__responses_tools(server: Server) -> None:
    import litellm

    settings: Any = {"input": QUESTION, "tools": [RESPONSES_TOOL], "tool_choice": "required", **_litellm(server)}
    (call,) = litellm.responses(**settings).output
    _check_call(call.name, call.arguments)


def _langchain(server: Server, **settings: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=MODEL, base_url=server.base_url, api_key=server.key, **settings)


def langchain_openai__generation(server: Server) -> None:
    from langchain_openai import OpenAI

    assert _langchain(server, temperature=0, max_tokens=8).invoke(QUESTION).content
    assert OpenAI(model=MODEL, base_url=server.base_url, api_key=server.key, temperature=0, max_tokens=8).invoke(
        QUESTION
    )


def langchain_openai__streams(server: Server) -> None:
    assert (
        len([chunk for chunk in _langchain(server, temperature=0, max_tokens=8).stream(QUESTION) if chunk.content]) > 1
    )


def langchain_openai__tools(server: Server) -> None:
    bound = _langchain(server).bind_tools([CHAT_TOOL], tool_choice="any")
    (call,) = bound.invoke(QUESTION).tool_calls
    _check_call(call["name"], call["args"])


def langchain_openai__structured(server: Server) -> None:
    for method in ("json_schema", "function_calling"):
        assert isinstance(_langchain(server).with_structured_output(Person, method=method).invoke(QUESTION), Person)


def langchain_openai__logprobs(server: Server) -> None:
    message = _langchain(server, temperature=0, max_tokens=4, logprobs=True, top_logprobs=2).invoke(QUESTION)
    assert len(message.response_metadata["logprobs"]["content"]) == 4


def langchain_openai__embeddings(server: Server) -> None:
    from langchain_openai import OpenAIEmbeddings

    # Otherwise it sends tokens of OpenAI's own tokenizer.
    settings: Any = {"model": MODEL, "check_embedding_ctx_length": False}
    vectors = OpenAIEmbeddings(base_url=server.base_url, api_key=server.key, **settings).embed_documents(["Bern"])
    assert len(vectors[0]) > 1


def langchain_openai__responses(server: Server) -> None:
    assert _langchain(server, temperature=0, max_tokens=8, use_responses_api=True).invoke(QUESTION).text


def langchain_openai__responses_streams(server: Server) -> None:
    pieces = _langchain(server, temperature=0, max_tokens=8, use_responses_api=True).stream(QUESTION)
    assert len([piece for piece in pieces if piece.text]) > 1


def langchain_openai__responses_tools(server: Server) -> None:
    bound = _langchain(server, use_responses_api=True).bind_tools([CHAT_TOOL], tool_choice="any")
    (call,) = bound.invoke(QUESTION).tool_calls
    _check_call(call["name"], call["args"])


def _pydantic(server: Server, *, responses: bool = False, **settings: Any) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=server.base_url, api_key=server.key)
    model = (OpenAIResponsesModel if responses else OpenAIChatModel)(MODEL, provider=provider)
    return Agent(model, **settings)


async def _stream_pydantic(agent: Any) -> int:
    async with agent.run_stream(QUESTION) as result:
        return len([piece async for piece in result.stream_text(delta=True, debounce_by=None)])


def pydantic_ai__generation(server: Server) -> None:
    assert _pydantic(server, model_settings={"temperature": 0, "max_tokens": 8}).run_sync(QUESTION).output


def pydantic_ai__streams(server: Server) -> None:
    assert asyncio.run(_stream_pydantic(_pydantic(server, model_settings={"temperature": 0, "max_tokens": 8}))) > 1


def pydantic_ai__tools(server: Server) -> None:
    # An output that is a call of a function: its tool is required.
    assert isinstance(_pydantic(server, output_type=Person).run_sync(QUESTION).output, Person)


def pydantic_ai__structured(server: Server) -> None:
    from pydantic_ai import NativeOutput

    assert isinstance(_pydantic(server, output_type=NativeOutput(Person)).run_sync(QUESTION).output, Person)


def pydantic_ai__logprobs(server: Server) -> None:
    settings = {"temperature": 0, "max_tokens": 4, "openai_logprobs": True, "openai_top_logprobs": 2}
    response = _pydantic(server, model_settings=settings).run_sync(QUESTION).all_messages()[-1]
    assert len(response.provider_details["logprobs"]) == 4


def pydantic_ai__embeddings(server: Server) -> None:
    from pydantic_ai import Embedder
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=server.base_url, api_key=server.key)
    result = Embedder(OpenAIEmbeddingModel(MODEL, provider=provider)).embed_documents_sync(["Bern"])
    assert len(result.embeddings[0]) > 1


def pydantic_ai__responses(server: Server) -> None:
    assert (
        _pydantic(server, responses=True, model_settings={"temperature": 0, "max_tokens": 16}).run_sync(QUESTION).output
    )


def pydantic_ai__responses_streams(server: Server) -> None:
    assert (
        asyncio.run(
            _stream_pydantic(_pydantic(server, responses=True, model_settings={"temperature": 0, "max_tokens": 16}))
        )
        > 1
    )


def pydantic_ai__responses_tools(server: Server) -> None:
    assert isinstance(_pydantic(server, responses=True, output_type=Person).run_sync(QUESTION).output, Person)


def _inspect(server: Server, *, solver: Any = None, responses: bool = False, **config: Any) -> Any:
    """Return the output of a task of one sample."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import GenerateConfig, get_model
    from inspect_ai.solver import generate

    arguments: Any = {"base_url": server.base_url, "api_key": server.key, "responses_api": responses}
    model = get_model(f"openai/{MODEL}", config=GenerateConfig(**config), **arguments)
    task = Task(dataset=[Sample(input=QUESTION)], solver=solver or generate())
    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(task, model=model, log_dir=folder, display="none")
        assert log.status == "success", log.error
        # Samples are read from the log's file.
        return log.samples[0].output


def _required_weather() -> list[Any]:
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import ToolFunction, tool

    @tool(name="weather")
    def tool_weather() -> Any:
        async def execute(city: str) -> str:
            """Return the weather in a city.

            Args:
                city: The city's name.
            """
            return weather(city)

        return execute

    return [use_tools(tool_weather(), tool_choice=ToolFunction("weather")), generate(tool_calls="none")]


def inspect_ai__generation(server: Server) -> None:
    assert _inspect(server, temperature=0, max_tokens=8).completion


def inspect_ai__tools(server: Server) -> None:
    (call,) = _inspect(server, solver=_required_weather()).message.tool_calls
    _check_call(call.function, call.arguments)


def inspect_ai__structured(server: Server) -> None:
    from inspect_ai.model import ResponseSchema
    from inspect_ai.util import json_schema

    output = _inspect(server, response_schema=ResponseSchema(name="person", json_schema=json_schema(Person)))
    Person.model_validate_json(output.completion)


def inspect_ai__logprobs(server: Server) -> None:
    output = _inspect(server, temperature=0, max_tokens=4, logprobs=True, top_logprobs=2)
    assert len(output.choices[0].logprobs.content) == 4


def inspect_ai__responses(server: Server) -> None:
    assert _inspect(server, responses=True, temperature=0, max_tokens=16).completion


def inspect_ai__responses_tools(server: Server) -> None:
    (call,) = _inspect(server, responses=True, solver=_required_weather()).message.tool_calls
    _check_call(call.function, call.arguments)


LM_EVAL_TASKS = {
    "generation": """
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{choices[gold]}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
metric_list: [{metric: exact_match}]
""",
    "echo": """
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: "{{choices}}"
doc_to_target: gold
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "rolling": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{q}}{{choices[gold]}}"
metric_list: [{metric: word_perplexity}, {metric: bits_per_byte}]
""",
}
LM_EVAL_ROWS = [
    {"q": "Water boils at", "choices": [" 100 degrees", " 7 degrees"], "gold": 0},
    {"q": "Iron is", "choices": [" a gas", " a metal"], "gold": 1},
]


def _lm_eval(server: Server, task: str, metric: str, *, chat: bool = False) -> None:
    import lm_eval
    from lm_eval.tasks import TaskManager

    os.environ["OPENAI_API_KEY"] = server.key
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in LM_EVAL_ROWS))
        source = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test\n"
        (Path(folder) / "task.yaml").write_text(f"task: {task}_here\n{source}{LM_EVAL_TASKS[task]}")
        results = lm_eval.simple_evaluate(
            model="local-chat-completions" if chat else "local-completions",
            model_args={
                "model": MODEL,
                "base_url": f"{server.base_url}/{'chat/' if chat else ''}completions",
                **({} if chat else {"tokenizer": server.tokenizer, "tokenizer_backend": "huggingface"}),
            },
            tasks=[f"{task}_here"],
            task_manager=TaskManager(include_path=folder, include_defaults=False),
            apply_chat_template=chat,
        )
    assert math.isfinite(results["results"][f"{task}_here"][f"{metric},none"])


def lm_eval__generation(server: Server) -> None:
    _lm_eval(server, "generation", "exact_match")
    _lm_eval(server, "generation", "exact_match", chat=True)


def lm_eval__echo(server: Server) -> None:
    _lm_eval(server, "echo", "acc")


def lm_eval__rolling(server: Server) -> None:
    _lm_eval(server, "rolling", "bits_per_byte")
