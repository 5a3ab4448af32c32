"""Certificates by random deletion, and the greedy search for the worst text.

Each word is deleted with chance p. The smoothed model's answer is the one that most of the shortened texts get; if it has a
share of at least L, then r = floor(ln(1.5 - L) / ln p) insertions, deletions and substitutions of words cannot change it
(Huang et al. 2023, RS-Del, arXiv 2302.01757, for edit distance and a majority of one half).

A search makes one small edit after the other, each kept unless the model does better. The score of a single reply is noise in
part, so the worst text of a search is sent again, and only that reply counts.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from random import Random
from typing import TYPE_CHECKING

from pytest_crucible import stats
from pytest_crucible.features.robustness.characters import character_insert, character_swap, homoglyph
from pytest_crucible.features.robustness.edits import Perturbed, Source, count_edits, load_lexicon, replace_words
from pytest_crucible.features.robustness.terms import CERTIFIED
from pytest_crucible.features.robustness.twins import REDRAWS, Draw, find_text, with_text
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.models.scorers import Judge, set_current_reply
from pytest_crucible.metrics.normalisers import NORMALISERS
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, NoTwin, Outcome, Reply, Sample
from pytest_crucible.records.errors import Refused, Spent, Uncached
from pytest_crucible.sample.invoke import lost_reason
from pytest_crucible.score import score_outcome

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import FunctionCall


SELECTION = 100
"""Draws that choose the answer. Others bound its share: the same ones would favour the answer that they have chosen."""
ALPHA = 0.001
"""The chance that a certificate is false."""
ABSTAINS = -1
_PARTS = re.compile(r"\s+|\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing:
    """The settings of a certificate."""

    noise: float
    draws: int

    @property
    def requests(self) -> int:
        """Requests for one sample."""
        return SELECTION + self.draws


def delete_words(text: str, rng: Random, noise: float) -> str:
    """Return a text in which each word is deleted with that chance; lines stay.

    >>> delete_words("a b\\nc", Random(0), 0.0), delete_words("a b\\nc", Random(0), 1.0)
    ('a b\\nc', '\\n')
    """
    remaining = [part for part in _PARTS.findall(text) if part.isspace() or rng.random() >= noise]
    lines = "".join(remaining).split("\n")
    return "\n".join(" ".join(line.split()) for line in lines)


def majority(answers: Sequence[str | None]) -> str | None:
    """Return the most frequent answer; None if most draws have none."""
    ((answer, _),) = Counter(answers).most_common(1) if answers else [(None, 0)]
    return answer


def certified_edits(hits: int, draws: int, noise: float, *, alpha: float = ALPHA) -> int:
    """Return how many word edits cannot change an answer that `hits` of `draws` deletions gave; -1 where none is certain.

    Raises ValueError for a noise that is not between 0 and 1.

    >>> certified_edits(1000, 1000, 0.9), certified_edits(600, 1000, 0.9), certified_edits(500, 1000, 0.9)
    (6, 0, -1)
    """
    if not 0 < noise < 1:
        raise ValueError(f"noise must be between 0 and 1, not {noise!r}")
    share = stats.clopper_pearson_bound(hits, draws, alpha=alpha, side="lower") if draws else 0.0
    return radius(share, noise)


def radius(share: float, noise: float) -> int:
    """Return the number of word edits that cannot change an answer with at least this share; -1 up to one half."""
    return ABSTAINS if share <= 0.5 else math.floor(math.log(1.5 - share) / math.log(noise))


_ONE = 1e-9
"""A strength at which an attack makes a single edit."""


async def search_text(
    source: Source,
    rng: Random,
    *,
    queries: int,
    strength: float,
    query: Callable[[str], Awaitable[float | None]],
    worst: float,
) -> str | None:
    """Return the text with the lowest score; None if nothing is eligible, or where no query had a score.

    `query` returns the score of a reply to a text, higher being better, or None if it is lost. The search begins again at
    the source after as many edits as the strength allows, and ends early at a score of `worst`, the lowest possible one.
    """
    most = count_edits(strength, len(source.places.letters))
    lowest: tuple[float, str] | None = None
    text, score, edits = source.text, float("inf"), 0
    for _ in range(queries if most else 0):
        if edits == most:
            text, score, edits = source.text, float("inf"), 0
        candidate = _edit(source, text, rng)
        value = await query(candidate)
        if value is None:
            continue
        if lowest is None or value < lowest[0]:
            lowest = (value, candidate)
        if value <= worst:
            break
        if value <= score:
            text, score, edits = candidate, value, edits + 1
    return None if lowest is None else lowest[1]


def _edit(source: Source, text: str, rng: Random) -> str:
    """Return a text with one more edit of a character, to a look-alike, or to a synonym."""
    current = Source(text, source.protect, source.expected)
    kinds = [character_swap, character_insert, homoglyph, _synonym]
    rng.shuffle(kinds)
    edited = (kind(current, rng, _ONE).text for kind in kinds)
    return next((candidate for candidate in edited if candidate != text), text)


def _synonym(source: Source, rng: Random, strength: float) -> Perturbed:
    return replace_words(source, rng, strength, load_lexicon("synonyms.txt"))


AT_A_TIME = 16
"""Requests of one certificate in flight, so that a thousand of them do not wait for each other."""


@dataclass
class Rewriting:
    """A variant whose text a model writes, once for all arms and repeats."""

    model: Judge
    draw: Draw
    requests: int = 1
    _texts: dict[str, asyncio.Task[Perturbed | NoTwin]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.draw.key} {self.model.identity}"

    async def ask(self, call: FunctionCall, outcome: Outcome) -> Outcome:
        sample = call.experiment.sample(outcome.unit)
        if sample.id not in self._texts:
            # A task of its own: the first of several units that wait for the text may be cancelled.
            self._texts[sample.id] = asyncio.ensure_future(self._rewrite(call.experiment.plan.nodeid, sample))
        try:
            rewritten = await asyncio.shield(self._texts[sample.id])
        except Refused:
            raise
        except Exception as error:
            outcome.lost, outcome.detail = lost_reason(error), f"the paraphraser gave no text: {error}"
            return outcome
        if isinstance(rewritten, NoTwin):
            return _without_twin(outcome, rewritten)
        return await _send(call, outcome, sample, rewritten.text)

    async def _rewrite(self, nodeid: str, sample: Sample) -> Perturbed | NoTwin:
        text = find_text(sample.input) or ""
        reason = ""
        for attempt in range(1 + REDRAWS):
            set_current_reply(nodeid, sample.id, self.draw.number * (1 + REDRAWS) + attempt)
            reply = await self.model.query(f"{self.draw.attack.needs_model}\n---\n{text}\n---")
            rewritten = Perturbed(reply.strip().removeprefix("---").removesuffix("---").strip())
            reason = "the model wrote the same text" if rewritten.text in ("", text.strip()) else ""
            reason = reason or self.draw.limits.problem(text, rewritten)
            if not reason:
                return rewritten
        return NoTwin(reason)


@dataclass
class Searching:
    """A variant whose text a search finds, arm by arm; the worst text is sent again, and only that reply counts."""

    metric: Metric
    queries: int
    draw: Draw

    @property
    def key(self) -> str:
        return f"{self.draw.key} {self.queries} {self.metric.name}"

    @property
    def requests(self) -> int:
        return self.queries + 1

    async def ask(self, call: FunctionCall, outcome: Outcome) -> Outcome:
        sample, facts = call.experiment.sample(outcome.unit), self.metric.facts
        number = 0

        async def query(text: str) -> float | None:
            nonlocal number
            number += 1
            trial = Outcome(outcome.unit, is_trial=True)
            sent = replace(sample, input=with_text(sample.input, text))
            await call.run(trial, sent, f"query {number}")
            _raise_cut_short(trial)
            return await _value(call, trial, self.metric, sent)

        source = Source(find_text(sample.input) or "", self.draw.protect, sample.expected)
        is_higher = facts.direction == "higher"
        try:
            text = await search_text(
                source,
                self.draw.rng(sample.id, 0),
                queries=self.queries,
                strength=self.draw.strength,
                query=query,
                worst=facts.low if is_higher else -facts.high,
            )
        except (Spent, Uncached) as error:
            outcome.lost, outcome.detail = lost_reason(error), str(error)
            return outcome
        if text is None:
            return _without_twin(outcome, NoTwin("the search found nothing to change"))
        return await _send(call, outcome, sample, text, "confirmation")


@dataclass
class Certifying:
    """The variant of certificates: the answer of the smoothed model, and how many word edits cannot change it."""

    smoothing: Smoothing
    metric: Metric
    normalise: str
    draw: Draw

    @property
    def key(self) -> str:
        return f"{self.draw.seed} {self.smoothing} {self.metric.name} {self.normalise}"

    @property
    def requests(self) -> int:
        return self.smoothing.requests

    async def ask(self, call: FunctionCall, outcome: Outcome) -> Outcome:
        sample = call.experiment.sample(outcome.unit)
        try:
            chosen = [trial for trial in await self._draw(call, outcome, sample, range(SELECTION)) if not trial.lost]
            if not chosen:
                outcome.lost, outcome.detail = "error", "all replies that would choose the answer are lost"
                return outcome
            answer = majority([self._answer(trial.reply) for trial in chosen])
            if answer is None:
                outcome.reply, outcome.scores[CERTIFIED] = Reply(text=""), -1.0
                return outcome
            others = await self._draw(call, outcome, sample, range(SELECTION, self.smoothing.requests))
        except (Spent, Uncached) as error:
            outcome.lost, outcome.detail = lost_reason(error), str(error)
            return outcome
        outcome.reply = next(trial.reply for trial in chosen if self._answer(trial.reply) == answer)
        outcome.sample = sample
        return await self._certify(call, outcome, sample, answer, others)

    async def _certify(
        self, call: FunctionCall, outcome: Outcome, sample: Sample, answer: str, others: Sequence[Outcome]
    ) -> Outcome:
        """Score the answer. Where lost replies could change how much is certified, the certificate is lost too."""
        hits = sum(self._answer(trial.reply) == answer for trial in others)
        missing = [trial for trial in others if trial.lost]
        edits, at_best = (
            certified_edits(right, self.smoothing.draws, self.smoothing.noise) for right in (hits, hits + len(missing))
        )
        if edits != at_best:
            outcome.lost, outcome.detail = missing[0].lost, f"{len(missing)} replies to shortened texts are lost"
            return outcome
        is_right = await _value(call, outcome, self.metric, sample) == 1
        outcome.scores[CERTIFIED] = float(edits if is_right else -1)
        outcome.detail = f"{hits} of {self.smoothing.draws} shortened texts have the answer"
        return outcome

    def _answer(self, reply: Reply | None) -> str | None:
        return None if reply is None else NORMALISERS[self.normalise](reply.answer)

    async def _draw(self, call: FunctionCall, outcome: Outcome, sample: Sample, numbers: range) -> list[Outcome]:
        """Return the outcomes of shortened texts. One that failed has no reply, which is an answer of no use."""
        text, trials = find_text(sample.input) or "", []

        async def reply_to(number: int) -> Outcome:
            trial = Outcome(outcome.unit, is_trial=True)
            shortened = delete_words(text, self.draw.rng(sample.id, number), self.smoothing.noise)
            sent = replace(sample, input=with_text(sample.input, shortened))
            await call.run(trial, sent, f"deletion {number}")
            _raise_cut_short(trial)
            return trial

        for start in range(numbers.start, numbers.stop, AT_A_TIME):
            some = range(start, min(start + AT_A_TIME, numbers.stop))
            trials += await asyncio.gather(*map(reply_to, some))
        return trials


async def _send(call: FunctionCall, outcome: Outcome, sample: Sample, text: str, draw: str = "") -> Outcome:
    """Run the function on a sample with another text. The stored calls have it whole, because no twin of the sample has it."""
    await call.run(outcome, replace(sample, input=with_text(sample.input, text)), draw)
    outcome.sample = sample
    return outcome


async def _value(call: FunctionCall, outcome: Outcome, metric: Metric, sample: Sample) -> float | None:
    """Return a metric's value of an outcome, higher being better; its worst for a failure, and None without one."""
    facts: MetricFacts = metric.facts
    sign = 1.0 if facts.direction == "higher" else -1.0
    if outcome.failure:
        return sign * (facts.low if sign > 0 else facts.high)
    if outcome.lost or outcome.reply is None:
        return None
    scored = Outcome(outcome.unit, reply=outcome.reply)
    experiment = call.experiment
    observations, _ = await score_outcome(
        scored, [metric], sample, passed=False, reasoning=experiment.reasoning, further=experiment.further_scores
    )
    value = next((entry.value for entry in observations if entry.metric == metric.name), None)
    return None if value is None or isinstance(value, str) else sign * float(value)


def _raise_cut_short(trial: Outcome) -> None:
    """Raise again what ended a query for good: without a budget the search cannot continue."""
    if trial.lost == "budget":
        raise Spent(trial.detail)
    if trial.lost == "uncached":
        raise Uncached(trial.detail)


def _without_twin(outcome: Outcome, missing: NoTwin) -> Outcome:
    outcome.skipped, outcome.detail = True, missing.reason
    return outcome
