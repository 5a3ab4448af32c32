"""Replies to many clients equal those alone: mixes of eight clients, streams, cancellations, and training between.

A mix is random; CRUCIBLE_MIXES=1000 runs so many of them. Replies alone come from the same server while it does nothing else.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tinker_http import PROTOBUF, WAIT_S, Body, Http, OpenAI, ask, forward_backward, forward_backward_message, save

from pytest_crucible.local_model.server import protobuf
from pytest_crucible.local_model.server.process import LocalServer

pytestmark = pytest.mark.slow

MIXES = int(os.environ.get("CRUCIBLE_MIXES", "10"))
CLIENTS, QUESTIONS, STEPS = 8, 60, 3
LONG: Body = {"model": "crucible/tiny", "prompt": "claim", "n": 64, "max_tokens": 100, "stop": [], "seed": 1}
ADAM = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.0}


def draw_question(source: random.Random, models: list[str]) -> Body:
    """Return the body of a completion or a chat, with a seed."""
    words = " ".join(source.choice(("claim", "document", "evidence", "7", "is")) for _ in range(source.randrange(1, 9)))
    form: Body = source.choice(({"prompt": words}, {"messages": [{"role": "user", "content": words}]}))
    logprobs: Body = {"logprobs": 2} if "prompt" in form else {"logprobs": True, "top_logprobs": 2}
    return {
        **form,
        **source.choice(({}, logprobs)),
        "model": source.choice(models),
        "max_tokens": source.randrange(1, 60),
        "n": source.choice((1, 1, 1, 3)),
        "seed": source.randrange(9),
        "temperature": source.choice((0.0, 0.7, 1.0)),
        **source.choice(({}, {}, {"stop": ["is"]})),
    }


def path_of(question: Body) -> str:
    return "completions" if "prompt" in question else "chat/completions"


def read_reply(openai: OpenAI, question: Body, *, is_streamed: bool) -> list[Body]:
    """Return the choices of a reply: a text, a reason to end and the log-probabilities of each."""
    if not is_streamed:
        status, answer = openai.complete(path_of(question), **question)
        assert status == 200, answer
        events = [answer]
    else:
        events = openai.stream(path_of(question), **question)
    choices: list[Body] = [{"text": "", "end": None, "logprobs": []} for _ in range(question["n"])]
    for choice in (choice for event in events for choice in event["choices"]):
        whole = choices[choice["index"]]
        message = choice.get("message") or choice.get("delta") or {}
        whole["text"] += choice.get("text") or message.get("content") or ""
        whole["end"] = choice["finish_reason"] or whole["end"]
        scores = choice["logprobs"] or {}
        whole["logprobs"] += scores.get("token_logprobs") or [token["logprob"] for token in scores.get("content") or ()]
    return choices


def leave(openai: OpenAI, question: Body, read: int) -> None:
    """Read a part of a stream, and close the connection."""
    connection = http.client.HTTPConnection(str(openai.address.hostname), openai.address.port, timeout=WAIT_S)
    with contextlib.closing(connection):
        body = json.dumps({**question, "stream": True, "max_tokens": 100})
        connection.request("POST", f"/oai/api/v1/{path_of(question)}", body, openai.headers)
        connection.getresponse().read(read)


class Service:
    """A server, the questions that clients ask, and its replies while it does nothing else."""

    def __init__(self, server: LocalServer) -> None:
        self.server, self.openai, self.client = server, OpenAI(server), Http(server)
        self.session: str = self.client.post("/create_session")["session_id"]
        self.numbers, self.lock = iter(range(10**9)), threading.Lock()
        source = random.Random(0)
        models = ["crucible/tiny", *(self.train(rank, saves=True)[-1] for rank in (2, 4))]
        self.questions = [draw_question(source, models) for _ in range(QUESTIONS)]
        # Whole and in pieces it is the same reply, except that a stop string may be sent before it is complete.
        self.alone = [read_reply(self.openai, question, is_streamed=False) for question in self.questions]
        self.sampler: str = self.client.post(
            "/create_sampling_session", session_id=self.session, sampling_session_seq_id=0, model_path=models[1]
        )["sampling_session_id"]
        self.sampled = [self.sample(seed) for seed in range(8)]
        self.trained = self.train(4)

    def number(self) -> int:
        with self.lock:
            return next(self.numbers)

    def sample(self, seed: int) -> list[list[bytes]]:
        """Return tokens and log-probabilities of replies through Tinker's own endpoint."""
        params = {"max_tokens": 20 + seed, "seed": seed}
        request = ask(self.client, self.number(), self.sampler, num_samples=2, params=params)["request_id"]
        sequences = map(protobuf.read_fields, protobuf.all_bytes(self.client.protobuf(request), 1))
        return [[protobuf.last_bytes(sequence, field) for field in (2, 3)] for sequence in sequences]

    def train(self, rank: int, *, saves: bool = False) -> list[Any]:
        """Train a new adapter and return the results of its steps, and the path of its checkpoint if it saves one."""
        created = self.client.post(
            "/create_model",
            session_id=self.session,
            model_seq_id=self.number(),
            base_model="crucible/tiny",
            lora_config={"rank": rank, "seed": 1},
        )
        model, results = self.client.result(created["request_id"])["model_id"], []
        for step in range(STEPS):
            status, accepted = forward_backward(self.server, forward_backward_message(model, 2 * step + 1), PROTOBUF)
            assert status == 200, accepted
            body = json.dumps({"request_id": accepted["request_id"]}).encode()
            results.append(self.client.raw("POST", "/api/v1/retrieve_future", body)[2])
            done = self.client.post("/optim_step", model_id=model, seq_id=2 * step + 2, adam_params=ADAM)
            results.append(self.client.result(done["request_id"]))
        if saves:
            path = save(self.client, model, 2 * STEPS + 1, "/save_weights_for_sampler", path=f"rank{rank}")["path"]
            results.append(path)
        unloaded = self.client.post("/unload_model", model_id=model, seq_id=2 * STEPS + 2)
        self.client.result(unloaded["request_id"])
        return results


@pytest.fixture(scope="module")
def service(base, tmp_path_factory) -> Iterator[Service]:
    with LocalServer.start(tmp_path_factory.mktemp("many"), base=base) as server:
        yield Service(server)


def run_client(service: Service, seed: int) -> list[str]:
    """Send random requests, and return those whose reply differs from the one alone."""
    source, different = random.Random(seed), []
    for _ in range(source.randrange(1, 4)):
        time.sleep(source.random() * 0.02)
        number, action = source.randrange(QUESTIONS), source.random()
        question = service.questions[number]
        if action < 0.2:
            leave(service.openai, question, source.choice((0, 1, 200)))
        elif action < 0.35:
            same = service.sample(number % 8) == service.sampled[number % 8]
            different += [] if same else [f"sample with seed {number % 8}"]
        elif action < 0.45:
            different += [] if service.train(4) == service.trained else ["training"]
        else:
            reply = read_reply(service.openai, question, is_streamed=action < 0.7)
            different += [] if reply == service.alone[number] else [f"{question}: {reply}, not {service.alone[number]}"]
    return different


@pytest.mark.parametrize("mix", range(MIXES))
def test_replies_and_trainings_among_eight_clients_equal_those_alone(service, mix):
    with ThreadPoolExecutor(CLIENTS) as threads:
        different = list(threads.map(lambda client: run_client(service, CLIENTS * mix + client), range(CLIENTS)))

    assert different == [[]] * CLIENTS


def cpu_seconds(server: LocalServer) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_stream(openai: OpenAI, question: Body) -> http.client.HTTPConnection:
    """Return a connection of which the first piece of the reply has been read."""
    connection = http.client.HTTPConnection(str(openai.address.hostname), openai.address.port, timeout=WAIT_S)
    connection.request("POST", "/oai/api/v1/completions", json.dumps({**question, "stream": True}), openai.headers)
    connection.getresponse().read(1)
    return connection


def leave_streams(service: Service) -> None:
    """Read the first piece of 20 replies, and close their connections."""
    connections = [open_stream(service.openai, LONG) for _ in range(20)]
    for connection in connections:
        connection.close()


def finish_session(service: Service) -> None:
    """Request 20 replies through Tinker's own endpoint, and finish the session."""
    session = service.client.post("/create_session")["session_id"]
    opened = service.client.post(
        "/create_sampling_session", session_id=session, sampling_session_seq_id=0, base_model="crucible/tiny"
    )
    params = {"max_tokens": LONG["max_tokens"], "seed": 1}
    for number in range(20):
        ask(service.client, number, opened["sampling_session_id"], num_samples=LONG["n"], params=params)
    service.client.post(f"/sessions/{session}/finish")


@pytest.mark.parametrize("leave_all", [leave_streams, finish_session])
def test_clients_that_leave_cost_nothing_more(service, leave_all):
    began = cpu_seconds(service.server)
    read_reply(service.openai, LONG, is_streamed=False)
    whole = cpu_seconds(service.server) - began
    leave_all(service)

    left = cpu_seconds(service.server)
    service.openai.complete(prompt="claim")
    # Nothing waits for the replies: only the time of the server shows that they are not computed.
    time.sleep(4)
    assert cpu_seconds(service.server) - left < max(whole, 0.5)
