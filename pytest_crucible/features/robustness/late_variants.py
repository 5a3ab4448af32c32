"""Variants whose texts are made while an experiment runs: rewritten by a model, found by a search, or drawn for a certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_crucible.features.robustness.certificates import (
    SELECTION,
    Smoothing,
    certified_edits,
    delete_words,
    majority,
    search_text,
)
from pytest_crucible.features.robustness.edits import Perturbed, Source
from pytest_crucible.features.robustness.records import CERTIFIED
from pytest_crucible.features.robustness.twins import REDRAWS, Draw, find_text, with_text
from pytest_crucible.metrics import Metric
from pytest_crucible.metrics.models.scorers import Judge, set_current_reply
from pytest_crucible.metrics.normalisers import NORMALISERS
from pytest_crucible.records import MetricFacts, NoTwin, Outcome, Reply, Sample
from pytest_crucible.records.errors import Refused, Spent, Uncached
from pytest_crucible.sample.invoke import lost_reason
from pytest_crucible.score import score_outcome

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import FunctionCall

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
            trial = Outcome(outcome.unit)
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
            trial = Outcome(outcome.unit)
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
        scored,
        [metric],
        sample,
        passed=False,
        reasoning=experiment.reasoning,
        further=experiment.further_scores,
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
