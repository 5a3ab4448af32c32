"""The local model as one object: train adapters on it, and sample from it with or without one.

    engine = Engine.load_packaged()
    trainer = engine.trainer(LoraSpec(rank=8))
    for step in range(10):
        result = trainer.forward_backward([Datum(tokens, {"target_tokens": targets, "weights": weights})], "cross_entropy")
        trainer.optim_step(AdamParams(learning_rate=3e-3))
    trainer.save_sampler(path)
    sampler = engine.sampler(path)
    (reply,) = sampler.sample([engine.tokenizer.encode("...")], [SamplingParams(max_tokens=60, seed=0)])

One engine may serve many trainers and samplers; none of them changes it. Each product is computed in one thread (see
`threads`), and an object must not be used by two threads at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from pytest_crucible.local_model import checkpoints
from pytest_crucible.local_model.checkpoints import Adapter, LoraSpec
from pytest_crucible.local_model.config import Datum, Floats, Integers, Shape, Weights
from pytest_crucible.local_model.decoding import Decodable, log_softmax, most_probable
from pytest_crucible.local_model.losses import Adam, AdamParams, NotFinite, find_loss
from pytest_crucible.local_model.model import Folded, forward
from pytest_crucible.local_model.sampling import Sampled, SamplingParams, check_prompt, sample
from pytest_crucible.local_model.tokens import Tokenizer
from pytest_crucible.local_model.training import GradientResult, add_gradients, check_data, one_thread, train
from pytest_crucible.quick_dataclass import dataclass

PACKAGED = Path(__file__).parent / "base"
# A step of 8 rows has three batches, which more threads would not end sooner (`python -m benchmarks.local_model`).
TRAINING_THREADS = 2


@dataclass(frozen=True, eq=False)
class Engine:
    """A base model with its tokenizer. `base_sha256` identifies it: adapters of another base are refused."""

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
    def load_packaged() -> Engine:
        """Return the model that ships with the package."""
        return Engine.load(PACKAGED)

    @staticmethod
    def load(directory: Path) -> Engine:
        """Return the model in `model.safetensors` and `tokenizer.json` of a directory."""
        weights, shape, base_sha256 = checkpoints.load_base(directory)
        return Engine(Tokenizer.load(directory / "tokenizer.json"), shape, weights, base_sha256)

    def trainer(self, spec: LoraSpec) -> Trainer:
        """Return a new adapter in training."""
        return Trainer(self, Adapter.initial(spec, self.shape))

    def sampler(self, path: Path | None = None) -> Sampler:
        """Return a sampler for the adapter saved in a file, or for the base model."""
        if path is None:
            return Sampler(self, None)
        return Sampler(self, checkpoints.load_sampler(path, self.shape, self.base_sha256))

    @cached_property
    def folded(self) -> Folded:
        """The base's own weights in the form used for computing."""
        return self.fold_weights(None)

    def fold_weights(self, adapter: Adapter | None) -> Folded:
        """Return the weights in the form used for computing, with an adapter merged in."""
        with one_thread():
            return Folded.of(self.weights if adapter is None else adapter.merge_into(self.weights), self.shape)


class Trainer:
    """An adapter in training, with its optimiser. Gradients add up until the next step."""

    def __init__(self, engine: Engine, adapter: Adapter) -> None:
        self.engine = engine
        self.adapter = adapter
        self.adam = Adam()
        self.steps = 0
        """The optimiser steps that have made the adapter, those of a state that was loaded among them."""
        self._gradients: Weights = {}
        self._folded: Folded | None = None

    def forward_backward(
        self,
        data: Sequence[Datum],
        loss: str,
        config: Mapping[str, float] | None = None,
        *,
        forward_only: bool = False,
        outputs: bool = True,
    ) -> GradientResult:
        """Return the loss and every target's log-probability, and add their gradients to those since the last step.

        `outputs[i]["logprobs"]` has one number per target of datum i; `metrics["loss:sum"]` is the loss. Invalid data,
        an unknown loss and a loss that is not finite raise ValueError, and change nothing. Without `outputs` there are no
        log-probabilities, which takes less time where prompts do not count.
        """
        loss_function = find_loss(loss)
        check_data(data, self.engine.shape)
        with one_thread() as allowed, np.errstate(over="ignore", invalid="ignore"):
            # Folding multiplies every matrix, and weights change only in optim_step.
            self._folded = self._folded or self.engine.fold_weights(self.adapter)
            base, shape = self.engine.weights, self.engine.shape
            result = train(
                *(self.adapter, base, self._folded, shape, data, loss_function, config or {}),
                backwards=not forward_only,
                outputs=outputs,
                threads=min(allowed, TRAINING_THREADS),
            )
        add_gradients(self._gradients, result.gradients)
        return result

    def optim_step(self, params: AdamParams | None = None) -> dict[str, float]:
        """Move the adapter along the gradients and clear them; ValueError without finite gradients."""
        if not self._gradients:
            raise ValueError("no gradients: call forward_backward before each optim_step")
        # Cleared first: a step that fails must not leave gradients for the next one.
        gradients, self._gradients = self._gradients, {}
        with one_thread():
            metrics = self.adam.step(self.adapter.factors, gradients, params or AdamParams())
        self.steps += 1
        self._folded = None
        return metrics

    def use(self, adapter: Adapter) -> None:
        """Continue with another adapter; the optimiser and its gradients stay as they are."""
        self.adapter, self._folded = adapter, None

    def save_state(self, path: Path) -> None:
        """Write everything needed to resume; gradients since the last step are not part of it."""
        checkpoints.save_training(path, self.adapter, self.adam, self.engine.base_sha256)

    def load_state(self, path: Path, *, optimizer: bool = True) -> None:
        """Resume from a saved state of the same LoRA on the same base; ValueError when it does not fit."""
        adapter, adam = checkpoints.load_training(path, self.engine.shape, self.engine.base_sha256)
        if adapter.spec.matrices(self.engine.shape) != self.adapter.spec.matrices(self.engine.shape) or (
            adapter.spec.rank != self.adapter.spec.rank
        ):
            raise ValueError(f"{path} was trained with {adapter.spec}, not with {self.adapter.spec}")
        self.adapter, self.adam, self.steps = adapter, adam if optimizer else Adam(), adam.steps
        self._gradients, self._folded = {}, None

    def save_sampler(self, path: Path) -> None:
        """Write the current adapter, to sample from; FileExistsError where the file exists."""
        checkpoints.save_sampler(path, self.adapter, self.engine.base_sha256)

    def sampler(self) -> Sampler:
        """Return a sampler of the current adapter; later steps do not change it."""
        return Sampler(self.engine, self.adapter)


@dataclass(frozen=True, slots=True)
class Scored:
    """Log-probabilities of a prompt's tokens, each given those before; NaN for the first.

    `topk_tokens` and `topk_logprobs` are (tokens, k), their first row 0 and NaN. `of_targets` are log-probabilities of
    other tokens than the prompt's, (tokens - 1, k), at the position of each token but the first.
    """

    logprobs: Floats
    topk_tokens: Integers | None = None
    topk_logprobs: Floats | None = None
    of_targets: Floats | None = None


class Sampler:
    """Weights to sample from, which never change."""

    def __init__(self, engine: Engine, adapter: Adapter | None) -> None:
        self.engine = engine
        base = engine.folded
        self.weights = (
            Decodable(base, base, {})
            if adapter is None
            else Decodable(engine.fold_weights(adapter), base, adapter.fold_factors(engine.weights))
        )

    def sample(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams | Sequence[SamplingParams], *, topk: int = 0
    ) -> list[Sampled]:
        """Return replies in the order of the prompts, `num_samples` for each; see `sampling.sample`."""
        of_each = [params] * len(prompts) if isinstance(params, SamplingParams) else params
        with one_thread():
            return sample(self.weights, self.engine.shape, self.engine.tokenizer, prompts, of_each, topk=topk)

    def logprobs(self, prompt: Sequence[int], *, topk: int = 0, targets: Integers | None = None) -> Scored:
        """Return the log-probability of each token of a prompt; with `topk`, of the most probable ones as well.

        `targets` (tokens - 1, k) request other tokens; -1 requests none, and gets NaN.
        """
        states = self._hidden_states(prompt)
        with one_thread():
            logprobs = log_softmax(states[:-1] @ self.weights.merged.unembedding)
        prompt_logprobs = np.take_along_axis(logprobs, np.asarray(prompt, np.int64)[1:, None], axis=1)[:, 0]
        scored = np.concatenate([np.full(1, np.nan, prompt_logprobs.dtype), prompt_logprobs])
        of_targets = None if targets is None else self._of_targets(logprobs, targets)
        if not topk:
            return Scored(scored, of_targets=of_targets)
        best, values = most_probable(logprobs, topk)
        nothing = np.full((1, best.shape[1]), np.nan, values.dtype)
        none = np.zeros((1, best.shape[1]), best.dtype)
        return Scored(scored, np.concatenate([none, best]), np.concatenate([nothing, values]), of_targets)

    def embed(self, prompt: Sequence[int]) -> Floats:
        """Return the mean of a prompt's last hidden states, of length 1: (width,)."""
        mean: Floats = self._hidden_states(prompt).mean(axis=0, dtype=np.float64)
        return (mean / np.linalg.norm(mean)).astype(np.float32)

    def _hidden_states(self, prompt: Sequence[int]) -> Floats:
        """Return the last hidden states of a prompt: (tokens, width)."""
        check_prompt(prompt, self.engine.shape, room=0)
        with one_thread():
            states: Floats = forward(self.weights.merged, self.engine.shape, np.array([list(prompt)], np.int64)).states
        if not np.isfinite(states).all():
            raise NotFinite("the weights are not finite: no prompt can be scored or embedded with them")
        return states

    def _of_targets(self, logprobs: Floats, targets: Integers) -> Floats:
        if targets.ndim != 2 or len(targets) != len(logprobs):
            raise ValueError(f"targets have shape {targets.shape}, expected ({len(logprobs)}, k)")
        if targets.size and (targets.min() < -1 or targets.max() >= self.engine.shape.vocabulary):
            raise ValueError(f"targets must be -1 (none) to {self.engine.shape.vocabulary - 1}")
        target_logprobs = np.take_along_axis(logprobs, np.maximum(targets, 0), axis=1)
        return np.where(targets < 0, np.nan, target_logprobs).astype(np.float32)


# Special tokens of other models' chat formats, each of which the renderers of tinker-cookbook need as one token. One list serves
# all families, so that all stand-ins are the same model. The order gives the ids: append only, because checkpoints of stand-ins
# depend on it.
RESERVED = (
    # Text that a reply shows, in several families.
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    # Llama 3
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
    "<|python_tag|>",
    # Qwen 3 and Nemotron 3
    *("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"),
    # DeepSeek V3
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜System｜>", "<｜User｜>", "<｜Assistant｜>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    "<｜tool▁sep｜>",
    *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
    # gpt-oss
    *("<|startoftext|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>"),
    "<|call|>",
    # Kimi K2
    *("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|tool_calls_section_begin|>"),
    *("<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"),
    # GLM
    *("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
)
_SPREAD = 0.1
# Prompts of recipes are longer than those that the model was trained on. Its replies to them are worse, but recipes run; with
# twice as much, reading one prompt would take more than 500 MB.
CONTEXT = 2048


def make_stand_in(engine: Engine) -> Engine:
    """Return the model with the reserved tokens after its own. Its hash differs, so that adapters are not mixed up."""
    rows = _new_rows(engine.weights["embedding"], len(RESERVED))
    embedding = np.concatenate([engine.weights["embedding"], rows])
    tokenizer = replace(engine.tokenizer, reserved=RESERVED)
    digest = hashlib.sha256("\n".join((engine.base_sha256, *RESERVED)).encode()).hexdigest()
    return Engine(
        tokenizer,
        replace(engine.shape, vocabulary=tokenizer.vocabulary, context=max(CONTEXT, engine.shape.context)),
        {**engine.weights, "embedding": embedding},
        digest,
    )


def _new_rows(embedding: Floats, count: int) -> Floats:
    """Return rows near the mean of the others, as Hewitt (2021), "Initializing new word embeddings", recommends.

    A random row would take probability from the tokens that the model knows; one at the mean has little, and the noise
    makes the new tokens distinguishable. Always the same rows for a base.
    """
    random = np.random.Generator(np.random.Philox(0))
    noise = random.normal(0.0, 1.0, (count, embedding.shape[1])) * embedding.std(axis=0) * _SPREAD
    rows: Floats = (embedding.mean(axis=0) + noise).astype(embedding.dtype)
    return rows
