"""Agreement of two arms: which of their replies are equal, and whether two models would have written them alike."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, text_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Draws
from pytest_crucible.records.calls import TextKey
from pytest_crucible.stats.distributions import binomial_cdf, binomial_pmf

Integers: TypeAlias = NDArray[np.int32 | np.int64]
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
class SampleTexts:
    """Texts of samples, in the order of the samples: as a mapping, those of a million samples took six times the memory."""

    positions: Sequence[int]
    texts: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstReplies:
    """The replies of one arm in one of its repeats."""

    received: SampleTexts
    """The replies to all calls of the test, as one tuple for each sample."""
    returned: SampleTexts
    """What the test returned, which may be only a part of the reply, or a value of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The replies of two arms, or of two repeats, sample by sample."""

    samples: int
    positions: Integers
    """Samples whose replies are equal, in their order."""
    texts: Sequence[TextKey]
    """The last reply to each of them."""

    @property
    def equal(self) -> int:
        return len(self.texts)

    @property
    def unequal(self) -> int:
        return self.samples - self.equal


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongReplies:
    """Replies of an arm that are wrong by one metric, in all repeats."""

    samples: int = 0
    """Samples that the metric scored."""
    count: int = 0
    """The wrong ones that count."""
    positions: Integers = field(default_factory=lambda: np.empty(0, int))


def own_agreement(columns: ArmColumns, draws: Draws) -> Agreement:
    """Return the agreement of an arm with itself: in the first two replies of one model to one prompt."""
    if draws.rounds * draws.repeats < 2:
        return Agreement(samples=0, positions=np.empty(0, int), texts=())
    return compare_replies(first_replies(columns, 0), first_replies(columns, 1))


def first_replies(columns: ArmColumns, repeat: int = 0) -> FirstReplies:
    """Return the replies of an arm in one of its repeats."""
    replies = columns.replies
    rows = zip(replies.positions, replies.repeats, replies.texts, strict=True)
    return FirstReplies(
        received=_collect((position, texts) for position, texts in _texts_of_calls(columns, repeat) if any(texts)),
        returned=_collect((position, text) for position, number, text in rows if number == repeat and text),
    )


def _texts_of_calls(columns: ArmColumns, repeat: int) -> Iterator[tuple[int, tuple[TextKey, ...]]]:
    calls = columns.calls
    rows = (row for row in columns.own_calls if calls.repeats[row] == repeat and calls.texts[row] is not None)
    for position, of_sample in groupby(rows, calls.positions.__getitem__):
        yield position, tuple(calls.texts[row] for row in of_sample)


def _collect(pairs: Iterable[tuple[int, Any]]) -> SampleTexts:
    positions, texts = array("i"), []
    for position, text in pairs:
        positions.append(position)
        texts.append(text)
    return SampleTexts(positions=positions, texts=texts)


def compare_replies(ours: FirstReplies, theirs: FirstReplies) -> Agreement:
    """Return the agreement in what was received, else in what was returned: a test may return one value for all replies."""
    received = _match(ours.received, theirs.received)
    returned = _match(ours.returned, theirs.returned, besides=received.samples)
    positions = np.concatenate([received.equal, returned.equal])
    texts = [*(of_sample[-1] for of_sample in received.texts), *returned.texts]
    order = np.argsort(positions)
    return Agreement(
        samples=len(received.samples) + len(returned.samples),
        positions=positions[order],
        texts=list(_choose(texts, order)),
    )


class _Matched(NamedTuple):
    """Samples that both arms have, and those of them with equal texts."""

    samples: Integers
    equal: Integers
    texts: list[Any]


def _match(ours: SampleTexts, theirs: SampleTexts, besides: Integers | None = None) -> _Matched:
    samples, own, others = np.intersect1d(ours.positions, theirs.positions, assume_unique=True, return_indices=True)
    if besides is not None:
        is_other = ~np.isin(samples, besides)
        samples, own, others = samples[is_other], own[is_other], others[is_other]
    pairs = zip(_choose(ours.texts, own), _choose(theirs.texts, others), strict=True)
    equal = np.fromiter((our_text == their_text for our_text, their_text in pairs), bool, len(samples))
    return _Matched(samples, samples[equal], list(_choose(ours.texts, own[equal])))


def _choose(texts: Sequence[Any], rows: Integers) -> Iterator[Any]:
    # Not as a list, whose numbers take more memory than the rows.
    return map(texts.__getitem__, rows.data)


def agreement_by_chance(inputs: CheckInputs, arm: int, agreement: Agreement) -> float:
    """Return a bound of the probability that two models give equal replies to as many samples on which one of them is wrong.

    Replies that are right show nothing: good models agree there. Of k wrong ones S may have wrong labels, which is binomial, and
    both models then agree. On each of the k - S others they agree with a probability of at most q, whatever the model did
    elsewhere, so that they agree on all with at most E[q^max(k - S, 0)]. This is at least P(S >= k): at an accuracy of 95 % or
    more, even models with all mistakes in common reach RARE in at most RARE of runs.
    """
    wrong = _wrong_replies(inputs, arm, agreement.positions)
    if not wrong.count:
        return 1.0
    texts = _choose(agreement.texts, np.searchsorted(agreement.positions, wrong.positions))
    shares = np.array([*Counter(texts).values()]) / len(wrong.positions)
    # Models that are wrong with "unknown", or with the other of two labels, are so alike.
    alike = max(EQUAL_ERRORS, float(shares @ shares))
    n, k = wrong.samples, wrong.count
    fewer = math.fsum(binomial_pmf(labels, n, WRONG_LABELS) * alike ** (k - labels) for labels in range(k))
    return fewer + 1.0 - binomial_cdf(k - 1, n, WRONG_LABELS)


def _wrong_replies(inputs: CheckInputs, arm: int, positions: Integers) -> WrongReplies:
    """Return the wrong replies of an arm by the yes-or-no metric that counts most; one sample of each group.

    No more of them count than are right, so that a metric which nothing passes shows nothing. Only metrics that verdicts are
    about: others may say nothing of what is right.
    """
    section, plan = inputs.section, inputs.plan
    apart = _first_of_groups(section.groups, positions)
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
                    positions=apart[wrong],
                )
            )
    return max(by_metric, key=lambda of_metric: of_metric.count)


def _first_of_groups(groups: Sequence[str | None], positions: Integers) -> Integers:
    """Return the first position of each group, and all without a group."""
    grouped = np.fromiter(map(bool, _choose(groups, positions)), bool, len(positions))
    first = {groups[position]: position for position in positions[grouped][::-1].tolist()}
    return np.concatenate([positions[~grouped], np.fromiter(first.values(), int, len(first))])


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
    keys = dict(zip(agreement.positions[:MOST_TEXTS].tolist(), agreement.texts, strict=False))
    long_texts = inputs.section.stored.long_texts({key for key in keys.values() if isinstance(key, bytes)})
    replies = {position: text_of(key, long_texts) for position, key in keys.items()}
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
