"""Request bodies: the endpoint, and the JSON that is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.backends.openai.parameters import check_parameters
from pytest_crucible.backends.openai.settings import Mode, Settings
from pytest_crucible.backends.tinker.backend import derived_seed
from pytest_crucible.records import Request
from pytest_crucible.records.errors import BackendError, Refused
from pytest_crucible.records.type_names import describe_type

PATHS: dict[Mode, str] = {"chat": "/chat/completions", "completions": "/completions"}
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False, ensure_ascii=False, allow_nan=False)


def request_body(settings: Settings, request: Request) -> tuple[str, bytes]:
    """Return the path and the body of a request.

    Raises Refused for invalid parameters and prompts, BackendError for a text that cannot be encoded.
    """
    message = f"adapter {settings.name!r} cannot send sample {request.sample!r:.200}"
    try:
        check_parameters(request.parameters)
        mode = settings.mode or _mode(request.input)
        prompt = _chat(settings, request.input) if mode == "chat" else _prompt(settings, request.input)
        body = {"model": settings.model, **prompt, **_sampling(request, mode), **_streaming(settings, request)}
        return PATHS[mode], _ENCODER.encode({**body, **settings.extra_body}).encode()
    except UnicodeEncodeError as error:
        raise BackendError(f"{message}: its text is not valid Unicode ({error.reason})") from None
    except (TypeError, ValueError) as error:
        raise Refused(f"{message}: {error}") from None


def _mode(prompt: Any) -> Mode:
    """Return the endpoint for a prompt: token ids need completions, texts and messages use chat."""
    return "completions" if _is_tokens(prompt) else "chat"


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
    if not isinstance(prompt, Sequence) or not prompt or isinstance(prompt, bytes):
        raise TypeError(
            f"its input is {describe_type(prompt)}; expected a text, a list of messages or a list of token ids"
        )
    for message in prompt:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
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


def _streaming(settings: Settings, request: Request) -> dict[str, Any]:
    return {"stream": True, "stream_options": {"include_usage": True}} if is_streamed(settings, request) else {}
