"""The models that a server samples from: its own, stand-ins under other names, and adapters on them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.config import Floats, Integers
from pytest_crucible.local_model.engine import Engine, Sampler, Scored, make_stand_in
from pytest_crucible.local_model.sampling import Sampled, SamplingParams
from pytest_crucible.local_model.server.transport import Json, Refusal
from pytest_crucible.quick_dataclass import dataclass

_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*")


@dataclass(frozen=True, slots=True)
class BaseModel:
    """A base model that clients can name."""

    name: str
    engine: Engine
    directory: str
    """Directory of its tokenizer, which transformers loads."""
    stand_in: bool = False
    """True when the embedded model answers under another model's name."""

    @property
    def sampler_name(self) -> str:
        """The name that sampling clients get: they load their tokenizer by it.

        Of the server's own model it is the directory. Programs that use a stand-in expect the name that they gave.
        """
        return self.name if self.stand_in else self.directory

    def describe(self, name: str) -> dict[str, Json]:
        """Return the entry of a list of models, under one of the names."""
        entry: dict[str, Json] = {
            "model_name": name,
            "max_context_length": self.engine.shape.context,
            "trainable": True,
            "sampleable": True,
        }
        return entry | ({"stand_in": BASE_MODEL, "tokenizer": self.directory} if self.stand_in else {})


class BaseModels:
    """The server's own model, under its short and its long name, and the stand-ins."""

    def __init__(self, engine: Engine, directory: Path, stand_ins: Iterable[str] = ()) -> None:
        """Write the tokenizers below `directory`. Raises ValueError for an invalid name of a stand-in."""
        self.own = BaseModel(BASE_MODEL, engine, str(write_tokenizer(engine, directory, BASE_MODEL)))
        self.stand_ins: Mapping[str, BaseModel] = {}
        if names := list(dict.fromkeys(map(check_stand_in, stand_ins))):
            other = make_stand_in(engine)
            place = str(write_tokenizer(other, directory, "crucible/stand-in"))
            self.stand_ins = {name: BaseModel(name, other, place, stand_in=True) for name in names}
        self._models = {BASE_MODEL: self.own, self.own.directory: self.own, **self.stand_ins}

    def get(self, name: str) -> BaseModel | None:
        # A name may have a suffix for a variant, such as "Qwen/Qwen3-8B:peft:32k".
        return self._models.get(name) or self._models.get(name.partition(":")[0])

    def find(self, name: str) -> BaseModel:
        """Return the model of a name; refuse any other name, 400."""
        if model := self.get(name):
            return model
        names = [f"{BASE_MODEL}, which is {self.own.directory}", *self.stand_ins]
        raise Refusal(
            f"base model {name[:200]!r} is not here; this server has {', '.join(names)}. "
            f"To let it stand in for another model: crucible tinker server --as {name[:200] or 'NAME'}"
        )

    def of_checkpoint(self, base_model: str, base_sha256: str, path: object) -> BaseModel:
        """Return the model that a checkpoint was trained on; refuse one of another base, 400."""
        own = self.own
        # The long name may be that of another directory.
        model = own if base_sha256 == own.engine.base_sha256 else self.stand_ins.get(base_model)
        if model is None or model.engine.base_sha256 != base_sha256:
            # Two bases may have one name: the hashes tell them apart.
            hashes = {BASE_MODEL: own.engine.base_sha256}
            hashes |= {name: stand_in.engine.base_sha256 for name, stand_in in self.stand_ins.items()}
            bases = ", ".join(f"{name} ({sha256[:8]})" for name, sha256 in hashes.items())
            raise Refusal(
                f"{path} belongs to another base model, {base_model} ({base_sha256[:8]}); this server has {bases}"
            )
        return model

    def describe(self) -> list[dict[str, Json]]:
        """Return the list of models: the own one under its long and its short name, and the stand-ins."""
        own = [self.own.describe(name) for name in (self.own.directory, BASE_MODEL)]
        return own + [model.describe(name) for name, model in self.stand_ins.items()]


def check_stand_in(name: str) -> str:
    """Return the name of a model to stand in for. Raises ValueError for an invalid one.

    >>> check_stand_in("Qwen/Qwen3-8B")
    'Qwen/Qwen3-8B'
    """
    if not _NAME.fullmatch(name) or name == BASE_MODEL:
        raise ValueError(f"--as {name!r} is not another model's name: write ORGANISATION/MODEL, such as Qwen/Qwen3-8B")
    return name


def stand_in_sentence(names: Iterable[str]) -> str:
    """Return the sentence that tells a client which models are not what their names say."""
    return f"{', '.join(names)}: {BASE_MODEL} stands in here. All replies, losses and weights are simulated"


def write_tokenizer(engine: Engine, directory: Path, name: str) -> Path:
    """Write the tokenizer for transformers and return its directory, which appears as a whole; one for each model."""
    home = directory / "models" / f"{name}-{engine.base_sha256[:8]}"
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=home.parent))
    engine.tokenizer.save_for_transformers(draft)
    # It exists already, perhaps from an older version.
    with contextlib.suppress(OSError):
        draft.rename(home)
    for file in draft.iterdir() if draft.exists() else ():
        os.replace(file, home / file.name)
    shutil.rmtree(draft, ignore_errors=True)
    return home


MAX_SAMPLERS = 16


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights to sample from: a base model, or an adapter on it in a directory."""

    base: BaseModel
    directory: Path | None = None
    model_path: str | None = None
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Scoring:
    """Requested scores of the prompt itself."""

    topk: int = 0
    last: int | None = None
    """Number of positions at the end; None for all."""
    targets: Integers | None = None
    """Other tokens to score, (tokens of the prompt - 1, k); -1 for none."""
    sparse: tuple[Integers, Integers] | None = None
    """Starts of rows and column indices, if the targets came as compressed rows: the response uses the same layout."""
    alternatives: int = 0


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request to sample replies to a prompt, and to score it if it has `scoring`."""

    prompt: list[int]
    params: SamplingParams
    topk: int = 0
    scoring: Scoring | None = None
    is_scored_only: bool = False
    """True where the replies stay empty, so that the prompt may fill the context."""


@dataclass(frozen=True, slots=True)
class Answer:
    replies: Sequence[Sampled]
    scored: Scored | None = None
    alternatives: tuple[Integers, Floats] | None = None


class Samplers:
    """The most recently used samplers, by weights; for several threads."""

    def __init__(self) -> None:
        self._samplers: OrderedDict[Weights, Sampler] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, weights: Weights) -> Sampler:
        """Return a sampler. Raises ValueError for a file that does not fit its base."""
        with self._lock:
            if weights not in self._samplers:
                self._samplers[weights] = weights.base.engine.sampler(weights.directory)
            # Least recently used first: loaded adapters cost memory.
            self._samplers.move_to_end(weights)
            if len(self._samplers) > MAX_SAMPLERS:
                self._samplers.popitem(last=False)
            return self._samplers[weights]

    def find(self, weights: Weights) -> Sampler | None:
        """Return a sampler that is open, or of a base model; None for an adapter that has to be read."""
        with self._lock:
            is_open = weights in self._samplers
        return self.open(weights) if is_open or weights.directory is None else None

    def embed(self, weights: Weights, prompts: Sequence[Sequence[int]]) -> list[Floats]:
        sampler = self.open(weights)
        return [sampler.embed(prompt) for prompt in prompts]

    def score(self, weights: Weights, request: SampleRequest, replies: Sequence[Sampled]) -> Answer:
        """Return replies with the requested scores of their prompt."""
        scoring, sampler = request.scoring, self.open(weights)
        if scoring is None:
            return Answer(replies)
        scored = sampler.logprobs(request.prompt, topk=scoring.topk, targets=scoring.targets)
        if scoring.last is not None:
            scored.logprobs[: -scoring.last] = np.nan
            if scored.topk_logprobs is not None:
                scored.topk_logprobs[: -scoring.last] = np.nan
        alternatives = _alternatives(sampler, request, scoring.alternatives) if scoring.alternatives else None
        return Answer(replies, scored, alternatives)


def _alternatives(sampler: Sampler, request: SampleRequest, count: int) -> tuple[Integers, Floats]:
    """Draw at each position of the prompt but the first, at the request's temperature; shape (tokens - 1, count)."""
    scored = sampler.logprobs(request.prompt, topk=sampler.engine.shape.vocabulary)
    assert scored.topk_tokens is not None
    assert scored.topk_logprobs is not None
    tokens, logprobs = scored.topk_tokens[1:], scored.topk_logprobs[1:]
    positions = np.zeros((len(tokens), count), np.int64)
    if request.params.temperature > 0:
        shares = np.exp((logprobs - logprobs[:, :1]).astype(np.float64) / request.params.temperature)
        cumulative = np.cumsum(shares, axis=1) / shares.sum(axis=1, keepdims=True)
        # Philox: the same stream on every platform for a given seed.
        random = np.random.Generator(np.random.Philox((request.params.seed or 0) % 2**64))
        for row, uniforms in enumerate(random.random(positions.shape)):
            positions[row] = np.searchsorted(cumulative[row], uniforms, side="right")
        # Rounding can leave the cumulative sum just below 1.
        np.minimum(positions, tokens.shape[1] - 1, out=positions)
    return np.take_along_axis(tokens, positions, axis=1).astype(np.int64), np.take_along_axis(
        logprobs, positions, axis=1
    )
