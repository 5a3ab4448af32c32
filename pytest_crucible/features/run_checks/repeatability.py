"""Measures whether a server gives equal requests equal replies, one at a time and many at once, and the noise that it makes."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_crucible import stats
from pytest_crucible.backends import Backend
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Proportion, Reply, Request
from pytest_crucible.records.errors import Refused
from pytest_crucible.stats.interval import Interval

TOPICS = (
    *(
        "a steam engine",
        "a sundial",
        "a vaccine",
        "a suspension bridge",
        "a refrigerator",
        "a compass",
        "a violin",
        "yeast",
    ),
    *("a tide", "a rainbow", "an auction", "a hash table", "a parachute", "a telescope", "a coral reef", "a beehive"),
    *("a glacier", "a lighthouse", "a battery", "a lock on a canal", "a kite", "a seed bank", "a map", "a metronome"),
    *("a clock", "a printing press", "a kiln", "a sail", "a thermometer", "a census", "a library", "a wheel"),
)
"""What the prompts ask about. Open questions have long replies, in which small numerical differences show."""
SEED = 7
SAMPLES = 100
"""Samples of the score whose noise is stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way to send equal requests."""

    name: str
    parameters: Mapping[str, Any]
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeatability:
    """The differences between replies to equal requests in one setting."""

    setting: str
    concurrency: int
    prompts: int
    replies: int
    unlike_most: int
    """Replies that are not the most common one to their prompt."""
    pairs: int
    """Two replies to one prompt, from the first and the second half of the requests, as from two runs."""
    changed: int
    """Pairs whose replies differ."""
    share: Proportion
    """The share that changes from one run to the next, over these prompts."""
    first_differences: tuple[int, ...]
    """The number of the first character, from 1, in which the replies of each changed pair differ."""
    mean_characters: float

    @property
    def score_noise(self) -> tuple[float, float]:
        """The most that a yes-or-no score of SAMPLES samples can vary, and its upper bound.

        A standard deviation of the difference of two runs. Two runs draw each sample's score from one distribution, so that
        their difference has the mean 0, and the variance of at most the probability that the reply has changed.
        """
        assert self.share.value is not None
        assert self.share.interval is not None
        return math.sqrt(self.share.value / SAMPLES), math.sqrt(self.share.interval.high / SAMPLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A setting that the server does not accept."""

    setting: str
    concurrency: int
    reason: str


def settings(*, max_tokens: int, concurrency: int) -> list[Setting]:
    """Return the settings that are measured: temperature 0 and equal seeds, one request at a time and many at once."""
    kinds = {
        "temperature 0": {"temperature": 0, "max_tokens": max_tokens},
        "temperature 1, equal seeds": {"temperature": 1, "seed": SEED, "max_tokens": max_tokens},
    }
    return [Setting(name=name, parameters=kinds[name], concurrency=many) for name in kinds for many in (1, concurrency)]


def prompts(count: int) -> list[str]:
    """Return so many different prompts."""
    words = ("", " in the voice of a pirate", " to a child", " as a poem")
    return [f"Explain how {TOPICS[k % len(TOPICS)]} works{words[k // len(TOPICS)]}." for k in range(count)]


MOST_PROMPTS = 4 * len(TOPICS)


async def measure(
    backend: Backend, setting: Setting, questions: Sequence[str], repeats: int, level: float
) -> Repeatability | Refusal:
    """Send each prompt `repeats` times, and so often that all permits are used. Raises BackendError."""
    repeats = max(repeats, math.ceil(setting.concurrency / len(questions)))
    permits = asyncio.Semaphore(setting.concurrency)

    async def reply_to(number: int) -> Reply:
        async with permits:
            return await backend.generate(
                # The seed that is sent is derived from sample and repeat, which are those of the prompt each time.
                Request(input=questions[number], sample=str(number), repeat=0, parameters=setting.parameters)
            )

    try:
        async with asyncio.TaskGroup() as group:
            # Different prompts follow each other, so that a batch holds many of them.
            tasks = [[group.create_task(reply_to(k)) for k in range(len(questions))] for _ in range(repeats)]
    except BaseExceptionGroup as several:
        failure = several.exceptions[0]
        if isinstance(failure, Refused):
            return Refusal(setting=setting.name, concurrency=setting.concurrency, reason=str(failure))
        raise failure from None
    texts = [
        [task.result().reasoning + task.result().text for task in of_prompt] for of_prompt in zip(*tasks, strict=True)
    ]
    return compare_replies(texts, setting, level)


def compare_replies(texts: Sequence[Sequence[str]], setting: Setting, level: float) -> Repeatability:
    """Return how replies differ; `texts` has those to each prompt, in the order of sending, two at least.

    No reply is in two pairs, so that pairs are independent, and change with a probability of their prompt. The Clopper-Pearson
    interval holds for the mean of such probabilities, too (Hoeffding 1956, theorem 4).
    """
    halves = [(of_prompt[: len(of_prompt) // 2], of_prompt[len(of_prompt) // 2 :]) for of_prompt in texts]
    # An odd reply at the end has no partner.
    pairs = [pair for half, rest in halves for pair in zip(half, rest, strict=False)]
    changed = [(first, second) for first, second in pairs if first != second]
    every = [text for of_prompt in texts for text in of_prompt]
    low, high = (
        stats.clopper_pearson_bound(len(changed), len(pairs), alpha=(1 - level) / 2, side=side)
        for side in ("lower", "upper")
    )
    return Repeatability(
        setting=setting.name,
        concurrency=setting.concurrency,
        prompts=len(texts),
        replies=len(every),
        unlike_most=sum(len(of_prompt) - Counter(of_prompt).most_common(1)[0][1] for of_prompt in texts),
        pairs=len(pairs),
        changed=len(changed),
        share=Proportion(
            value=len(changed) / len(pairs),
            interval=Interval(low=low, high=high, level=level, method="clopper-pearson"),
        ),
        first_differences=tuple(first_difference(*pair) for pair in changed),
        mean_characters=math.fsum(map(len, every)) / len(every),
    )


def first_difference(first: str, second: str) -> int:
    """Return the number of the first character, from 1, in which two texts differ.

    >>> first_difference("It is", "It was"), first_difference("It", "It is")
    (4, 3)
    """
    letters = enumerate(zip(first, second, strict=False), start=1)
    return next((place for place, (ours, theirs) in letters if ours != theirs), 1 + min(len(first), len(second)))


def measure_all(
    backend: Backend,
    ways: Sequence[Setting],
    questions: Sequence[str],
    repeats: int,
    level: float,
    report: Callable[[Setting], None],
) -> list[Repeatability | Refusal]:
    """Measure one setting after the other; `report` receives each before it is measured. Raises BackendError."""

    async def in_turn() -> list[Repeatability | Refusal]:
        results = []
        for setting in ways:
            report(setting)
            results.append(await measure(backend, setting, questions, repeats, level))
        return results

    return asyncio.run(in_turn())
