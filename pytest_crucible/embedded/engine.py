"""The embedded model as one object: train adapters on it, and sample from it with or without one.

    engine = Engine.packaged()
    trainer = engine.trainer(LoraSpec(rank=8))
    for step in range(10):
        result = trainer.forward_backward([Datum(tokens, {"target_tokens": targets, "weights": weights})], "cross_entropy")
        trainer.optim_step(AdamParams(learning_rate=3e-3))
    trainer.save_sampler(path)
    sampler = engine.sampler(path)
    (reply,) = sampler.sample([engine.tokenizer.encode("...")], [SamplingParams(max_tokens=60, seed=0)])

One engine may serve many trainers and samplers; none of them changes it. All computing is done in one thread (see
`threads`), and an object must not be used by two threads at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_crucible.embedded import checkpoints
from pytest_crucible.embedded.adam import Adam, AdamParams
from pytest_crucible.embedded.batches import Datum
from pytest_crucible.embedded.choosing import log_softmax, most_probable
from pytest_crucible.embedded.lora import Adapter, LoraSpec
from pytest_crucible.embedded.losses import find_loss
from pytest_crucible.embedded.model import Folded, forward
from pytest_crucible.embedded.sampling import Sampled, SamplingParams, check_prompt, sample
from pytest_crucible.embedded.shape import Floats, Integers, Shape, Weights
from pytest_crucible.embedded.threads import one_thread
from pytest_crucible.embedded.tokens import Tokenizer
from pytest_crucible.embedded.training import Trained, add_gradients, check_data, train

PACKAGED = Path(__file__).parent / "base"


@dataclass(frozen=True, eq=False)
class Engine:
    """A base model with its tokenizer. `base_sha256` says which: adapters of another base are refused."""

    tokenizer: Tokenizer
    shape: Shape
    weights: Weights
    base_sha256: str

    def __post_init__(self) -> None:
        if self.tokenizer.vocabulary != self.shape.vocabulary:
            raise ValueError(
                f"the tokenizer has {self.tokenizer.vocabulary} ids, the model {self.shape.vocabulary}: they do not belong together"
            )

    @staticmethod
    def packaged() -> Engine:
        """The model that is shipped with the package."""
        return Engine.load(PACKAGED)

    @staticmethod
    def load(directory: Path) -> Engine:
        """A model from `model.safetensors` and `tokenizer.json` of a directory."""
        weights, shape, base_sha256 = checkpoints.load_base(directory)
        return Engine(Tokenizer.load(directory / "tokenizer.json"), shape, weights, base_sha256)

    def trainer(self, spec: LoraSpec) -> Trainer:
        """A new adapter in training."""
        return Trainer(self, Adapter.initial(spec, self.shape))

    def resumed(self, path: Path, *, optimizer: bool = True) -> Trainer:
        """A trainer that goes on from a saved state, with or without its optimiser's."""
        trainer = self.trainer(checkpoints.read_spec(path))
        trainer.load_state(path, optimizer=optimizer)
        return trainer

    def sampler(self, path: Path | None = None) -> Sampler:
        """Something to sample from: the adapter that was saved there, or the base itself."""
        if path is None:
            return Sampler(self, None)
        return Sampler(self, checkpoints.load_sampler(path, self.shape, self.base_sha256))

    def folded(self, adapter: Adapter | None) -> Folded:
        """The model as it is computed with, an adapter merged in."""
        with one_thread():
            return Folded.of(self.weights if adapter is None else adapter.merged(self.weights), self.shape)


class Trainer:
    """An adapter in training, and its optimiser. Gradients add up until the next step."""

    def __init__(self, engine: Engine, adapter: Adapter) -> None:
        self.engine = engine
        self.adapter = adapter
        self.adam = Adam()
        self._gradients: Weights = {}
        self._folded: Folded | None = None

    def forward_backward(
        self, data: Sequence[Datum], loss: str, config: Mapping[str, float] | None = None, *, forward_only: bool = False
    ) -> Trained:
        """Loss, log-probability of every target, and gradients, which are added to those since the last step.

        `outputs[i]["logprobs"]` has one number per target of datum i; `metrics["loss:sum"]` is the loss. Wrong data, an
        unknown loss and a loss that is not finite raise ValueError, and leave everything as it was.
        """
        wanted = find_loss(loss)
        check_data(data, self.engine.shape)
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            self._folded = self._folded or self.engine.folded(self.adapter)
            base, shape = self.engine.weights, self.engine.shape
            found = train(
                self.adapter, base, self._folded, shape, data, wanted, config or {}, backwards=not forward_only
            )
        add_gradients(self._gradients, found.gradients)
        return found

    def optim_step(self, params: AdamParams | None = None) -> dict[str, float]:
        """Move the adapter along the gradients, and forget them. Without any, or with infinite ones: ValueError."""
        if not self._gradients:
            raise ValueError("there are no gradients: call forward_backward before each optim_step")
        gradients, self._gradients = self._gradients, {}
        with one_thread():
            metrics = self.adam.step(self.adapter.factors, gradients, params or AdamParams())
        self._folded = None
        return metrics

    def use(self, adapter: Adapter) -> None:
        """Go on with another adapter."""
        self.adapter, self._folded = adapter, None

    def save_state(self, path: Path) -> None:
        """Write all that training goes on from; gradients that wait for a step are not part of it."""
        checkpoints.save_training(path, self.adapter, self.adam, self.engine.base_sha256)

    def load_state(self, path: Path, *, optimizer: bool = True) -> None:
        """Go on from a saved state of the same LoRA on the same base. What does not fit raises ValueError."""
        adapter, adam = checkpoints.load_training(path, self.engine.shape, self.engine.base_sha256)
        if adapter.spec.matrices(self.engine.shape) != self.adapter.spec.matrices(self.engine.shape) or (
            adapter.spec.rank != self.adapter.spec.rank
        ):
            raise ValueError(f"{path} was trained with {adapter.spec}, not with {self.adapter.spec}")
        self.adapter, self.adam = adapter, adam if optimizer else Adam()
        self._gradients, self._folded = {}, None

    def save_sampler(self, path: Path) -> None:
        """Write the adapter as it is now, to sample from. A file that exists is never changed: FileExistsError."""
        checkpoints.save_sampler(path, self.adapter, self.engine.base_sha256)

    def sampler(self) -> Sampler:
        """Sample from the adapter as it is now; later steps do not change the sampler."""
        return Sampler(self.engine, self.adapter)


@dataclass(frozen=True, slots=True)
class Scored:
    """How probable the tokens of a prompt are, each given those before; of the first nothing can be said: NaN.

    `topk_tokens` and `topk_logprobs` are (tokens, k), their first row 0 and NaN; `of_targets` are log-probabilities of other
    tokens than the prompt's, (tokens - 1, k), at the position of each token but the first.
    """

    logprobs: Floats
    topk_tokens: Integers | None = None
    topk_logprobs: Floats | None = None
    of_targets: Floats | None = None


class Sampler:
    """Weights to sample from, which never change."""

    def __init__(self, engine: Engine, adapter: Adapter | None) -> None:
        self.engine = engine
        self._folded = engine.folded(adapter)

    def sample(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams | Sequence[SamplingParams], *, topk: int = 0
    ) -> list[Sampled]:
        """Replies in the order of the prompts, `num_samples` for each; see `sampling.sample`."""
        of_each = [params] * len(prompts) if isinstance(params, SamplingParams) else params
        with one_thread():
            return sample(self._folded, self.engine.shape, self.engine.tokenizer, prompts, of_each, topk=topk)

    def logprobs(self, prompt: Sequence[int], *, topk: int = 0, targets: Integers | None = None) -> Scored:
        """Log-probability of each token of a prompt; with `topk`, of the most probable ones as well.

        `targets` (tokens - 1, k) ask for other tokens; -1 asks for none, and gets NaN.
        """
        check_prompt(prompt, self.engine.shape, room=0)
        with one_thread():
            states = forward(self._folded, self.engine.shape, np.array([list(prompt)], np.int64)).states
            logprobs = log_softmax(states[:-1] @ self._folded.unembedding)
        given = np.take_along_axis(logprobs, np.asarray(prompt, np.int64)[1:, None], axis=1)[:, 0]
        scored = np.concatenate([np.full(1, np.nan, given.dtype), given])
        of_targets = None if targets is None else self._of_targets(logprobs, targets)
        if not topk:
            return Scored(scored, of_targets=of_targets)
        best, values = most_probable(logprobs, topk)
        nothing = np.full((1, best.shape[1]), np.nan, values.dtype)
        none = np.zeros((1, best.shape[1]), best.dtype)
        return Scored(scored, np.concatenate([none, best]), np.concatenate([nothing, values]), of_targets)

    def _of_targets(self, logprobs: Floats, targets: Integers) -> Floats:
        if targets.ndim != 2 or len(targets) != len(logprobs):
            raise ValueError(f"targets have shape {targets.shape}, wanted ({len(logprobs)}, k)")
        if targets.size and (targets.min() < -1 or targets.max() >= self.engine.shape.vocabulary):
            raise ValueError(f"targets must be -1 (none) to {self.engine.shape.vocabulary - 1}")
        found = np.take_along_axis(logprobs, np.maximum(targets, 0), axis=1)
        return np.where(targets < 0, np.nan, found).astype(np.float32)
