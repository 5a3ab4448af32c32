"""Endpoints that sample: sampling sessions and their requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np

from pytest_crucible.embedded.sampling import SamplingParams, check_prompt
from pytest_crucible.embedded.server import fields, tensors
from pytest_crucible.embedded.server.completions import Completion
from pytest_crucible.embedded.server.fields import Body
from pytest_crucible.embedded.server.messages import PROTOBUF, Json, Request, Response, bad_request, json_response
from pytest_crucible.embedded.server.replies import Answer, Scoring, Weights, Wish
from pytest_crucible.embedded.server.state import FETCH_S, Endpoints, Sampling, Service, seed_of
from pytest_crucible.embedded.server.tinker_messages import (
    SampledSequence,
    SampleResponse,
    TopLogprobs,
    write_sample_response,
)
from pytest_crucible.embedded.server.work import Group
from pytest_crucible.embedded.shape import Floats, Integers
from pytest_crucible.embedded.stops import Stop

CLONE = 1_000_000_000
"""Requests of the n-th copy of a sampling client are numbered from n times this."""
MOST_SAMPLES, MOST_ALTERNATIVES = 1024, 1024


def create_sampling_session(service: Service, request: Request) -> Response:
    """Sample from here on from the base model, or from a checkpoint."""
    body = request.object()
    session = service.session(fields.text(body, "session_id"))
    number = fields.whole(body, "sampling_session_seq_id")
    sampling = service.open_sampling(session, number, _weights_in(service, body))
    return json_response({"type": "create_sampling_session", "sampling_session_id": sampling.id})


def get_sampler(service: Service, request: Request) -> Response:
    """From what a sampling session samples."""
    sampling = service.sampling(request.parameters["sampler"])
    return json_response(
        {"sampler_id": sampling.id, "base_model": service.model_name, "model_path": sampling.weights.model_path}
    )


def asample(service: Service, request: Request) -> Response:
    """Sample; every sequence has its id at once."""
    body = request.object()
    sampling = None
    if body.get("sampling_session_id") is not None:
        sampling = service.sampling(fields.text(body, "sampling_session_id"))
    weights = sampling.weights if sampling else _weights_in(service, body)
    number = fields.whole(body, "seq_id") if sampling else next(service.numbers)
    request_id = f"{sampling.id if sampling else 'sample'}:{number}"
    wish = _wish_in(service, body, _place(service, sampling, number))
    watched = _clone(sampling.id, number // CLONE) if sampling else None
    service.submit(request_id, lambda: sample(service, weights, wish), partial(_told, wish), watched)
    sequences: list[Json] = [f"{request_id}:{place}" for place in range(wish.params.num_samples)]
    return json_response({"request_id": request_id, "sample_sequence_ids": sequences})


def join(service: Service, request: Request) -> Response:
    """A copy of a sampling client, in another process, gets a number of its own; the original is 0."""
    sampling = service.sampling(fields.text(request.object(), "sampling_session_id"))
    service.clones[sampling.id] += 1
    return json_response({"type": "join_sampling_session", "client_counter": service.clones[sampling.id]})


async def retrieve_futures(service: Service, request: Request) -> Response:
    """Which requests of one sampling client are done since it asked last; waits for the first where there is none."""
    body = request.object()
    target = fields.inner(body, "target")
    sampling = service.sampling(fields.text(target, "sampling_session_id"))
    watched = _clone(sampling.id, fields.whole(target, "cloned_sampler_id", 0))
    for request_id in fields.texts(body, "retrieved_request_ids"):
        if request_id.startswith(f"{sampling.id}:"):
            service.futures.forget(request_id)
    patience_s = min(fields.number(body, "timeout", FETCH_S, least=0.0), FETCH_S)
    done, cursor = await service.completions.after(watched, fields.whole(body, "prev_cursor", 0), patience_s)
    return json_response({"completions": [_completion(one) for one in done], "cursor": cursor})


def sample(service: Service, weights: Weights, wish: Wish) -> asyncio.Future[Answer]:
    """Have a wish computed, together with others that can share the work. A prompt that cannot be read fails alone."""
    try:
        check_prompt(wish.prompt, service.engine.shape)
    except ValueError as error:
        failed: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed
    group: Group[Wish, Answer] = Group((weights, wish.topk), lambda wishes: service.samplers.answers(weights, wishes))
    return service.work.share(group, wish, rows=wish.params.num_samples)


def _clone(sampling: str, number: int) -> str:
    return f"{sampling}/{number}"


def _completion(one: Completion) -> Json:
    if one.size is None:
        return {"state": "failed", "request_id": one.request_id}
    return {"state": "finished", "request_id": one.request_id, "response_payload_uncompressed_size": one.size}


def _top(tokens: Integers | None, logprobs: Floats | None) -> TopLogprobs | None:
    return None if tokens is None or logprobs is None else TopLogprobs(tokens, logprobs)


def _weights_in(service: Service, body: Body) -> Weights:
    if body.get("model_path") is not None:
        return service.weights_at(fields.text(body, "model_path"))
    if body.get("base_model") is None:
        raise bad_request("either base_model or model_path must say what to sample from")
    service.check_base_model(fields.text(body, "base_model"))
    return Weights()


def _place(service: Service, sampling: Sampling | None, number: int) -> tuple[int | str, ...]:
    if sampling is None:
        return ("direct", number)
    return (service.sessions[sampling.session].number, sampling.number, number)


def _wish_in(service: Service, body: Body, place: Sequence[int | str]) -> Wish:
    given = fields.inner(body, "sampling_params")
    vocabulary = service.engine.shape.vocabulary
    params = SamplingParams(
        max_tokens=fields.optional_whole(given, "max_tokens"),
        seed=fields.whole(given, "seed", seed_of(*place), least=-(2**63)),
        temperature=fields.number(given, "temperature", 1.0),
        top_k=fields.whole(given, "top_k", -1, least=-1),
        top_p=fields.number(given, "top_p", 1.0),
        stop=_stops_in(given.get("stop")),
        num_samples=fields.whole(body, "num_samples", 1, least=1, most=MOST_SAMPLES),
    )
    prompt = _prompt_in(fields.inner(body, "prompt"))
    topk = fields.whole(body, "topk_sample_logprobs", 0, most=vocabulary)
    return Wish(prompt, params, topk, _scoring_in(body, prompt, vocabulary))


def _scoring_in(body: Body, prompt: list[int], vocabulary: int) -> Scoring | None:
    targets, sparse = _targets_in(fields.inner(body, "target_prompt_logprobs", {}))
    scoring = Scoring(
        topk=fields.whole(body, "topk_prompt_logprobs", 0, most=vocabulary),
        last=fields.optional_whole(body, "prompt_logprobs_last_n", least=1, most=max(1, len(prompt) - 1)),
        targets=targets,
        sparse=sparse,
        alternatives=fields.whole(body, "prompt_alt_tokens_k", 0, most=MOST_ALTERNATIVES),
    )
    wanted = fields.truth(body, "prompt_logprobs", False) or scoring.topk or scoring.alternatives
    return scoring if wanted or scoring.targets is not None else None


def _prompt_in(prompt: Body) -> list[int]:
    chunks = prompt.get("chunks")
    if not isinstance(chunks, list):
        raise bad_request("prompt.chunks must be a list")
    tokens: list[int] = []
    for chunk in chunks:
        if not isinstance(chunk, dict) or chunk.get("type", "encoded_text") != "encoded_text":
            raise bad_request("a chunk of the prompt is no encoded_text; this model reads text only")
        tokens += fields.whole_numbers(chunk.get("tokens"), "tokens")
    return tokens


def _stops_in(stop: Json) -> tuple[Stop, ...] | None:
    if stop is None:
        return None
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not {type(one) for one in stops} <= {str, int}:
        raise bad_request("stop must be a text, or a list of texts or of token ids")
    if empty := [one for one in stops if one == ""]:
        raise bad_request(f"{empty[0]!r} cannot end a reply: it is empty")
    return tuple(cast(list[Stop], stops))


def _targets_in(given: Body) -> tuple[Integers | None, tuple[Integers, Integers] | None]:
    """Ids to score, -1 where none is asked for; and the places of their cells when they came as compressed rows."""
    if not given:
        return None, None
    data, shape = (fields.whole_numbers(given.get(name), name) for name in ("data", "shape"))
    values = np.array(data, np.int64)
    if given.get("sparse_crow_indices") is None:
        return values.reshape(shape), None
    names = ("sparse_crow_indices", "sparse_col_indices")
    starts, columns = (np.array(fields.whole_numbers(given.get(name), name), np.int64) for name in names)
    return cast(Integers, tensors.dense_of(values, starts, columns, shape, fill=-1)), (starts, columns)


def _told(wish: Wish, answer: Answer) -> Response:
    sequences = [
        SampledSequence(one.tokens, one.logprobs, one.stop_reason, _top(one.topk_tokens, one.topk_logprobs))
        for one in answer.replies
    ]
    response = SampleResponse(sequences)
    if wish.scoring and (scored := answer.scored):
        response = SampleResponse(
            sequences,
            prompt_logprobs=scored.logprobs,
            top_prompt=_top(scored.topk_tokens, scored.topk_logprobs),
            target_prompt_logprobs=_targets_told(wish.scoring, scored.of_targets),
            alternatives=None if answer.alternatives is None else TopLogprobs(*answer.alternatives),
        )
    return Response(body=write_sample_response(response), kind=PROTOBUF)


def _targets_told(scoring: Scoring, logprobs: Floats | None) -> bytes | None:
    if logprobs is None:
        return None
    if scoring.sparse is None:
        return tensors.write_tensor(logprobs)
    starts, columns = scoring.sparse
    rows = np.repeat(np.arange(len(logprobs)), np.diff(starts))
    return tensors.write_sparse(logprobs[rows, columns], starts, columns, logprobs.shape)


ENDPOINTS: Endpoints = {
    ("POST", "/create_sampling_session"): create_sampling_session,
    ("GET", "/samplers/{sampler}"): get_sampler,
    ("POST", "/join_sampling_session"): join,
    ("POST", "/asample"): asample,
    ("POST", "/retrieve_futures"): retrieve_futures,
}
