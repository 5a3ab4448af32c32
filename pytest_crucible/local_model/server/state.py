"""State of the service: sessions, their training runs and samplers, and the one model behind them.

Ids are those that the SDK derives itself: `{session}:train:{n}` and `{session}:sample:{n}`. Only checkpoints outlive
the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from pathlib import Path
from typing import TypeAlias, TypeVar

from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import Engine, Trainer
from pytest_crucible.local_model.server.archive import EXTERNAL, SAMPLER, Archive, Checkpoint, CheckpointPath
from pytest_crucible.local_model.server.decoding_loop import DecodingLoop
from pytest_crucible.local_model.server.futures import Completions, Futures, Worker, to_response
from pytest_crucible.local_model.server.models import BaseModel, BaseModels, Samplers, Weights
from pytest_crucible.local_model.server.protobuf import PROTOBUF
from pytest_crucible.local_model.server.transport import NotFound, Refusal, Request, Response
from pytest_crucible.quick_dataclass import dataclass

T = TypeVar("T")

# Longest wait of a client that fetches a result; the SDK itself gives up after 45 s.
FETCH_S = 20.0
# A session ends after this time without a request or heartbeat.
SILENT_S = 3600.0
# The SDK sends a heartbeat each 10 s: after this time without one, the replies of a client take the places of others.
GONE_S = 60.0


@dataclass(slots=True)
class Session:
    """The session of one ServiceClient."""

    id: str
    number: int
    last_seen: float
    user_metadata: Mapping[str, str] | None = None
    display_name: str | None = None
    project_id: str | None = None
    finished: bool = False
    gone: bool = False
    """Its client has been silent for a while, and its replies were cancelled."""


@dataclass(slots=True)
class Run:
    """A model in training. `trainer` is None before it is created and after it is unloaded."""

    id: str
    session: str
    lora: LoraSpec
    last_request: float
    base: BaseModel
    base_model: str
    """The name that the model was created with; the server's own has a short and a long one."""
    user_metadata: Mapping[str, str] | None = None
    trainer: Trainer | None = None

    @property
    def model(self) -> Trainer:
        """The trainer. Raises ValueError if it is not loaded."""
        if self.trainer is None:
            raise ValueError(f"model {self.id} is not loaded: create it, or load a checkpoint")
        return self.trainer


@dataclass(frozen=True, slots=True)
class Sampling:
    id: str
    session: str
    number: int
    weights: Weights


@dataclass(slots=True)
class Service:
    """The whole state, which each endpoint receives as its first argument."""

    engine: Engine
    directory: Path
    clock: Callable[[], float] = time.time
    stand_ins: Sequence[str] = ()
    """Names of other models, under which a stand-in answers."""
    stand_in_losses: Mapping[str, str] = field(default_factory=dict)
    """Losses that are computed instead of others, by the name of the other."""
    has_hosted_rules: bool = False
    """Requests that the hosted service refuses are refused, although this one could answer them."""
    sessions: dict[str, Session] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    samplings: dict[str, Sampling] = field(default_factory=dict)
    futures: Futures = field(default_factory=Futures)
    completions: Completions = field(default_factory=Completions)
    downloads: dict[str, tuple[Path, float]] = field(default_factory=dict)
    """Directories of checkpoints that may be downloaded, and until when, by the token in the URL."""
    clones: Counter[str] = field(default_factory=Counter)
    """Number of copies that have joined a sampler, by sampling session."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Numbers for requests without one of their own."""
    work: Worker = field(init=False)
    decoding: DecodingLoop = field(init=False)
    samplers: Samplers = field(init=False)
    archive: Archive = field(init=False)
    models: BaseModels = field(init=False)
    snapshots: Path = field(init=False)

    def __post_init__(self) -> None:
        self.work = Worker()
        self.decoding = DecodingLoop()
        self.samplers = Samplers()
        self.archive = Archive(self.directory, self.clock)
        self.models = BaseModels(self.engine, self.directory.resolve(), self.stand_ins)
        self.snapshots = Path(tempfile.mkdtemp(prefix="crucible-snapshots-"))

    def stop(self, sentence: str) -> None:
        """Start no more work; unfinished requests fail with that message."""
        self.work.stop()
        self.decoding.stop()
        self.futures.fail_all(sentence)

    def close(self) -> None:
        """Wait for the work in progress, and clean up. Call it after `stop`."""
        self.work.join()
        self.decoding.join()
        shutil.rmtree(self.snapshots, ignore_errors=True)

    def session(self, session_id: str) -> Session:
        """Return an open session: 404 for an unknown one, 410 for a finished one."""
        session = self.sessions.get(session_id)
        if session is None:
            raise NotFound(f"unknown session {session_id!r}")
        if session.finished:
            raise Refusal(f"session {session_id} is finished", HTTPStatus.GONE)
        session.last_seen, session.gone = self.clock(), False
        return session

    def note_fetch(self, request_id: str) -> None:
        """Note that the client of a request waits for it."""
        if session := self.sessions.get(request_id.partition(":")[0]):
            session.last_seen = self.clock()

    def run(self, model_id: str) -> Run:
        """Return a training run; 404 for an unknown one."""
        run = self.runs.get(model_id)
        if run is None:
            raise NotFound(f"unknown model {model_id!r}")
        run.last_request = self.clock()
        self.session(run.session)
        return run

    def sampling(self, sampling_session_id: str) -> Sampling:
        """Return a sampling session; 404 for an unknown one."""
        sampling = self.samplings.get(sampling_session_id)
        if sampling is None:
            raise NotFound(f"unknown sampling session {sampling_session_id!r}")
        self.session(sampling.session)
        return sampling

    def open_sampling(self, session: Session, number: int, weights: Weights) -> Sampling:
        """Open a sampling session, or return the existing one with that number if it is the same."""
        sampling = Sampling(f"{session.id}:sample:{number}", session.id, number, weights)
        existing = self.samplings.setdefault(sampling.id, sampling)
        if existing != sampling:
            raise Refusal(f"sampling session {sampling.id} exists already, with other weights")
        return existing

    def finish(self, session: Session) -> None:
        """Finish a session: its models, snapshots and unfinished replies are dropped, its checkpoints stay."""
        session.finished = True
        for run in self.runs.values():
            if run.session == session.id:
                run.trainer = None
        # Saving goes on; replies that nothing waits for take slots of others.
        self._cancel_replies(session)
        self.completions.forget(f"{session.id}:")
        shutil.rmtree(self.snapshots / session.id, ignore_errors=True)

    def cancel_replies_of_gone_clients(self) -> None:
        """Cancel the replies of clients that were killed, which finish no session."""
        for session in self.sessions.values():
            if not (session.finished or session.gone) and session.last_seen < self.clock() - GONE_S:
                session.gone = True
                self._cancel_replies(session)

    def _cancel_replies(self, session: Session) -> None:
        self.futures.cancel_all(f"{session.id}:sample:")

    def finish_silent_sessions(self) -> None:
        """Finish sessions whose clients have disappeared."""
        for session in self.sessions.values():
            if not session.finished and session.last_seen < self.clock() - SILENT_S:
                self.finish(session)

    def base_model_of(self, checkpoint: Checkpoint) -> str:
        """Return the name that a checkpoint's model was created with; the long one may have been that of another directory."""
        info, own = checkpoint.info, self.models.own
        is_moved = info.base_model != own.name and info.base_sha256 == own.engine.base_sha256
        return own.directory if is_moved else info.base_model

    def base_of(self, checkpoint: Checkpoint) -> BaseModel:
        """Return the base model of a checkpoint; 400 if it is not here."""
        return self.models.of_checkpoint(checkpoint.info.base_model, checkpoint.info.base_sha256, checkpoint.path)

    def weights_at(self, model_path: str) -> Weights:
        """Return sampler weights at a `tinker://` path: 400 for an invalid path, 404 if there is nothing."""
        path = CheckpointPath.parse(model_path)
        if path.kind == EXTERNAL:
            raise Refusal(f"{path} is for download; sample from tinker://RUN/{SAMPLER}/NAME")
        checkpoint = self.archive.find(path)
        if self.has_hosted_rules and path.kind != SAMPLER:
            raise Refusal(
                f"{path} is a state to resume training from, which the hosted service does not sample from: "
                f"save_weights_for_sampler saves tinker://RUN/{SAMPLER}/NAME, and --rules local of the server allows this"
            )
        return Weights(self.base_of(checkpoint), checkpoint.directory, model_path, checkpoint.info.created)

    def submit(
        self,
        request_id: str,
        compute: Callable[[], asyncio.Future[T]],
        make_response: Callable[[T], Response],
        sampler: str | None = None,
    ) -> None:
        """Compute a request and keep its response under the id. A repeated request is not computed again.

        Clients that poll `sampler` are notified when it has finished.
        """
        if request_id in self.futures:
            return
        self.futures.check_capacity()
        result = to_response(compute(), make_response)
        if sampler is not None:

            def record(done: asyncio.Future[Response]) -> None:
                response = done.result()
                # A failure is JSON, and has no size.
                size = len(response.body) if response.kind == PROTOBUF else None
                self.completions.record(sampler, request_id, size)

            result.add_done_callback(record)
        self.futures.add(request_id, result)


Endpoint: TypeAlias = Callable[[Service, Request], Response | Awaitable[Response]]
"""Answers one kind of request."""
Endpoints: TypeAlias = Mapping[tuple[str, str], Endpoint]
"""Endpoints by method and path."""


def derive_seed(*place: int | str) -> int:
    """Derive a seed for a request without one: the same for the same position in the order of requests."""
    # Shifted by one, so that it fits a signed 64-bit integer.
    return int.from_bytes(hashlib.blake2b(repr(place).encode(), digest_size=8).digest(), "little") >> 1
