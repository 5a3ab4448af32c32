"""Learns the task by its rewards alone: no right reply is ever shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from documents import Question, make_questions, prompt_of, reward_of

from pytest_crucible.features.training import Datum, RecipeTrainer
from pytest_crucible.local_model.sampling import Sampled, SamplingParams

QUESTIONS = 16
"""Questions of a step."""
GROUP = 8
"""Replies to a question: the advantage of each is its reward minus the group's mean (GRPO without the deviation)."""
MAX_TOKENS = 8


def train(trainer: RecipeTrainer, loss: str = "importance_sampling", steps: int = 30, passes: int = 1) -> None:
    """Sample from the current weights, reward the replies, and move towards those above their group's mean.

    With several passes over the same replies the weights move away from those that sampled them, which `ppo` limits.
    """
    for step in range(steps):
        asked = make_questions(QUESTIONS, seed=trainer.seed * 1000 + step + 1)
        prompts = [trainer.tokenizer.encode(prompt_of(question)) for question in asked]
        params = [
            SamplingParams(max_tokens=MAX_TOKENS, num_samples=GROUP, seed=step * QUESTIONS + place)
            for place in range(QUESTIONS)
        ]
        replies = trainer.sampler().sample(prompts, params)
        groups = [replies[place * GROUP : (place + 1) * GROUP] for place in range(QUESTIONS)]
        data = [
            datum
            for question, prompt, group in zip(asked, prompts, groups, strict=True)
            for datum in datums_of(trainer, question, prompt, group)
        ]
        # Nothing is learnt where all replies of every group are equally good.
        for _ in range(passes if data else 0):
            trainer.step(data, loss, learning_rate=1e-3)


def datums_of(
    trainer: RecipeTrainer, question: Question, prompt: Sequence[int], group: Sequence[Sampled]
) -> Iterator[Datum]:
    """Yield the replies of a group with their advantages; none where all rewards are equal."""
    rewards = np.array([reward_of(question, trainer.tokenizer.decode(reply.tokens)) for reply in group])
    advantages = rewards - rewards.mean()
    if not advantages.any():
        return
    for reply, advantage in zip(group, advantages, strict=True):
        tokens = [*prompt, *reply.tokens]
        # Position i predicts token i + 1; the prompt's own positions count nothing.
        before, own = np.zeros(len(prompt) - 1), len(reply.tokens)
        yield Datum(
            tokens[:-1],
            {
                "target_tokens": np.array(tokens[1:]),
                "logprobs": np.concatenate([before, reply.logprobs]),
                "advantages": np.concatenate([before, np.full(own, advantage)]),
            },
        )
