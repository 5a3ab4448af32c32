"""Tries an OpenAI-compatible server with a few short requests, and reports in words what works and what fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pytest_crucible.backends.openai.backend import OpenAIBackend, list_models, open_openai
from pytest_crucible.backends.openai.settings import Settings, read_settings
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, SpecError, closest_name

# A server may load its model at the first request; after this it is taken for hanging.
PATIENCE_S = 60.0
# Enough for these replies with some reasoning before them; a model that does not stop costs little.
MOST_TOKENS = 512
QUESTION = "Reply with one word: ready."
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}
LENGTHS = ("max_tokens", "max_completion_tokens")
"""Names of the parameter that limits a reply: OpenAI's reasoning models accept the second alone."""
_ABOUT = {"401": "key", "403": "key", "402": "limits", "429": "limits"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The result of one trial: it works, it fails, or the server lacks something that few suites need."""

    subject: str
    state: Literal["ok", "fails", "lacks"]
    detail: str


def server_adapter(url: str, model: str = "", key_env: str = "") -> Adapter:
    """Return an adapter of a server, with its only model where none is named. Raises SpecError for several, or none."""
    options = {"base_url": url, "model": model or "?", **({"api_key_env": key_env} if key_env else {})}
    adapter = Adapter(name="server", backend="openai", options=options)
    if model:
        return adapter
    names = list_models(read_settings(adapter, Path.cwd()))
    if len(names) != 1:
        problem = (
            f"has {len(names)} models ({', '.join(names[:5])}): add --model NAME"
            if names
            else "lists no models: see whether it is the base URL of a running server, or add --model NAME"
        )
        raise SpecError(f"--server {url} {problem}")
    return Adapter(name="server", backend="openai", options={**options, "model": names[0]})


def probe_server(adapter: Adapter) -> list[ProbeResult]:
    """Return the results of at most six requests. Raises SpecError for settings that cannot be used."""
    settings = read_settings(adapter, Path.cwd())
    return asyncio.run(_probe(open_openai(adapter, Path.cwd()), settings))


def try_server(adapter: Adapter) -> None:
    """Send one request. Raises SpecError with the failures in words."""
    settings = read_settings(adapter, Path.cwd())
    results = asyncio.run(_probe(open_openai(adapter, Path.cwd()), settings, only_reply=True))
    failures = [f"{result.subject}: {result.detail}" for result in results if result.state == "fails"]
    if failures:
        raise SpecError("; ".join(failures))


async def _probe(backend: OpenAIBackend, settings: Settings, *, only_reply: bool = False) -> list[ProbeResult]:
    try:
        try:
            reply, length = await _first_reply(backend)
        except BackendError as error:
            return list(_failures(error, settings))
        results = list(_successes(reply, length, settings))
        if only_reply:
            return results
        return [*results, _limits(backend), *[await _try(backend, length, trial) for trial in TRIALS]]
    finally:
        await backend.close()


async def _first_reply(backend: OpenAIBackend) -> tuple[Reply, str]:
    """Return a reply, and the name of the parameter that limited it. Raises BackendError."""
    length = LENGTHS[0]
    try:
        return await _send(backend, {length: MOST_TOKENS}), length
    except Refused as error:
        if repr(length) not in str(error):
            raise
    return await _send(backend, {LENGTHS[1]: MOST_TOKENS}), LENGTHS[1]


async def _send(backend: OpenAIBackend, parameters: Mapping[str, Any], *, streams: bool = False) -> Reply:
    open_stream = (lambda: lambda piece: None) if streams else None
    request = Request(input=QUESTION, sample="probe", repeat=0, parameters=parameters, open_stream=open_stream)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await backend.generate(request)
    except TimeoutError:
        raise BackendError(
            f"no reply within {PATIENCE_S:g} s: see whether the server has loaded the model, and whether the URL is its"
        ) from None


def _failures(error: BackendError, settings: Settings) -> Iterator[ProbeResult]:
    """Yield the failure under the name of its cause, as far as that is known."""
    subject = _ABOUT.get(error.kind, "reply")
    models = list_models(settings) if subject == "reply" else []
    if models and settings.model not in models:
        near = closest_name(settings.model, models)
        hint = f"did you mean {near!r}?" if near else f"it lists {', '.join(map(repr, models[:5]))}"
        yield ProbeResult(subject="model", state="fails", detail=f"the server has no model {settings.model!r}: {hint}")
    hint = "; its base URL usually ends in /v1" if error.kind == "garbage" else ""
    yield ProbeResult(subject=subject, state="fails", detail=f"{error}{hint}")


def _successes(reply: Reply, length: str, settings: Settings) -> Iterator[ProbeResult]:
    yield ProbeResult(subject="key", state="ok", detail=settings.key_from)
    own_name = f", which calls itself {reply.model!r}" if reply.model not in ("", settings.model) else ""
    yield ProbeResult(subject="model", state="ok", detail=f"{settings.model}{own_name}")
    text, seconds = reply.answer.strip(), f"{reply.latency_s or 0.0:.2f} s"
    if text:
        yield ProbeResult(subject="reply", state="ok", detail=f"{text!r:.60} after {seconds}{_tokens(reply)}")
    else:
        cause = f"finish {reply.finish!r}, {len(reply.reasoning):,} characters of reasoning"
        yield ProbeResult(subject="reply", state="fails", detail=f"the text is empty after {seconds} ({cause})")
    if length != LENGTHS[0]:
        detail = f"the model refuses max_tokens: write {length} in its place"
        yield ProbeResult(subject="parameters", state="ok", detail=detail)


def _tokens(reply: Reply) -> str:
    if reply.output_tokens is None:
        return "; the server counts no tokens, so that costs and budgets in tokens are unknown"
    return f", {reply.input_tokens} tokens read and {reply.output_tokens} written"


def _limits(backend: OpenAIBackend) -> ProbeResult:
    limits = backend.reported_limits
    amounts = {
        unit: (getattr(limits, f"remaining_{unit}", None), getattr(limits, f"limit_{unit}", None))
        for unit in ("requests", "tokens")
    }
    parts = [
        f"{left:,}{'' if limit is None else f' of {limit:,}'} {unit} left"
        for unit, (left, limit) in amounts.items()
        if left is not None
    ]
    detail = ", ".join(parts) or "none in the server's headers"
    return ProbeResult(subject="limits", state="ok", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    subject: str
    parameters: Mapping[str, Any]
    read: Callable[[Reply], tuple[bool, str]]
    """Returns whether the reply shows it, and the detail."""
    streams: bool = False


async def _try(backend: OpenAIBackend, length: str, trial: _Trial) -> ProbeResult:
    try:
        reply = await _send(backend, {length: MOST_TOKENS, **trial.parameters}, streams=trial.streams)
    except BackendError as error:
        works, detail = False, str(error)
    else:
        works, detail = trial.read(reply)
    return ProbeResult(subject=trial.subject, state="ok" if works else "lacks", detail=detail)


def _read_stream(reply: Reply) -> tuple[bool, str]:
    if reply.first_token_s is None:
        return False, "the reply came in one piece"
    return True, f"the first token came after {reply.first_token_s:.2f} s"


def _read_logprobs(reply: Reply) -> tuple[bool, str]:
    return (True, f"of {len(reply.logprobs)} tokens") if reply.logprobs else (False, "the reply has none")


def _read_json(reply: Reply) -> tuple[bool, str]:
    try:
        value = json.loads(reply.answer)
    except ValueError:
        value = None
    follows = isinstance(value, dict) and [*value] == ["ready"] and isinstance(value["ready"], bool)
    return follows, "the reply follows it" if follows else f"the reply does not follow it: {reply.answer.strip()!r:.80}"


_FORMAT = {"type": "json_schema", "json_schema": {"name": "probe", "strict": True, "schema": SCHEMA}}
TRIALS = (
    _Trial(subject="streaming", parameters={}, read=_read_stream, streams=True),
    _Trial(subject="log-probabilities", parameters={"logprobs": True}, read=_read_logprobs),
    _Trial(subject="JSON schema", parameters={"response_format": _FORMAT}, read=_read_json),
)
