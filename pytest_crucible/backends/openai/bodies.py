"""From a request to what is sent: which endpoint, and the JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.backends.openai.parameters import check_parameters
from pytest_crucible.backends.openai.settings import Mode, Settings
from pytest_crucible.backends.tinker import derived_seed
from pytest_crucible.errors import BackendError, Refused
from pytest_crucible.records import Request

PATHS: dict[Mode, str] = {"chat": "/chat/completions", "completions": "/completions"}
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False, ensure_ascii=False, allow_nan=False)


def body_of(settings: Settings, request: Request) -> tuple[str, bytes]:
    """Path and body.

    Raises Refused for parameters and inputs that mean nothing, BackendError for a text that cannot be sent.
    """
    who = f"adapter {settings.name!r} cannot be asked sample {request.sample!r}"
    try:
        check_parameters(request.parameters)
        mode = settings.mode or _mode(request.input)
        asked = _chat(settings, request.input) if mode == "chat" else _prompt(settings, request.input)
        said = {"model": settings.model, **asked, **_sampling(request, mode), **_streaming(settings)}
        return PATHS[mode], _ENCODER.encode({**said, **settings.extra_body}).encode()
    except UnicodeEncodeError as error:
        raise BackendError(f"{who}: its text is no Unicode ({error.reason})") from None
    except (TypeError, ValueError) as error:
        raise Refused(f"{who}: {error}") from None


def _mode(given: Any) -> Mode:
    """Token ids can only be completed; texts and messages are talked of."""
    return "completions" if _is_tokens(given) else "chat"


def _chat(settings: Settings, given: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else _messages(given)
    if settings.system is None:
        return {"messages": messages}
    if messages[0]["role"] in ("system", "developer"):
        raise ValueError("the adapter has a system prompt, and its messages begin with another: leave out one of them")
    return {"messages": [{"role": "system", "content": settings.system}, *messages]}


def _messages(given: Any) -> list[Mapping[str, Any]]:
    if _is_tokens(given):
        raise TypeError("its input is token ids, which only completions take: leave out mode and system")
    if not isinstance(given, Sequence) or not given or isinstance(given, bytes):
        raise TypeError(f"its input is a {type(given).__name__}, wanted a text, a list of messages or of token ids")
    for message in given:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise TypeError("a message of its input has no role: write {'role': ..., 'content': ...}")
    return list(given)


def _prompt(settings: Settings, given: Any) -> dict[str, Any]:
    if settings.system is not None:
        raise ValueError("the adapter has a system prompt, which token ids cannot be given")
    if isinstance(given, str) or _is_tokens(given):
        return {"prompt": given}
    raise TypeError(f"its input is a {type(given).__name__}, wanted a text or token ids for plain completions")


def _is_tokens(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and all(type(one) is int for one in given)


def _sampling(request: Request, mode: Mode) -> dict[str, Any]:
    """Parameters as the endpoint has them. A seed gives each sample and repeat its own, the same however often it is asked."""
    said = {name: value for name, value in request.parameters.items() if value is not None}
    if "seed" in said:
        said["seed"] = derived_seed(said["seed"], request.sample, request.epoch, 1)
    if "logprobs" in said:
        _say_logprobs(said, mode)
    return said


def _say_logprobs(said: dict[str, Any], mode: Mode) -> None:
    """Chat wants true and a number, completions a number: 1 is what every server takes for the tokens themselves."""
    wanted = said.pop("logprobs")
    if wanted is False:
        said.pop("top_logprobs", None)
    elif mode == "completions":
        said["logprobs"] = said.pop("top_logprobs", 1) if wanted is True else wanted
    else:
        said["logprobs"] = True
        if wanted is not True:
            said.setdefault("top_logprobs", wanted)


def _streaming(settings: Settings) -> dict[str, Any]:
    return {"stream": True, "stream_options": {"include_usage": True}} if settings.stream else {}
