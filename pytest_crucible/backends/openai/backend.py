"""The backend: one attempt at one reply from an OpenAI-compatible server."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.backends.deadlines import note_answer
from pytest_crucible.backends.http import open_client
from pytest_crucible.backends.http.client import is_loopback
from pytest_crucible.backends.http.connection import Response, is_event_stream
from pytest_crucible.backends.limiting.history import ReportedLimits
from pytest_crucible.backends.openai.responses import (
    check_choices,
    parse_reply,
    read_headers,
    reply_or_error,
    status_within,
)
from pytest_crucible.backends.openai.settings import Mode, Settings, check_parameters, read_settings
from pytest_crucible.backends.openai.streams import Stream
from pytest_crucible.backends.protocol import CHOICES, EMBEDDINGS, derived_seed, longest_body, score_choices
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError, describe_type

PATHS: dict[Mode, str] = {"chat": "/chat/completions", "completions": "/completions"}
# Their own types first: an agent's conversation has a hundred messages, and an abstract class takes eight times as long to check.
_SEQUENCE, _MAPPING = (list, Sequence), (dict, Mapping)
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False, ensure_ascii=False, allow_nan=False)


def request_body(settings: Settings, request: Request) -> tuple[str, bytes]:
    """Return the path and the body of a request. Raises Refused for invalid parameters and prompts, BackendError for a text."""
    message = f"adapter {settings.name!r} cannot send sample {request.sample!r:.200}"
    try:
        check_parameters(request.parameters)
        # Token ids need completions, texts and messages use chat.
        mode = settings.mode or ("completions" if _is_tokens(request.input) else "chat")
        prompt = _chat(settings, request.input) if mode == "chat" else _prompt(settings, request.input)
        streaming = (
            {"stream": True, "stream_options": {"include_usage": True}} if is_streamed(settings, request) else {}
        )
        body = {"model": settings.model, **prompt, **_sampling(request, mode), **streaming}
        return PATHS[mode], _ENCODER.encode({**body, **settings.extra_body}).encode()
    except UnicodeEncodeError as error:
        raise BackendError(f"{message}: its text is not valid Unicode ({error.reason})") from None
    except (TypeError, ValueError) as error:
        raise Refused(f"{message}: {error}") from None


def _chat(settings: Settings, prompt: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _messages(prompt)
    if settings.system is None:
        return {"messages": messages}
    if messages[0]["role"] in ("system", "developer"):
        raise ValueError("the adapter has a system prompt and the messages begin with another one: remove one of them")
    return {"messages": [{"role": "system", "content": settings.system}, *messages]}


def _messages(prompt: Any) -> list[Mapping[str, Any]]:
    if _is_tokens(prompt):
        raise TypeError("its input is a list of token ids, which only completions accept: remove mode and system")
    if not isinstance(prompt, _SEQUENCE) or not prompt or isinstance(prompt, bytes):
        raise TypeError(
            f"its input is {describe_type(prompt)}; expected a text, a list of messages or a list of token ids"
        )
    for message in prompt:
        if not isinstance(message, _MAPPING) or not isinstance(message.get("role"), str):
            raise TypeError("a message of its input has no role: write {'role': ..., 'content': ...}")
    # Not validated further: servers accept roles and content parts that we do not know.
    return list(prompt)


def _prompt(settings: Settings, prompt: Any) -> dict[str, Any]:
    if settings.system is not None:
        raise ValueError("the adapter has a system prompt, which token ids do not allow: remove it")
    if isinstance(prompt, str) or _is_tokens(prompt):
        return {"prompt": prompt}
    raise TypeError(f"its input is {describe_type(prompt)}; completions expect a text or a list of token ids")


def _is_tokens(prompt: Any) -> bool:
    return isinstance(prompt, list | tuple) and bool(prompt) and all(type(token) is int for token in prompt)


def _sampling(request: Request, mode: Mode) -> dict[str, Any]:
    """Return the sampling parameters. A seed is derived for each sample and repeat, so that a resend gets the same one."""
    parameters = {name: value for name, value in request.parameters.items() if value is not None}
    if "seed" in parameters:
        # The call number is left out: two calls with one prompt in a sample are one draw unless seeds differ.
        parameters["seed"] = derived_seed(parameters["seed"], request.sample, request.repeat, 1)
    if "logprobs" in parameters:
        _set_logprobs(parameters, mode)
    return parameters


def _set_logprobs(parameters: dict[str, Any], mode: Mode) -> None:
    """Set `logprobs` in the endpoint's form.

    Chat expects true and a number of alternatives, completions a number; every server accepts 1, for the tokens themselves.
    """
    logprobs = parameters.pop("logprobs")
    if logprobs is False:
        parameters.pop("top_logprobs", None)
    elif mode == "completions":
        parameters["logprobs"] = parameters.pop("top_logprobs", 1) if logprobs is True else logprobs
    else:
        parameters["logprobs"] = True
        if logprobs is not True:
            parameters.setdefault("top_logprobs", logprobs)


def is_streamed(settings: Settings, request: Request) -> bool:
    """Return whether the reply comes in pieces: by the adapter's setting, or because the test reads them."""
    return settings.stream or request.open_stream is not None


def parse_echo(answer: Mapping[str, Any], where: str) -> list[float]:
    """Return the log-probabilities of the prompt's tokens but the first. Raises BackendError if there are none."""
    try:
        logprobs = answer["choices"][0]["logprobs"]["token_logprobs"]
        count = answer["usage"]["prompt_tokens"]
        scored = [float(value) for value in logprobs[1:count]]
    except (KeyError, IndexError, TypeError, ValueError):
        scored, count = [], 0
    # A server that ignores `echo` returns the one generated token.
    if not count or len(scored) != count - 1:
        raise BackendError(f"{where} returned no log-probabilities of the prompt; use a server with echo, such as vLLM")
    return scored


# The path of Tinker's endpoint in OpenAI's format; a local server is the only one at this path on the loopback interface.
_PATH = "/oai/api/v1"
# The list of models of a local server takes milliseconds; a busy machine may need longer.
_PATIENCE_S = 2.0
# Bytes of a list of models: a gateway lists some hundred.
_LONGEST_LIST = 4_000_000


def is_stand_in(settings: Settings) -> bool:
    """Return whether a server lists the model as a stand-in. Only servers on this machine are queried. False without an answer."""
    address = settings.address
    if not is_loopback(address.host) or address.path.rstrip("/") != _PATH or address.scheme != "http":
        return False
    return any(model["id"] == settings.model and "stand_in" in model for model in _models(settings))


def list_models(settings: Settings) -> list[str]:
    """Return the names of the models that a server lists; empty if it lists none."""
    return [str(model["id"]) for model in _models(settings)]


def describe_models(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return what a server reports of each model by its name, such as the `root` of its checkpoint; empty without an answer."""
    return {
        model["id"]: {name: fact for name, fact in model.items() if name not in _NOT_OF_THE_MODEL}
        for model in _models(settings)
    }


# When it was loaded, and by which server.
_NOT_OF_THE_MODEL = frozenset({"id", "object", "created", "owned_by", "permission"})


def _models(settings: Settings) -> list[Mapping[str, Any]]:
    """Return what a server lists as its models, each with an `id`; empty without an answer."""
    import http.client

    address = settings.address
    kind = http.client.HTTPConnection if address.scheme == "http" else http.client.HTTPSConnection
    connection = kind(address.host, address.port, timeout=_PATIENCE_S)
    try:
        query = f"?{address.query}" if address.query else ""
        connection.request("GET", f"{address.path.rstrip('/')}/models{query}", headers=dict(settings.headers))
        models = json.loads(connection.getresponse().read(_LONGEST_LIST))["data"]
        return [model for model in models if isinstance(model["id"], str)]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return []
    finally:
        connection.close()


class OpenAIBackend:
    """Queries one model of one server.

    A text or a list of messages goes to chat completions, a list of token ids to completions, unless `mode` is set. Each call
    is one request on the wire; see `failures` for when it raises Retryable, Refused or BackendError.
    """

    def __init__(self, settings: Settings, *, simulated: bool = False) -> None:
        """`simulated` is True where a local server lets another model answer under this name. Raises SpecError."""
        self.identity, self.simulated, self.system = settings.identity, simulated, settings.system or ""
        self.server, self.model = settings.server, settings.model
        self._settings, self._where = settings, settings.address.origin
        self._client = open_client(
            settings.address,
            settings.headers,
            transport=settings.transport,
            max_body=longest_body(settings.max_reply_bytes, stream=settings.stream),
            verify=settings.verify,
            ca_file=settings.ca_file,
            client=settings.client,
        )
        self._headers: Mapping[str, str] = {}

    @property
    def reported_limits(self) -> ReportedLimits | None:
        """Rate limits in the headers of the last response; None if there were none."""
        return read_headers(self._headers)

    async def generate(self, request: Request) -> Reply:
        if CHOICES in request.parameters:
            return await score_choices(self, request)
        if EMBEDDINGS in request.parameters:
            return await self.embed(request)
        path, body = request_body(self._settings, request)
        choices = self._settings.extra_body.get("n", request.parameters.get("n"))
        stream = _open_stream(self._settings, request, choices)
        response = await self._client.post(path, body, stream)
        self._headers = response.headers
        if not 200 <= response.status < 300:
            return self._handle_error(response, request)
        where = self._where
        is_stream = is_event_stream(response.status, response.headers)
        answer = stream.answer(where) if stream and is_stream else _decode(response, where)
        # Even with choices: what a stream has delivered until then is half an answer.
        if answer.get("error"):
            return self._handle_error(replace(response, status=status_within(answer)), request, answer)
        first = stream.first_token_at - response.sent_at if stream and stream.first_token_at else None
        reply = parse_reply(
            answer,
            seconds=response.seconds,
            first_token_s=first,
            where=where,
            prompt=request.input,
            headers=response.headers,
        )
        check_choices(reply, choices, where)
        return reply

    async def score_prompt(self, text: str) -> Sequence[float]:
        """Return the log-probability of each token but the first, by completions with `echo`, as vLLM and SGLang have it."""
        settings = self._settings
        # One token is generated, because servers refuse none; it is left out below.
        body = {"model": settings.model, "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        sent = json.dumps({**body, **settings.extra_body}).encode()
        response = await self._client.post(PATHS["completions"], sent, None)
        if not 200 <= response.status < 300:
            raise BackendError(f"{self._where} cannot score a prompt: it responded with status {response.status}")
        return parse_echo(_decode(response, self._where), self._where)

    async def embed(self, request: Request) -> Reply:
        """Return the vectors of a text, or of several, as the reply's value: a list of lists of numbers."""
        settings = self._settings
        dimensions = {name: value for name, value in request.parameters.items() if name == "dimensions"}
        body = {"model": settings.model, "input": request.input, **dimensions, **settings.extra_body}
        response = await self._client.post("/embeddings", _ENCODER.encode(body).encode(), None)
        if not 200 <= response.status < 300:
            return self._handle_error(response, request)
        answer = _decode(response, self._where)
        try:
            vectors = [[float(number) for number in each["embedding"]] for each in answer["data"]]
        except (KeyError, TypeError, ValueError):
            raise BackendError(f"{self._where} returned no embeddings") from None
        # 0 is unknown, as of replies.
        read = (answer.get("usage") or {}).get("prompt_tokens") or None
        return Reply(text="", value=vectors, input_tokens=read, output_tokens=0, latency_s=response.seconds)

    async def close(self) -> None:
        """Close the connections of the running loop."""
        await self._client.close()

    def _handle_error(self, response: Response, request: Request, body: Mapping[str, Any] | None = None) -> Reply:
        settings = self._settings
        sent = {*request.parameters, *settings.extra_body}
        if is_streamed(settings, request):
            sent |= {"stream", "stream_options"}
        outcome = reply_or_error(response, settings, sent, body)
        if isinstance(outcome, Reply):
            return outcome
        raise outcome


def open_openai(adapter: Adapter, root: Path, node: str = "") -> OpenAIBackend:
    """Open the backend of an adapter. Raises SpecError for invalid settings and parameters."""
    settings = read_settings(adapter, root, node=node)
    try:
        check_parameters(adapter.parameters)
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has invalid parameters: {error}") from None
    return OpenAIBackend(settings, simulated=is_stand_in(settings))


def _open_stream(settings: Settings, request: Request, choices: Any) -> Stream | None:
    if not is_streamed(settings, request):
        return None
    receive = request.open_stream() if request.open_stream else None
    # Bound here: the pieces arrive outside of the sample's own context.
    begin = contextvars.copy_context()
    choices = choices if isinstance(choices, int) else 1
    return Stream(settings.max_reply_bytes, choices, receive, lambda: begin.run(note_answer))


def _decode(response: Response, where: str) -> dict[str, Any]:
    # httptools does not decompress, and replies are small: asking for identity is cheaper.
    if (encoding := response.headers.get("content-encoding", "identity")) != "identity":
        raise Retryable(f"{where} responded with content-encoding {encoding!r}; expected none", kind="garbage")
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    raise Retryable(f"{where} did not respond with a JSON object", kind="garbage")
