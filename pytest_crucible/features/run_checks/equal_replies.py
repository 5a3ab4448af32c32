"""Arms that are one: equal replies of arms that declare different weights, and facts that show one model behind both."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.analyse.scores import Floats
from pytest_crucible.features.run_checks.answered import count_answerers
from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding, Severity
from pytest_crucible.features.run_checks.sent import weights_of
from pytest_crucible.records.calls import TextKey
from pytest_crucible.records.datasets import question_text

LEAST = 20
"""Rows of two tables that have to be equal to be remarkable."""
RARE = 0.01
"""The probability below which agreement of two models is remarkable."""
WRONG_LABELS = 0.05
"""The share of samples whose labels may be wrong, so that all good models are wrong alike: 3.3 % on average of ten test sets
(Northcutt, Athalye & Mueller 2021, Pervasive label errors in test sets)."""
EQUAL_ERRORS = 0.55
"""The most often that a model repeats another one's own mistake. Where both err they agree in 60 % of cases (Kim, Garg, Peng & Garg
2025, Correlated errors in large language models), and where one errs the other may be right."""
FREE_WORDS = 8
"""Words that neither the input nor most other replies have, from which a reply counts as free text."""
WORD_DIFFERS = 0.002
"""The probability that two models choose different words at one word of free text, assumed far below what is observed."""
SURE = 0.001
"""The probability of equal free texts of two models, by that assumption, below which they are called one."""
MOST_TEXTS = 500
"""Replies that are read: as many equal free texts are proof enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The first replies of two arms, sample by sample."""

    samples: int
    equal: tuple[int, ...]
    """The positions of the samples whose replies are equal."""

    @property
    def unequal(self) -> int:
        return self.samples - len(self.equal)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongReplies:
    """Replies of the candidate that are wrong by one metric, in all repeats."""

    samples: int = 0
    """Samples that the metric scored."""
    count: int = 0
    positions: tuple[int, ...] = ()


def check_equal_replies(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on the replies that the candidate and each baseline have in common."""
    candidate, *baselines = inputs.arms
    for columns in inputs.arms:
        yield from _without_effect(columns, inputs)
    pairs = [(baseline, compare_replies(candidate, baseline)) for baseline in baselines]
    for number, (baseline, agreement) in enumerate(pairs, start=1):
        if not agreement.samples:
            yield from _equal_tables(inputs, number)
            continue
        severity, problem = judge_pair(inputs, candidate, baseline, agreement)
        cell = f"{len(agreement.equal):,} of {agreement.samples:,} samples"
        yield Finding(
            check="equal replies",
            cells=tuple(cell if columns is baseline else "" for columns in inputs.arms),
            differs="one model" if severity == "fail" else "",
            problem=problem,
            severity=severity,
            document={"baseline": baseline.arm.name, "equal": len(agreement.equal), "samples": agreement.samples},
        )


def _equal_tables(inputs: CheckInputs, number: int) -> Iterator[Finding]:
    """Yield a finding if an arm without texts has the candidate's score on every sample, on most of them no round number."""
    pairs = [
        (scores[0].values, scores[number].values) for scores in inputs.section.scores.values() if len(scores) > number
    ]
    samples = max((int((~np.isnan(ours) & ~np.isnan(theirs)).sum()) for ours, theirs in pairs), default=0)
    fine = max((_fine_values(ours) for ours, _ in pairs), default=0)
    if fine < LEAST or not all(np.array_equal(ours, theirs, equal_nan=True) for ours, theirs in pairs):
        return
    names = f"{inputs.arms[0].arm.name} and {inputs.arms[number].arm.name}"
    yield Finding(
        check="equal replies",
        cells=tuple(f"{samples:,} of {samples:,} rows" if k == number else "" for k in range(len(inputs.arms))),
        differs="one table",
        problem=f"all scores of {names} are equal on {samples:,} samples, {fine:,} of them no round numbers: check that the two "
        "are not one table",
        severity="warn",
        document={"baseline": inputs.arms[number].arm.name, "equal": samples, "samples": samples},
    )


def _fine_values(values: Floats) -> int:
    """Return how many values have more than two decimals, each once."""
    percent = 100 * np.unique(values[~np.isnan(values)])
    return int((np.abs(percent - np.round(percent)) > 1e-6).sum())


def _without_effect(columns: ArmColumns, inputs: CheckInputs) -> Iterator[Finding]:
    if columns.arm.without_effect:
        yield Finding(
            check="equal replies",
            cells=tuple("its base" if each is columns else "" for each in inputs.arms),
            differs="no effect",
            problem=f"the weights of {columns.arm.name} change no reply of their base: {columns.arm.without_effect}",
            # Alone, an arm is compared with nothing that it could be.
            severity=None if len(inputs.arms) > 1 else "warn",
        )


def compare_replies(ours: ArmColumns, theirs: ArmColumns) -> Agreement:
    """Return the agreement of two arms in the first reply to each sample."""
    first = [_first_texts(columns, 0) for columns in (ours, theirs)]
    return _agreement(*first)


def own_agreement(columns: ArmColumns) -> Agreement:
    """Return the agreement of an arm with itself, in the first two replies to each sample."""
    return _agreement(_first_texts(columns, 0), _first_texts(columns, 1))


def _agreement(ours: Mapping[int, TextKey], theirs: Mapping[int, TextKey]) -> Agreement:
    both = ours.keys() & theirs.keys()
    return Agreement(samples=len(both), equal=tuple(sorted(k for k in both if ours[k] == theirs[k])))


def _first_texts(columns: ArmColumns, repeat: int) -> dict[int, TextKey]:
    replies = columns.replies
    rows = zip(replies.positions, replies.repeats, replies.texts, strict=True)
    return {position: text for position, number, text in rows if number == repeat and text not in (None, "")}


def judge_pair(
    inputs: CheckInputs, candidate: ArmColumns, baseline: ArmColumns, agreement: Agreement
) -> tuple[Severity | None, str]:
    """Return how severe the agreement of two arms is, and a sentence; empty where it is as it should be."""
    if not declare_other_weights(candidate, baseline):
        return None, ""
    names = f"{candidate.arm.name} and {baseline.arm.name}"
    is_rare = not agreement.unequal and agreement_by_chance(inputs, candidate, agreement) <= RARE / (
        len(inputs.arms) - 1
    )
    shows_one = is_consistent(agreement, candidate, baseline) and _free_text_shows_one(
        inputs, candidate, baseline, agreement
    )
    count = f"{len(agreement.equal):,} of {agreement.samples:,} replies of {names} are equal"
    if model := _common_model(candidate, baseline):
        if shows_one or is_rare:
            return "fail", f"{count}, and the server names one model for both, {model}: they are one"
        # A server may name all of its models alike: replies that mostly differ show that they are two.
        severity: Severity = "note" if 2 * agreement.unequal > agreement.samples else "warn"
        return severity, (
            f"the server names one model for {names}, {model}, although their settings name two"
            + (
                ""
                if agreement.unequal
                else f", and {len(agreement.equal):,} of {agreement.samples:,} replies are equal"
            )
        )
    if shows_one:
        return "fail", f"{count}, word for word in free text: they are one model"
    if is_rare:
        return "warn", f"{count}: check that {candidate.arm.name} is what answers under its name"
    return None, ""


def agreement_by_chance(inputs: CheckInputs, candidate: ArmColumns, agreement: Agreement) -> float:
    """Return a bound of the probability that two models give equal replies to as many samples on which the candidate is wrong.

    Replies that are right show nothing: good models agree there. Of k wrong ones S may have wrong labels, which is binomial, and
    both models then agree. On each of the k - S others they agree with a probability of at most q, whatever the model did
    elsewhere, so that they agree on all with at most E[q^max(k - S, 0)]. This is at least P(S >= k): at an accuracy of 95 % or
    more, even models with all mistakes in common reach RARE in at most RARE of runs.
    """
    from scipy.stats import binom

    texts = _first_texts(candidate, 0)
    wrong = _wrong_replies(inputs, agreement.equal)
    if not wrong.count:
        return 1.0
    shares = np.array([*Counter(texts[position] for position in wrong.positions).values()]) / len(wrong.positions)
    # Models that are wrong with "unknown", or with the other of two labels, are so alike.
    alike = max(EQUAL_ERRORS, float(shares @ shares))
    labels = np.arange(wrong.samples + 1)
    return float(binom.pmf(labels, wrong.samples, WRONG_LABELS) @ alike ** np.maximum(wrong.count - labels, 0))


def _wrong_replies(inputs: CheckInputs, positions: Sequence[int]) -> WrongReplies:
    """Return the candidate's wrong replies by the yes-or-no metric that counts most; one sample of each group.

    No more of them count than are right, so that a metric which nothing passes shows nothing.
    """
    groups = inputs.section.groups
    apart = [*{groups[position] or position: position for position in reversed(positions)}.values()]
    by_metric = [WrongReplies()]
    for name, facts in inputs.section.facts.items():
        if facts.kind == "binary" and name in inputs.section.scores:
            values = inputs.section.scores[name][0].values[apart]
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


def declare_other_weights(candidate: ArmColumns, baseline: ArmColumns) -> bool:
    """Return whether two arms declare different weights: other models, or equal requests to something else."""
    ours, theirs = candidate.arm, baseline.arm
    if ours.members or theirs.members or ours.trainings or theirs.trainings:
        return False
    if ours.settings and theirs.settings:
        return weights_of(ours) != weights_of(theirs)
    return ours.identity != theirs.identity and (ours.parameters, ours.variables) == (
        theirs.parameters,
        theirs.variables,
    )


def _common_model(candidate: ArmColumns, baseline: ArmColumns) -> str:
    """Return the model that servers name for both arms, although their settings name two; empty without one."""
    models = [{who.model for who in count_answerers(columns)} for columns in (candidate, baseline)]
    declared = [columns.arm.settings.get("model") for columns in (candidate, baseline)]
    is_one = len(models[0]) == 1 and models[0] == models[1] and None not in declared and declared[0] != declared[1]
    return next(iter(models[0])) if is_one else ""


def is_consistent(agreement: Agreement, candidate: ArmColumns, baseline: ArmColumns) -> bool:
    """Return whether two arms differ no more often than each differs from itself, by an exact test at 5 %.

    Without repeats an arm's own differences are unknown, and all replies must be equal.
    """
    if not agreement.unequal:
        return True
    from pytest_crucible.stats.proportions.exact import two_exact_p_value

    own = [own_agreement(columns) for columns in (candidate, baseline)]
    unequal, samples = sum(each.unequal for each in own), sum(each.samples for each in own)
    if not samples or 2 * agreement.unequal > agreement.samples:
        return False
    p = two_exact_p_value(agreement.unequal, agreement.samples, unequal, samples, alternative="greater")
    return p is not None and p > 0.05


def _free_text_shows_one(
    inputs: CheckInputs, candidate: ArmColumns, baseline: ArmColumns, agreement: Agreement
) -> bool:
    """Return whether the equal replies have so much free text that two models would not have written it alike."""
    positions = agreement.equal[:MOST_TEXTS]
    stored = inputs.section.stored
    texts, samples = stored.replies(0, positions), stored.samples(positions)
    inputs_of = {
        position: question_text(samples[position].input) if position in samples else "" for position in positions
    }
    words = sum(count_free_words([texts.get(k, "") for k in positions], [inputs_of[k] for k in positions]))
    return math.exp(-WORD_DIFFERS * words) <= SURE


_WORD = re.compile(r"\w+")


def count_free_words(replies: Sequence[str], inputs: Sequence[Any]) -> list[int]:
    """Return the words of each reply that neither its input nor half of the replies have; 0 below FREE_WORDS.

    >>> count_free_words(["The answer is 4."], ["2 + 2 ="])
    [0]
    """
    words = [_WORD.findall(reply.lower()) for reply in replies]
    common = Counter(word for of_reply in words for word in set(of_reply))
    usual = {word for word, count in common.items() if len(replies) > 1 and 2 * count > len(replies)}
    counts = []
    for of_reply, text in zip(words, inputs, strict=True):
        not_free = usual | set(_WORD.findall(str(text).lower()))
        free = sum(word not in not_free for word in of_reply)
        counts.append(free if free >= FREE_WORDS else 0)
    return counts
