"""Who has what: sessions, their training runs and samplers, and the one model behind them all.

Ids are those that the SDK derives itself: `{session}:train:{n}` and `{session}:sample:{n}`. Only checkpoints outlive the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TypeAlias, TypeVar

from pytest_crucible.embedded.engine import Engine, Trainer
from pytest_crucible.embedded.lora import LoraSpec
from pytest_crucible.embedded.server.archive import Archive, CheckpointPath
from pytest_crucible.embedded.server.completions import Completions
from pytest_crucible.embedded.server.futures import Futures
from pytest_crucible.embedded.server.messages import PROTOBUF, Refusal, Request, Response, bad_request, not_found
from pytest_crucible.embedded.server.outcomes import answer_of
from pytest_crucible.embedded.server.replies import Samplers, Weights
from pytest_crucible.embedded.server.work import Work

T = TypeVar("T")

BASE_MODEL = "crucible/tiny"
"""The short name of the model. Its long name is a directory from which transformers loads its tokenizer."""
FETCH_S = 20.0
"""How long a client that fetches a result is kept waiting; it gives up itself after 45 s."""
SILENT_S = 3600.0
"""After this long without a request or heartbeat a session is over."""


@dataclass(slots=True)
class Session:
    """What one ServiceClient opened."""

    id: str
    number: int
    last_seen: float
    user_metadata: Mapping[str, str] | None = None
    display_name: str | None = None
    project_id: str | None = None
    finished: bool = False


@dataclass(slots=True)
class Run:
    """One model in training. `trainer` is None before it is made and after it is unloaded."""

    id: str
    session: str
    lora: LoraSpec
    last_request: float
    user_metadata: Mapping[str, str] | None = None
    trainer: Trainer | None = None

    @property
    def model(self) -> Trainer:
        """The trainer; without one, ValueError."""
        if self.trainer is None:
            raise ValueError(f"model {self.id} is not loaded (any more)")
        return self.trainer


@dataclass(frozen=True, slots=True)
class Sampling:
    """One sampling session."""

    id: str
    session: str
    number: int
    weights: Weights


@dataclass(slots=True)
class Service:
    """All of it; endpoints get it as their first argument."""

    engine: Engine
    directory: Path
    clock: Callable[[], float] = time.time
    sessions: dict[str, Session] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    samplings: dict[str, Sampling] = field(default_factory=dict)
    futures: Futures = field(default_factory=Futures)
    completions: Completions = field(default_factory=Completions)
    clones: Counter[str] = field(default_factory=Counter)
    """How many copies of a sampler have joined it, by sampling session."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """For what has no number of its own."""
    work: Work = field(init=False)
    samplers: Samplers = field(init=False)
    archive: Archive = field(init=False)
    model_name: str = field(init=False)
    snapshots: Path = field(init=False)

    def __post_init__(self) -> None:
        self.work = Work()
        self.samplers = Samplers(self.engine)
        self.archive = Archive(self.directory, self.clock)
        self.model_name = str(_home_of_tokenizer(self.engine, self.directory.resolve()))
        self.snapshots = Path(tempfile.mkdtemp(prefix="crucible-snapshots-"))

    def stop(self, sentence: str) -> None:
        """Begin no more work; what is unfinished fails with that sentence."""
        self.work.stop()
        self.futures.fail_all(sentence)

    def close(self) -> None:
        """After `stop`: wait for the work that goes on, and clear up."""
        self.work.join()
        shutil.rmtree(self.snapshots, ignore_errors=True)

    def session(self, session_id: str) -> Session:
        """A session that is open; 404 for an unknown one, 410 for one that is over."""
        session = self.sessions.get(session_id)
        if session is None:
            raise not_found(f"there is no session {session_id!r}")
        if session.finished:
            raise Refusal(HTTPStatus.GONE, f"session {session_id} is finished")
        session.last_seen = self.clock()
        return session

    def run(self, model_id: str) -> Run:
        """A training run that is there."""
        run = self.runs.get(model_id)
        if run is None:
            raise not_found(f"there is no model {model_id!r}")
        run.last_request = self.clock()
        self.session(run.session)
        return run

    def sampling(self, sampling_session_id: str) -> Sampling:
        """A sampling session that is there."""
        sampling = self.samplings.get(sampling_session_id)
        if sampling is None:
            raise not_found(f"there is no sampling session {sampling_session_id!r}")
        self.session(sampling.session)
        return sampling

    def open_sampling(self, session: Session, number: int, weights: Weights) -> Sampling:
        """A new sampling session, or the one with that number when it is the same."""
        sampling = Sampling(f"{session.id}:sample:{number}", session.id, number, weights)
        known = self.samplings.setdefault(sampling.id, sampling)
        if known != sampling:
            raise bad_request(f"sampling session {sampling.id} exists already, with other weights")
        return known

    def finish(self, session: Session) -> None:
        """A session is over: its models and snapshots go, its checkpoints stay."""
        session.finished = True
        for run in self.runs.values():
            if run.session == session.id:
                run.trainer = None
        self.completions.forget(f"{session.id}:")
        shutil.rmtree(self.snapshots / session.id, ignore_errors=True)

    def finish_silent_sessions(self) -> None:
        """Sessions whose client has gone without a word are over."""
        for session in self.sessions.values():
            if not session.finished and session.last_seen < self.clock() - SILENT_S:
                self.finish(session)

    def check_base_model(self, name: str) -> None:
        """Refuse a base model that is not the one here."""
        if name not in (BASE_MODEL, self.model_name):
            raise bad_request(
                f"base model {name[:200]!r} is not here; this server has {BASE_MODEL}, which is {self.model_name}"
            )

    def weights_at(self, model_path: str) -> Weights:
        """Sampler weights under a `tinker://` path; 400 when the path is none, 404 when nothing is there."""
        checkpoint = self.archive.find(CheckpointPath.parse(model_path))
        if checkpoint.about.base_sha256 != self.engine.base_sha256:
            raise bad_request(f"{model_path} belongs to another base model than the one here, {BASE_MODEL}")
        return Weights(checkpoint.directory, model_path, checkpoint.about.created)

    def submit(
        self,
        request_id: str,
        compute: Callable[[], asyncio.Future[T]],
        told: Callable[[T], Response],
        sampler: str | None = None,
    ) -> None:
        """Have a request computed and keep what is told of it under the id; a repeated request is not computed again.

        Whoever watches a `sampler` hears when it is done.
        """
        if request_id in self.futures:
            return
        self.futures.check_room()
        result = answer_of(compute(), told)
        if sampler is not None:
            result.add_done_callback(lambda done: self.completions.note(sampler, request_id, _size(done.result())))
        self.futures.add(request_id, result)


Endpoint: TypeAlias = Callable[[Service, Request], Response | Awaitable[Response]]
"""Answers one kind of request."""
Endpoints: TypeAlias = Mapping[tuple[str, str], Endpoint]
"""By method and path."""


def _size(response: Response) -> int | None:
    """Of a sampled result; a failure has none."""
    return len(response.body) if response.kind == PROTOBUF else None


def _home_of_tokenizer(engine: Engine, directory: Path) -> Path:
    """A directory that transformers loads; it appears whole, and another base has another one."""
    home = directory / "models" / f"{BASE_MODEL}-{engine.base_sha256[:8]}"
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=home.parent))
    engine.tokenizer.save_for_transformers(draft)
    with contextlib.suppress(OSError):  # it is there already, maybe from an older version
        draft.rename(home)
    for file in draft.iterdir() if draft.exists() else ():
        os.replace(file, home / file.name)
    shutil.rmtree(draft, ignore_errors=True)
    return home


def seed_of(*place: int | str) -> int:
    """A seed for a request that names none: the same for the same place in the same order of requests."""
    return int.from_bytes(hashlib.blake2b(repr(place).encode(), digest_size=8).digest(), "little") >> 1
