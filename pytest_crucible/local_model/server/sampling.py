"""Endpoints that sample: sampling sessions, and requests for samples."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import cast

import numpy as np

from pytest_crucible.local_model.config import Integers
from pytest_crucible.local_model.sampling import Sampled, SamplingParams, Stop, check_request
from pytest_crucible.local_model.server.futures import Completion
from pytest_crucible.local_model.server.models import Answer, SampleRequest, Scoring, Weights
from pytest_crucible.local_model.server.protobuf import PROTOBUF, fill_sparse, write_sample_response
from pytest_crucible.local_model.server.state import FETCH_S, Endpoints, Sampling, Service, derive_seed
from pytest_crucible.local_model.server.transport import Body, Json, Refusal, Request, Response, whole_numbers

# Requests of the n-th copy of a sampling client are numbered from n times this number, by the SDK.
CLONE = 1_000_000_000
MAX_SAMPLES, MAX_ALTERNATIVES = 1024, 1024


def create_sampling_session(service: Service, request: Request) -> Response:
    body = request.object()
    session = service.session(body.text("session_id"))
    number = body.whole("sampling_session_seq_id")
    sampling = service.open_sampling(session, number, _read_weights(service, body))
    return Response.of_json({"type": "create_sampling_session", "sampling_session_id": sampling.id})


def get_sampler(service: Service, request: Request) -> Response:
    sampling = service.sampling(request.parameters["sampler"])
    weights = sampling.weights
    described = {"base_model": weights.base.sampler_name, "model_path": weights.model_path}
    return Response.of_json({"sampler_id": sampling.id, **described})


def asample(service: Service, request: Request) -> Response:
    """Sample; the ids of all sequences are returned at once."""
    body = request.object()
    sampling = None
    if body.get("sampling_session_id") is not None:
        sampling = service.sampling(body.text("sampling_session_id"))
    service.cancel_replies_of_gone_clients()
    weights = sampling.weights if sampling else _read_weights(service, body)
    _check_stability_info(service, body)
    number = body.whole("seq_id") if sampling else next(service.numbers)
    request_id = f"{sampling.id if sampling else 'sample'}:{number}"
    sample_request = _read_request(weights, body, _seed_parts(service, sampling, number))
    watched = _clone_name(sampling.id, number // CLONE) if sampling else None
    service.submit(
        request_id,
        lambda: sample(service, weights, sample_request, sampling.session if sampling else request_id),
        lambda answer: Response(body=write_sample_response(answer, sample_request.scoring), kind=PROTOBUF),
        watched,
    )
    sequences: list[Json] = [f"{request_id}:{seed_parts}" for seed_parts in range(sample_request.params.num_samples)]
    return Response.of_json({"request_id": request_id, "sample_sequence_ids": sequences})


def join(service: Service, request: Request) -> Response:
    """Give a copy of a sampling client, in another process, a number of its own; the original is 0."""
    sampling = service.sampling(request.object().text("sampling_session_id"))
    service.clones[sampling.id] += 1
    return Response.of_json({"type": "join_sampling_session", "client_counter": service.clones[sampling.id]})


async def retrieve_futures(service: Service, request: Request) -> Response:
    """Return the requests of a sampling client that have finished since its last poll; wait for the first if there are none."""
    body = request.object()
    target = body.part("target")
    sampling = service.sampling(target.text("sampling_session_id"))
    watched = _clone_name(sampling.id, target.whole("cloned_sampler_id", 0))
    for request_id in body.texts("retrieved_request_ids"):
        if request_id.startswith(f"{sampling.id}:"):
            service.futures.forget(request_id)
    patience_s = min(body.number("timeout", FETCH_S, least=0.0), FETCH_S)
    done, cursor = await service.completions.after(watched, body.whole("prev_cursor", 0), patience_s)
    return Response.of_json({"completions": [_completion(completion) for completion in done], "cursor": cursor})


def sample(service: Service, weights: Weights, sample_request: SampleRequest, client: Hashable) -> asyncio.Task[Answer]:
    """Start a sample request. When the task is cancelled, the replies end at their next token."""
    return asyncio.get_running_loop().create_task(_answer(service, weights, sample_request, client))


async def _answer(service: Service, weights: Weights, sample_request: SampleRequest, client: Hashable) -> Answer:
    prompt, params = sample_request.prompt, sample_request.params
    if sample_request.is_scored_only:
        empty = [Sampled([], [], "length", "")] * params.num_samples
        return await service.work.call(lambda: service.samplers.score(weights, sample_request, empty), client)
    # Refused here: a sampler that is opened may take another one's place.
    check_request(prompt, params, weights.base.engine.shape)
    sampler = service.samplers.find(weights)
    if sampler is None:
        # After what the client has requested before: it may be what saves the adapter.
        sampler = await service.work.call(lambda: service.samplers.open(weights), client)
    replies = await service.decoding.ask(sampler, prompt, params, sample_request.topk, client)
    if sample_request.scoring is None:
        return Answer(replies)
    return await service.work.call(lambda: service.samplers.score(weights, sample_request, replies), client)


def _clone_name(sampling: str, number: int) -> str:
    return f"{sampling}/{number}"


def _completion(completion: Completion) -> Json:
    if completion.size is None:
        return {"state": "failed", "request_id": completion.request_id}
    size: dict[str, Json] = {"response_payload_uncompressed_size": completion.size}
    return {"state": "finished", "request_id": completion.request_id, **size}


def _read_weights(service: Service, body: Body) -> Weights:
    if body.get("model_path") is not None:
        weights = service.weights_at(body.text("model_path"))
        base_model = body.optional_text("base_model")
        if service.has_hosted_rules and base_model is not None and service.models.find(base_model) != weights.base:
            raise Refusal(f"{weights.model_path} was trained on {weights.base.name}, not on {base_model}: leave it out")
        return weights
    if body.get("base_model") is None:
        raise Refusal("neither base_model nor model_path is given: set one of them to choose what to sample from")
    return Weights(service.models.find(body.text("base_model")))


def _check_stability_info(service: Service, body: Body) -> None:
    # Where another loss stands in, nothing reads what would be recorded.
    is_read = "stable_reinforce" not in service.stand_in_losses
    if service.has_hosted_rules and is_read and body.boolean("record_stability_info", False):
        raise Refusal(
            "record_stability_info records nothing on this server, and stable_reinforce needs it: train with another loss, "
            "or start the server with --stand-in stable_reinforce=OTHER or --rules local"
        )


def _seed_parts(service: Service, sampling: Sampling | None, number: int) -> tuple[int | str, ...]:
    if sampling is None:
        # Requests outside a session have no place of their own; the server's count stands for it.
        return ("direct", number)
    return (service.sessions[sampling.session].number, sampling.number, number)


def _read_request(weights: Weights, body: Body, seed_parts: Sequence[int | str]) -> SampleRequest:
    sampling_params = body.part("sampling_params")
    vocabulary = weights.base.engine.shape.vocabulary
    params = SamplingParams(
        max_tokens=sampling_params.optional_whole("max_tokens"),
        seed=sampling_params.whole("seed", derive_seed(*seed_parts), least=-(2**63)),
        temperature=sampling_params.number("temperature", 1.0),
        top_k=sampling_params.whole("top_k", -1, least=-1),
        top_p=sampling_params.number("top_p", 1.0),
        stop=_read_stops(sampling_params.get("stop")),
        num_samples=body.whole("num_samples", 1, least=1, most=MAX_SAMPLES),
    )
    prompt = _read_prompt(body.part("prompt"))
    topk = body.whole("topk_sample_logprobs", 0, most=vocabulary)
    return SampleRequest(prompt, params, topk, _read_scoring(body, prompt, vocabulary))


def _read_scoring(body: Body, prompt: list[int], vocabulary: int) -> Scoring | None:
    targets, sparse = _read_targets(body.part("target_prompt_logprobs", {}))
    scoring = Scoring(
        topk=body.whole("topk_prompt_logprobs", 0, most=vocabulary),
        last=body.optional_whole("prompt_logprobs_last_n", least=1, most=max(1, len(prompt) - 1)),
        targets=targets,
        sparse=sparse,
        alternatives=body.whole("prompt_alt_tokens_k", 0, most=MAX_ALTERNATIVES),
    )
    is_scored = body.boolean("prompt_logprobs", False) or scoring.topk or scoring.alternatives
    return scoring if is_scored or scoring.targets is not None else None


def _read_prompt(prompt: Body) -> list[int]:
    chunks = prompt.get("chunks")
    if not isinstance(chunks, list):
        raise Refusal("prompt.chunks must be a list")
    tokens: list[int] = []
    for chunk in chunks:
        if not isinstance(chunk, dict) or chunk.get("type", "encoded_text") != "encoded_text":
            raise Refusal("a chunk of the prompt is not an encoded_text; this model reads only text")
        tokens += whole_numbers(chunk.get("tokens"), "tokens")
    return tokens


def _read_stops(stop: Json) -> tuple[Stop, ...] | None:
    if stop is None:
        return None
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not {type(stop_item) for stop_item in stops} <= {str, int}:
        raise Refusal("stop must be a text, or a list of texts or of token ids")
    if empty := [stop_item for stop_item in stops if stop_item == ""]:
        raise Refusal(f"{empty[0]!r} cannot be a stop: it is empty")
    return tuple(cast(list[Stop], stops))


def _read_targets(targets: Body) -> tuple[Integers | None, tuple[Integers, Integers] | None]:
    """Return ids to score, -1 for none, and the positions of their cells if they came as compressed rows."""
    if not targets:
        return None, None
    data, shape = (whole_numbers(targets.get(name), name) for name in ("data", "shape"))
    values = np.array(data, np.int64)
    if targets.get("sparse_crow_indices") is None:
        return values.reshape(shape), None
    names = ("sparse_crow_indices", "sparse_col_indices")
    starts, columns = (np.array(whole_numbers(targets.get(name), name), np.int64) for name in names)
    return cast(Integers, fill_sparse(values, starts, columns, shape, fill=-1)), (starts, columns)


ENDPOINTS: Endpoints = {
    ("POST", "/create_sampling_session"): create_sampling_session,
    ("GET", "/samplers/{sampler}"): get_sampler,
    ("POST", "/join_sampling_session"): join,
    ("POST", "/asample"): asample,
    ("POST", "/retrieve_futures"): retrieve_futures,
}
