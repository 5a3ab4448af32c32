"""Reads sample requests from bodies in OpenAI's format."""

from __future__ import annotations

from pytest_crucible.local_model.sampling import SamplingParams
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.messages import Json, Request, bad_request
from pytest_crucible.local_model.server.openai_formats import read_language
from pytest_crucible.local_model.server.replies import SampleRequest
from pytest_crucible.local_model.server.request_fields import Body
from pytest_crucible.local_model.server.state import Service, derive_seed
from pytest_crucible.local_model.tokens import Tokenizer

MAX_CHOICES, MAX_TOP_LOGPROBS = 128, 20
# Parameters that would change the reply and are not supported: ignoring them would return a wrong reply.
_UNSUPPORTED = (
    *("echo", "suffix", "functions", "logit_bias", "presence_penalty", "frequency_penalty"),
    *("min_p", "repetition_penalty", "best_of"),
)
# Values of these that have no effect, and are accepted.
_DEFAULTS: dict[str, Json] = {"response_format": {"type": "text"}, "repetition_penalty": 1, "best_of": 1}


def read_body(request: Request, *of_chats: str) -> Body:
    """Return the body; refuse what would change the reply and is not supported, and what only chats have."""
    body = request.object()
    if unsupported := [
        name for name in (*_UNSUPPORTED, *of_chats) if body.get(name) and body[name] != _DEFAULTS.get(name)
    ]:
        raise bad_request(f"{', '.join(unsupported)} is not supported by this server: leave it out")
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
    return request_fields.whole_numbers(prompt, name)


def read_sample_request(
    service: Service, tokenizer: Tokenizer, body: Body, prompt: list[int], limit: str, default: int | None, top: int
) -> SampleRequest:
    """Return a sample request. Stop texts are added to the end token; in Tinker's format they replace it."""
    params = SamplingParams(
        max_tokens=default if body.get(limit) is None else request_fields.whole(body, limit),
        seed=request_fields.whole(body, "seed", derive_seed("openai", next(service.numbers)), least=-(2**63)),
        temperature=request_fields.number(body, "temperature", 1.0),
        top_k=request_fields.whole(body, "top_k", -1, least=-1),
        top_p=request_fields.number(body, "top_p", 1.0),
        stop=(*read_stops(body), tokenizer.eos),
        num_samples=request_fields.whole(body, "n", 1, least=1, most=MAX_CHOICES),
        language=read_language(body, tokenizer),
    )
    return SampleRequest(prompt, params, top)


def read_stops(body: Body) -> list[str]:
    """Return the texts that end a reply."""
    stop = body.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(text, str) and text for text in stops):
        raise bad_request("stop must be a text or a list of texts")
    return [text for text in stops if isinstance(text, str)]
