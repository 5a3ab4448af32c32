"""The contract of every Backend. A new one joins by a row in OPENERS."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from memory_replies import MemoryReplies
from openai_server import OpenAIServer
from virtual_time import in_event_loop

from pytest_crucible import Backend, BackendError, RecordedBackend, Refused, Reply, Request, ScriptedBackend
from pytest_crucible.backends import KnowsItsSamples, recorded_rows
from pytest_crucible.backends.cache import Cached, CachePolicy
from pytest_crucible.backends.context import BackendContext, ignore_event
from pytest_crucible.backends.openai.backend import OpenAIBackend
from pytest_crucible.backends.openai.backend import open_openai as openai_backend
from pytest_crucible.backends.protocol import Wrapper
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.detectors.secrets import find_secrets
from pytest_crucible.features.ensembles.ensemble import Ensemble, Member, make_ensemble
from pytest_crucible.features.ensembles.settings import read_rules
from pytest_crucible.features.guards.guard import GuardSettings, ThresholdGuard
from pytest_crucible.features.guards.kinds import FindingsGuard
from pytest_crucible.features.guards.protections import Protection, Protections, guard_backend
from pytest_crucible.records import Adapter

ANSWERS = {"a": "4", "b": "9", "ü\n": "Ω"}
Opener = Callable[[Mapping[str, str]], Backend]


def open_recorded(answers: Mapping[str, str]) -> RecordedBackend:
    return recorded_rows([{"sample_id": sample, "text": text} for sample, text in answers.items()], name="v2")


def open_scripted(answers: Mapping[str, str]) -> ScriptedBackend:
    def script(request: Request) -> str:
        if request.sample not in answers:
            raise BackendError(f"no answer to {request.sample!r}")
        return answers[request.sample]

    return ScriptedBackend(script, latency_s=0.001, identity=repr(answers))


def open_ensemble(answers: Mapping[str, str]) -> Ensemble:
    """Two that know the answers, and one that answers something else."""
    alike = {name: Wrapper(open_recorded({**answers, "only": name})) for name in ("v1", "v2")}
    members = {**alike, "v3": ScriptedBackend(lambda request: "else", identity="else")}
    adapter = Adapter(name="trio", backend="ensemble", options={"ensemble": list(members)})
    ensemble_members = [Member(name=name, backend=backend) for name, backend in members.items()]
    return make_ensemble("trio", ensemble_members, read_rules(adapter), ignore_event)


def open_openai(answers: Mapping[str, str], **settings: str) -> OpenAIBackend:
    """A model of the scripted server that knows the answers, called by what it knows."""
    (server,) = SERVERS
    model = hashlib.sha256(json.dumps(dict(answers)).encode()).hexdigest()
    server.behave(model, answers=dict(answers), latency_s=0.001)
    options = {"base_url": server.url, "model": model, **settings}
    return openai_backend(Adapter(name="v2", backend="openai", options=options), Path("."))


def open_openai_over_httpx(answers: Mapping[str, str]) -> OpenAIBackend:
    return open_openai(answers, transport="httpx")


def open_cached(answers: Mapping[str, str]) -> Cached:
    return Cached(open_scripted(answers), CachePolicy(replies=MemoryReplies()), ignore_event)


def open_stacked(answers: Mapping[str, str]) -> Backend:
    """Through the whole stack, few at a time."""
    asking = {"limit": {"concurrency": 2}, "timeout_s": 60}
    adapter = Adapter(name="v2", backend="scripted", options={}, parameters={}, asking=asking)
    return wrap_backend(open_scripted(answers), adapter, BackendContext())


def open_guarded(answers: Mapping[str, str]) -> Backend:
    """A model with a guard that flags nothing here."""
    guard = ThresholdGuard(GuardSettings(name="g", kind="secrets"), FindingsGuard(find_secrets, "secrets"))
    protection = Protection(guard, "blocked")
    return guard_backend(open_scripted(answers), Protections((protection,), (protection,), guard.identity))


OPENERS: dict[str, Opener] = {
    "recorded": open_recorded,
    "scripted": open_scripted,
    "ensemble": open_ensemble,
    "openai": open_openai,
    "openai over httpx": open_openai_over_httpx,
    "cached": open_cached,
    "stacked": open_stacked,
    "guarded": open_guarded,
}
SERVERS: list[OpenAIServer] = []


@pytest.fixture(scope="module", autouse=True)
def _scripted_server() -> Iterator[None]:
    with OpenAIServer.start() as server:
        SERVERS.append(server)
        yield
        SERVERS.clear()


@pytest.fixture(params=OPENERS.values(), ids=OPENERS.keys())
def opener(request: pytest.FixtureRequest) -> Opener:
    return request.param


@pytest.fixture
def backend(opener: Opener) -> Backend:
    return opener(ANSWERS)


def request_for(sample: str) -> Request:
    return Request(input=sample, sample=sample, repeat=0, parameters={"temperature": 0.0})


def test_every_opener_returns_a_backend(backend):
    assert isinstance(backend, Backend)
    assert inspect.iscoroutinefunction(backend.generate)


@pytest.mark.parametrize("sample", ANSWERS)
def test_generate_returns_a_reply(backend, sample):
    reply = asyncio.run(backend.generate(request_for(sample)))

    assert isinstance(reply, Reply)
    assert reply.text == ANSWERS[sample]


@in_event_loop
async def test_concurrent_requests_each_get_their_own_reply(backend):
    samples = list(ANSWERS) * 20

    assert [
        reply.text for reply in await asyncio.gather(*(backend.generate(request_for(sample)) for sample in samples))
    ] == [ANSWERS[sample] for sample in samples]


def test_a_backend_works_in_a_second_event_loop(backend):
    replies = [asyncio.run(backend.generate(request_for("a"))).text for _ in range(2)]

    assert replies == ["4", "4"]


def test_a_backend_answers_after_a_failed_request(backend):
    with pytest.raises(BackendError, match="'nowhere'") as caught:
        asyncio.run(backend.generate(request_for("nowhere")))

    assert not isinstance(caught.value, Refused)
    assert asyncio.run(backend.generate(request_for("a"))).text == "4"


def test_the_identity_is_stable_while_replies_are(opener):
    assert opener(ANSWERS).identity == opener(dict(ANSWERS)).identity != ""


@pytest.mark.parametrize("changed", [{"a": "5"}, {"c": "1"}], ids=["answer", "sample"])
def test_the_identity_changes_when_replies_change(opener, changed):
    assert opener({**ANSWERS, **changed}).identity != opener(ANSWERS).identity


def test_requests_do_not_change_the_identity(backend):
    before = backend.identity
    asyncio.run(backend.generate(request_for("a")))

    assert backend.identity == before


def test_a_recorded_backend_lists_all_its_samples(backend):
    if not isinstance(backend, KnowsItsSamples):
        pytest.skip("answers whatever it is asked")

    assert backend.samples() == set(ANSWERS)
