"""Agreement of two arms: which of their replies are equal, and whether two models would have written them alike."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, text_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Draws
from pytest_crucible.records.calls import TextKey
from pytest_crucible.stats.distributions import binomial_cdf, binomial_pmf

WRONG_LABELS = 0.05
"""The share of samples whose labels may be wrong, so that all good models are wrong alike: 3.3 % on average of ten test sets
(Northcutt, Athalye & Mueller 2021, Pervasive label errors in test sets)."""
EQUAL_ERRORS = 0.55
"""The most often that a model repeats another one's own mistake. Where both err they agree in 60 % of cases (Kim, Garg, Peng & Garg
2025, Correlated errors in large language models), and where one errs the other may be right."""
FREE_WORDS = 8
"""Words that neither the sample, its prompt nor most other replies have, from which a reply counts as free text."""
WORD_DIFFERS = 0.002
"""The probability that two models choose different words at one word of free text, assumed far below what is observed."""
MOST_TEXTS = 500
"""Replies that are read: as many equal free texts are proof enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstReplies:
    """The replies of one arm in one of its repeats, by the position of the sample."""

    received: Mapping[int, tuple[TextKey, ...]] = field(default_factory=dict)
    """The replies to all calls of the test."""
    returned: Mapping[int, TextKey] = field(default_factory=dict)
    """What the test returned, which may be only a part of the reply, or a value of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The replies of two arms, or of two repeats, sample by sample."""

    samples: int
    equal: Mapping[int, TextKey]
    """The last reply that is equal, by the position of its sample."""

    @property
    def unequal(self) -> int:
        return self.samples - len(self.equal)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongReplies:
    """Replies of an arm that are wrong by one metric, in all repeats."""

    samples: int = 0
    """Samples that the metric scored."""
    count: int = 0
    positions: tuple[int, ...] = ()


def own_agreement(columns: ArmColumns, draws: Draws) -> Agreement:
    """Return the agreement of an arm with itself: in the first two replies of one model to one prompt."""
    if draws.rounds * draws.repeats < 2:
        return Agreement(samples=0, equal={})
    return compare_replies(first_replies(columns, 0), first_replies(columns, 1))


def first_replies(columns: ArmColumns, repeat: int = 0) -> FirstReplies:
    """Return the replies of an arm in one of its repeats."""
    calls, replies = columns.calls, columns.replies
    received: dict[int, tuple[TextKey, ...]] = defaultdict(tuple)
    for row in columns.own_calls:
        if calls.repeats[row] == repeat and calls.texts[row] is not None:
            received[calls.positions[row]] += (calls.texts[row],)
    rows = zip(replies.positions, replies.repeats, replies.texts, strict=True)
    return FirstReplies(
        received={position: texts for position, texts in received.items() if any(texts)},
        returned={position: text for position, number, text in rows if number == repeat and text},
    )


def compare_replies(ours: FirstReplies, theirs: FirstReplies) -> Agreement:
    """Return the agreement in what was received, else in what was returned: a test may return one value for all replies."""
    received = ours.received.keys() & theirs.received.keys()
    returned = (ours.returned.keys() & theirs.returned.keys()) - received
    samples, equal = len(received) + len(returned), {}
    # The numbers alone are sorted: pairs of all samples would take more memory than their replies.
    for k in sorted(received | returned):
        if k in received:
            if ours.received[k] == theirs.received[k]:
                equal[k] = ours.received[k][-1]
        elif ours.returned[k] == theirs.returned[k]:
            equal[k] = ours.returned[k]
    return Agreement(samples=samples, equal=equal)


def agreement_by_chance(inputs: CheckInputs, arm: int, agreement: Agreement) -> float:
    """Return a bound of the probability that two models give equal replies to as many samples on which one of them is wrong.

    Replies that are right show nothing: good models agree there. Of k wrong ones S may have wrong labels, which is binomial, and
    both models then agree. On each of the k - S others they agree with a probability of at most q, whatever the model did
    elsewhere, so that they agree on all with at most E[q^max(k - S, 0)]. This is at least P(S >= k): at an accuracy of 95 % or
    more, even models with all mistakes in common reach RARE in at most RARE of runs.
    """
    wrong = _wrong_replies(inputs, arm, list(agreement.equal))
    if not wrong.count:
        return 1.0
    shares = np.array([*Counter(agreement.equal[position] for position in wrong.positions).values()]) / len(
        wrong.positions
    )
    # Models that are wrong with "unknown", or with the other of two labels, are so alike.
    alike = max(EQUAL_ERRORS, float(shares @ shares))
    n, k = wrong.samples, wrong.count
    fewer = math.fsum(binomial_pmf(labels, n, WRONG_LABELS) * alike ** (k - labels) for labels in range(k))
    return fewer + 1.0 - binomial_cdf(k - 1, n, WRONG_LABELS)


def _wrong_replies(inputs: CheckInputs, arm: int, positions: Sequence[int]) -> WrongReplies:
    """Return the wrong replies of an arm by the yes-or-no metric that counts most; one sample of each group.

    No more of them count than are right, so that a metric which nothing passes shows nothing. Only metrics that verdicts are
    about: others may say nothing of what is right.
    """
    section, plan = inputs.section, inputs.plan
    groups = section.groups
    apart = [*{groups[position] or position: position for position in reversed(positions)}.values()]
    by_metric = [WrongReplies()]
    for name in {declared.metric for declared in (*plan.targets, *plan.contrasts)} & section.scores.keys():
        facts, scores = section.facts[name], section.scores[name]
        if facts.kind == "binary" and len(scores) > arm:
            values = scores[arm].values[apart]
            worst = float(facts.direction == "lower")
            wrong, right = values == worst, values == 1.0 - worst
            by_metric.append(
                WrongReplies(
                    samples=int((~np.isnan(values)).sum()),
                    count=int(min(wrong.sum(), right.sum())),
                    positions=tuple(np.array(apart)[wrong].tolist()),
                )
            )
    return max(by_metric, key=lambda of_metric: of_metric.count)


def is_consistent(agreement: Agreement, own: Collection[Agreement]) -> bool:
    """Return whether two arms differ no more often than each differs from itself, by an exact test at 5 %.

    Without repeats an arm's own differences are unknown, and all replies must be equal.
    """
    if not agreement.unequal:
        return True
    from pytest_crucible.stats.proportions.exact import two_exact_p_value

    unequal, samples = sum(each.unequal for each in own), sum(each.samples for each in own)
    if not samples or 2 * agreement.unequal > agreement.samples:
        return False
    p = two_exact_p_value(agreement.unequal, agreement.samples, unequal, samples, alternative="greater")
    return p is not None and p > 0.05


def equal_texts_by_chance(inputs: CheckInputs, columns: ArmColumns, agreement: Agreement) -> float:
    """Return the probability that two models write the equal replies alike, by the number of their free words."""
    positions = list(agreement.equal)[:MOST_TEXTS]
    long_texts = inputs.section.stored.long_texts(
        {key for k in positions if isinstance(key := agreement.equal[k], bytes)}
    )
    replies = {k: text_of(agreement.equal[k], long_texts) for k in positions}
    words = sum(count_free_words(list(replies.values()), list(_sources(inputs, columns, replies))))
    return math.exp(-WORD_DIFFERS * words)


def _sources(inputs: CheckInputs, columns: ArmColumns, replies: Mapping[int, str]) -> Iterator[str]:
    """Yield all that a good reply may copy: the sample with its expected value, and the first and last prompt about it.

    `replies` are by position.
    """
    positions = list(replies)
    stored, calls, chosen = inputs.section.stored, columns.calls, frozenset(positions)
    rows = [row for row in columns.own_calls if calls.repeats[row] == 0 and calls.positions[row] in chosen]
    # The last prompt may refer to replies, and is left out then; documents are often in the first.
    prompts = [
        stored.first_prompts({calls.positions[row]: calls.forms[row] for row in of}) for of in (rows[::-1], rows)
    ]
    samples, rewritten = (
        stored.samples(positions),
        {calls.positions[row] for row in rows if calls.forms[row] is not None},
    )
    for k in positions:
        sample = samples.get(k)
        # Of a prompt that is not stored (--crucible-trace=off) any word may come: none is free.
        if k in rewritten and not any(k in of for of in prompts):
            yield replies[k]
            continue
        fields = () if sample is None else (sample.input, sample.expected, sample.metadata)
        yield " ".join(_texts([fields, *(of[k][0] for of in prompts if k in of)]))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, such as the contents of messages."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)


_WORD = re.compile(r"\w+")


def count_free_words(replies: Sequence[str], sources: Sequence[str]) -> list[int]:
    """Return the words of each reply that neither its source nor half of the replies have; 0 below FREE_WORDS.

    >>> count_free_words(["The answer is 4."], ["2 + 2 ="])
    [0]
    """
    words = [_WORD.findall(reply.lower()) for reply in replies]
    common = Counter(word for of_reply in words for word in set(of_reply))
    usual = {word for word, count in common.items() if len(replies) > 1 and 2 * count > len(replies)}
    return [_free_words(of_reply, usual, source) for of_reply, source in zip(words, sources, strict=True)]


def _free_words(words: Sequence[str], usual: Collection[str], source: str) -> int:
    not_free = {*usual, *_WORD.findall(source.lower())}
    free = sum(word not in not_free for word in words)
    return free if free >= FREE_WORDS else 0
