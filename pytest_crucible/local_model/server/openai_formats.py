"""Requests and replies in OpenAI's formats: models, prompts, tools, response formats, log-probabilities.

`response_format` and `tools` of chats become a grammar that the reply keeps, and text of the prompt; calls are read back. A tool
call is written as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, in replies and in earlier messages.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.config import Floats, Integers
from pytest_crucible.local_model.engine import Scored
from pytest_crucible.local_model.grammar import Language, Node, choice, literal, sequence
from pytest_crucible.local_model.json_schema import json_node, object_node
from pytest_crucible.local_model.sampling import Sampled, SamplingParams, Token
from pytest_crucible.local_model.server.archive import SAMPLER, SCHEME
from pytest_crucible.local_model.server.models import SampleRequest, Weights
from pytest_crucible.local_model.server.state import Endpoints, Service, derive_seed
from pytest_crucible.local_model.server.transport import Body, Json, NotFound, Refusal, Request, Response, whole_numbers
from pytest_crucible.local_model.tokens import Tokenizer, message_text

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_OPENING, _CLOSING = re.compile(re.escape(_OPEN) + r"\s*"), re.compile(r"\s*" + re.escape(_CLOSE))
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_EXPECTED_CHOICE = "expected none, auto, required, or {'type': 'function', 'function': {'name': ...}}"


def read_language(body: Body, tokenizer: Tokenizer) -> Language | None:
    """Return the language that a reply has to keep; None for any text. Refuses a schema that cannot be kept."""
    tools, required = read_tools(body), _required_tool(body)
    if required is not None:
        named = [tool for tool in tools if required in ("", tool["name"])]
        if not named:
            raise Refusal(
                f"tool_choice names {required!r}, which is not in tools" if required else "tool_choice needs tools"
            )
        return _compile(json.dumps([[tool["name"], tool.get("parameters", {})] for tool in named]), True, tokenizer)
    form = body.part("response_format", {})
    if (kind := form.text("type", "text")) == "text":
        return None
    if kind == "json_object":
        return _compile(json.dumps(None), False, tokenizer)
    if kind != "json_schema":
        raise Refusal(f"response_format {kind!r} is not supported by this server: use text, json_object or json_schema")
    schema = form.part("json_schema").part("schema")
    return _compile(json.dumps(schema), False, tokenizer)


def read_tools(body: Body) -> list[Mapping[str, Any]]:
    """Return the functions of `tools`, which are not used where tool_choice is "none"."""
    tools = body.get("tools") or []
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise Refusal("tools must be a list")
    functions = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) and tool.get("type") == "function" else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise Refusal("each of tools must be {'type': 'function', 'function': {'name': ..., 'parameters': ...}}")
        functions.append(function)
    return [] if body.get("tool_choice") == "none" else functions


def with_tools(messages: Json, body: Body) -> Json:
    """Return the messages as texts: tools come first, and tool calls are written out."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return messages
    roles = [message.get("role") for message in messages if isinstance(message, Mapping)]
    if unknown := [role for role in roles if isinstance(role, str) and role not in _ROLES]:
        raise Refusal(f"a message has the role {unknown[0][:40]!r}; expected {', '.join(_ROLES)}")
    written: list[Json] = [_write_calls(message) for message in messages]
    if not (tools := read_tools(body)):
        return written
    lines = [
        json.dumps({name: tool[name] for name in ("name", "description", "parameters") if name in tool})
        for tool in tools
    ]
    call = f'{_OPEN}{{"name": ..., "arguments": {{...}}}}{_CLOSE}'
    system = "\n".join(("Tools:", *lines, f"To call one: {call}"))
    return [{"role": "system", "content": system}, *written]


def split_calls(reply: str, prefix: str) -> tuple[str | None, list[dict[str, Json]]]:
    """Return a reply's text and its tool calls in OpenAI's format; a call that cannot be read stays text."""
    calls: list[dict[str, Json]] = []
    texts, position = list[str](), 0
    # No call can follow the last end of one. Searching there, too, a reply of openings alone would take quadratic time.
    for opening in _OPENING.finditer(reply, 0, max(0, reply.rfind(_CLOSE))):
        function, end = _read_call(reply, opening.end())
        # One that begins within the call before it is part of its arguments.
        if function is not None and opening.start() >= position:
            calls.append({"id": f"{prefix}-{len(calls)}", "type": "function", "function": function})
            texts.append(reply[position : opening.start()])
            position = end
    rest = "".join((*texts, reply[position:]))
    return (rest.strip() or None if calls else rest), calls


def _read_call(reply: str, start: int) -> tuple[dict[str, Json] | None, int]:
    """Return the function that a call names and where the call ends; None if it is not a name and an object of arguments."""
    try:
        call, end = _DECODER.raw_decode(reply, start)
        name, arguments = call["name"], call["arguments"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, start
    closing = _CLOSING.match(reply, end)
    if closing is None or not isinstance(name, str) or not isinstance(arguments, dict):
        return None, start
    return {"name": name, "arguments": json.dumps(arguments)}, closing.end()


def _refuse_constant(name: str) -> None:
    """Raise ValueError: Python reads NaN and Infinity, which are not JSON."""
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _required_tool(body: Body) -> str | None:
    """Return the name of the tool that has to be called, empty for any; None if none has to be."""
    choice = body.get("tool_choice")
    if choice in (None, "none", "auto"):
        return None
    if choice == "required":
        return ""
    function = choice.get("function") if isinstance(choice, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise Refusal(f"tool_choice is {choice!r}; {_EXPECTED_CHOICE}")
    return str(function["name"])


@functools.lru_cache(maxsize=32)
def _compile(schemas: str, is_call: bool, tokenizer: Tokenizer) -> Language:
    """Return the language of a schema, of any object for null, or of calls of tools.

    The same request comes often, and compiling takes time.
    """
    content = json.loads(schemas)
    if is_call:
        node = choice(_call_node(name, schema) for name, schema in content)
    else:
        node = object_node() if content is None else json_node(content)
    return Language(node, [tokenizer.bytes_of([token]) for token in range(tokenizer.pad)], tokenizer.eos)


def _call_node(name: str, schema: Any) -> Node:
    start = f'{_OPEN}{{"name": {json.dumps(name)}, "arguments": '
    if isinstance(schema, Mapping) and schema.get("type", "object") != "object":
        raise ValueError(f"the parameters of tool {name!r} have the type {schema['type']!r}; expected object")
    try:
        arguments = json_node(schema) if schema else literal("{}")
    except ValueError as error:
        raise ValueError(f"the parameters of tool {name!r}: {error}") from None
    return sequence(literal(start), arguments, literal(f"}}{_CLOSE}"))


def _write_calls(message: Any) -> Any:
    """Return a message whose tool calls are part of its text."""
    if not isinstance(message, Mapping) or not message.get("tool_calls"):
        return message
    try:
        texts = [message_text(message)] if message.get("content") else []
        for call in message["tool_calls"]:
            function = call["function"]
            content = {"name": function["name"], "arguments": json.loads(function["arguments"])}
            texts.append(f"{_OPEN}{json.dumps(content)}{_CLOSE}")
    except (TypeError, KeyError, ValueError):
        raise Refusal(
            "a tool call in messages must have a function with a name, and its arguments as JSON, beside text alone"
        ) from None
    return {"role": message.get("role"), "content": "".join(texts)}


MAX_CHOICES, MAX_TOP_LOGPROBS = 128, 20
# Parameters that would change the reply and are not supported: ignoring them would return a wrong reply.
_UNSUPPORTED = (
    *("suffix", "functions", "logit_bias", "presence_penalty", "frequency_penalty"),
    *("min_p", "repetition_penalty", "best_of"),
)
# Values of these that have no effect, and are accepted.
_DEFAULTS: dict[str, Json] = {"response_format": {"type": "text"}, "repetition_penalty": 1, "best_of": 1}


def read_body(request: Request, *of_chats: str) -> Body:
    """Return the body; refuse what is not supported, and what only chats have."""
    return check_supported(request.object(), *of_chats)


def check_supported(body: Body, *of_chats: str) -> Body:
    """Return the body; refuse what would change the reply and is not supported, and these fields."""
    if unsupported := [
        name for name in (*_UNSUPPORTED, *of_chats) if body.get(name) and body[name] != _DEFAULTS.get(name)
    ]:
        raise Refusal(f"{', '.join(unsupported)} is not supported by this server: leave it out")
    return body


def read_prompts(prompt: Json) -> list[Json]:
    """Return one prompt, or several; a list of numbers is one prompt."""
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return prompt
    return [prompt]


def encode_prompt(tokenizer: Tokenizer, prompt: Json, name: str) -> list[int]:
    """Return the tokens of a text, or the tokens that are given."""
    if isinstance(prompt, str):
        return tokenizer.encode(prompt) or [tokenizer.eos]
    return whole_numbers(prompt, name)


def read_sample_request(
    service: Service, tokenizer: Tokenizer, body: Body, prompt: list[int], limit: str, default: int | None, top: int
) -> SampleRequest:
    """Return a sample request. Stop texts are added to the end token; in Tinker's format they replace it."""
    params = SamplingParams(
        max_tokens=default if body.get(limit) is None else body.whole(limit),
        seed=body.whole("seed", derive_seed("openai", next(service.numbers)), least=-(2**63)),
        temperature=body.number("temperature", 1.0),
        top_k=body.whole("top_k", -1, least=-1),
        top_p=body.number("top_p", 1.0),
        stop=(*read_stops(body), tokenizer.eos),
        num_samples=body.whole("n", 1, least=1, most=MAX_CHOICES),
        language=read_language(body, tokenizer),
    )
    return SampleRequest(prompt, params, top)


def read_stops(body: Body) -> list[str]:
    stop = body.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(text, str) and text for text in stops):
        raise Refusal("stop must be a text or a list of texts")
    return [text for text in stops if isinstance(text, str)]


LOCAL = "local:"
STAND_IN = f"stand-in:{BASE_MODEL}"
"""The system fingerprint of replies that a stand-in gives under another model's name."""


def models(service: Service, request: Request) -> Response:
    """Return the base model and all sampler weights."""
    names = [
        (BASE_MODEL, Weights(service.models.own)),
        *((name, Weights(base)) for name, base in service.models.stand_ins.items()),
    ]
    rows: list[Json] = [_describe(name, weights) for name, weights in names]
    for checkpoint in service.archive.all():
        if checkpoint.path.kind == SAMPLER:
            # A checkpoint of another base is listed, too: asking for it says what is missing.
            is_own = checkpoint.info.base_sha256 == service.engine.base_sha256
            rows.append(_row(str(checkpoint.path), checkpoint.info.created, is_own=is_own))
    return Response.of_json({"object": "list", "data": rows})


def model(service: Service, request: Request) -> Response:
    """Return one of the models, by any name that a request may give; 404 for an unknown one."""
    name = request.parameters["model"]
    return Response.of_json(_describe(name, find_weights(service, name)))


def _describe(name: str, weights: Weights) -> Json:
    return _row(name, weights.created, is_own=not weights.base.stand_in)


def _row(name: str, created: float, *, is_own: bool) -> Json:
    row: dict[str, Json] = {"id": name, "object": "model", "created": int(created), "owned_by": "local"}
    return row if is_own else {**row, "stand_in": BASE_MODEL}


def find_weights(service: Service, model: str) -> Weights:
    """Return the weights that a request names; 404 for an unknown name."""
    if base := service.models.get(model):
        return Weights(base)
    if model.startswith(SCHEME):
        return service.weights_at(model)
    name = model.removeprefix(LOCAL)
    for checkpoint in service.archive.all():
        if (checkpoint.path.kind, checkpoint.path.name) == (SAMPLER, name):
            return service.weights_at(str(checkpoint.path))
    names = ", ".join((BASE_MODEL, *service.models.stand_ins))
    raise NotFound(f"unknown model {model!r}; expected {names}, a tinker:// path, or a name of sampler weights")


def fingerprint(weights: Weights) -> dict[str, Json]:
    """Return the mark of a stand-in's reply; nothing for the server's own model."""
    return {"system_fingerprint": STAND_IN} if weights.base.stand_in else {}


ENDPOINTS: Endpoints = {("GET", "/models"): models, ("GET", "/models/{*model}"): model}


def tokens_of(reply: Sampled) -> list[Token]:
    """Return the tokens of a reply with their log-probabilities."""
    tops = _tops(reply.topk_tokens, reply.topk_logprobs, len(reply.tokens))
    return [Token(*token) for token in zip(reply.tokens, reply.logprobs, tops, strict=True)]


def tokens_of_prompt(prompt: Sequence[int], scored: Scored) -> list[Token]:
    """Return the tokens of a prompt with theirs, each given those before; NaN for the first."""
    tops = _tops(scored.topk_tokens, scored.topk_logprobs, len(prompt))
    return [Token(*token) for token in zip(prompt, scored.logprobs.tolist(), [(), *tops[1:]], strict=True)]


def completion_logprobs(tokenizer: Tokenizer, tokens: Sequence[Token], top: int, start: int = 0) -> Json:
    """Return the log-probabilities of a completion, with the `top` most probable ones; `start` is the place of its text."""
    texts = [tokenizer.decode([token.id]) for token in tokens]
    tops: list[Json] = [
        {tokenizer.decode([each]): logprob for each, logprob in token.top} if token.top else None for token in tokens
    ]
    return {
        "tokens": texts,
        "token_logprobs": [token.logprob if math.isfinite(token.logprob) else None for token in tokens],
        "top_logprobs": tops if top else None,
        "text_offset": list(itertools.accumulate(map(len, texts[:-1]), initial=start)) if texts else [],
    }


def chat_logprobs(tokenizer: Tokenizer, tokens: Sequence[Token]) -> Json:

    def token_entry(token: int, logprob: float) -> dict[str, Json]:
        content = tokenizer.bytes_of([token])
        return {"token": content.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(content)}

    content: list[Json] = [
        {**token_entry(token.id, token.logprob), "top_logprobs": [token_entry(*pair) for pair in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _tops(tokens: Integers | None, logprobs: Floats | None, count: int) -> list[Sequence[tuple[int, float]]]:
    if tokens is None or logprobs is None:
        return [()] * count
    return [list(zip(*row, strict=True)) for row in zip(tokens.tolist(), logprobs.tolist(), strict=True)]
