"""The same task and rewards through tinker-cookbook's own loop, in an environment that has it: `python cookbook_training.py`.

The service is that of TINKER_BASE_URL, and the log directory has what `crucible models curve` reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import chz
import tinker
from documents import Question, make_questions, prompt_of, reward_of
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDataset, RLDatasetBuilder, StepResult
from tinker_cookbook.tokenizer_utils import get_tokenizer


class DocumentEnv(Env):
    """One question and one reply."""

    def __init__(self, question: Question, tokenizer: Any) -> None:
        self._question, self._tokenizer = question, tokenizer

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[int]]:
        prompt = self._tokenizer.encode(prompt_of(self._question), add_special_tokens=False)
        return tinker.ModelInput.from_ints(prompt), [self._tokenizer.eos_token_id]

    async def step(self, action: Sequence[int], *, extra: Any = None) -> StepResult:
        reply = self._tokenizer.decode(action, skip_special_tokens=True)
        return StepResult(
            reward=reward_of(self._question, reply),
            episode_done=True,
            next_observation=tinker.ModelInput.empty(),
            next_stop_condition=[],
        )


@dataclass(frozen=True)
class DocumentGroup(EnvGroupBuilder):
    """Several replies to one question, whose mean reward is the yardstick of each."""

    question: Question
    model: str
    size: int

    async def make_envs(self) -> Sequence[Env]:
        return [DocumentEnv(self.question, get_tokenizer(self.model)) for _ in range(self.size)]


@dataclass(frozen=True)
class DocumentDataset(RLDataset):
    """Batches of questions that depend on the batch's number alone."""

    model: str
    batches: int
    questions: int
    group: int

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return [DocumentGroup(each, self.model, self.group) for each in make_questions(self.questions, seed=index + 1)]

    def __len__(self) -> int:
        return self.batches


@chz.chz
class DocumentDatasetBuilder(RLDatasetBuilder):
    """The training's questions; there is no test set, because the suite judges the checkpoints."""

    model: str
    batches: int
    questions: int = 16
    group: int = 8

    async def __call__(self) -> tuple[RLDataset, None]:
        return DocumentDataset(self.model, self.batches, self.questions, self.group), None


@chz.chz
class Arguments:
    """Arguments of the command line."""

    model_name: str = "Qwen/Qwen3.5-9B-Base"
    log_path: str = "runs/documents"
    batches: int = 30
    save_every: int = 5


def main(arguments: Arguments) -> None:
    """Train with importance sampling; the rewards are in metrics.jsonl as `env/all/reward/total`."""
    config = train.Config(
        recipe_name="documents",
        model_name=arguments.model_name,
        log_path=arguments.log_path,
        dataset_builder=DocumentDatasetBuilder(model=arguments.model_name, batches=arguments.batches),
        learning_rate=1e-3,
        max_tokens=8,
        loss_fn="importance_sampling",
        eval_every=0,
        save_every=arguments.save_every,
    )
    asyncio.run(train.main(config))


if __name__ == "__main__":
    chz.nested_entrypoint(main)
