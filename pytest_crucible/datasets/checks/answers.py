"""Expectations on answers that a model could get without solving the task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from scipy import stats

from pytest_crucible.datasets.checks.announcements import find_announcements, occurs_outside_of_choices
from pytest_crucible.datasets.checks.arguments import check_share
from pytest_crucible.datasets.checks.check import Finder, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.expectation import column_check, row_check
from pytest_crucible.datasets.overlap.words import split_words
from pytest_crucible.stats import holm

FEW_LABELS = 20
"""Up to this many different answers are labels; more are free texts."""


@row_check
def expect_answer_not_in_prompt(answer: str = "expected", prompt: str = "input") -> Finder:
    """Expect that prompts do not give the answer away.

    A prompt gives it away if it announces it ("Answer: 42", "the right choice is (b)"), if it contains an answer of at least four
    words other than as one of its choices, or, where the answers are labels, if it contains the right label more often than each
    other one: a prompt may list all of them. Of labels, words that announce wrong ones too are those of examples.
    """

    def find(table: Table) -> Finding:
        answers, prompts = table.column(answer), table.column(prompt)
        texts = dict(zip(prompts.present.tolist(), prompts.texts, strict=True))
        both = [k for k, position in enumerate(answers.present.tolist()) if position in texts]
        positions = answers.present[both]
        right = [answers.labels[k].strip() for k in both]
        labels = sorted(set(right) - {""})
        both_texts = [texts[k] for k in positions.tolist()]
        if len(labels) <= min(FEW_LABELS, len(right) // 2):
            bad = _labels_given(labels, right, both_texts)
        else:
            bad = [
                bool(answer) and _text_is_given(answer, text) for answer, text in zip(right, both_texts, strict=True)
            ]
        return Finding(
            message="prompts without their answer",
            fault="contain their answer",
            failing=positions[np.array(bad, dtype=bool)],
            checked=len(bad),
            missing=len(table) - len(bad),
        )

    return find


def _text_is_given(answer: str, prompt: str) -> bool:
    if any(find_announcements(answer, prompt)):
        return True
    words = split_words(answer)
    # Shorter answers, such as numbers, occur in prompts by chance.
    if len(words) < 4 or f" {' '.join(words)} " not in f" {' '.join(split_words(prompt))} ":
        return False
    # Where it stands in other signs and cases than in the answer, its place is not known.
    return occurs_outside_of_choices(answer, prompt) or answer.casefold() not in prompt.casefold()


def _labels_given(labels: Sequence[str], right: Sequence[str], prompts: Sequence[str]) -> list[bool]:
    """Return, for each prompt, whether it announces its label, or contains it more often than any other label."""
    announced = [_announced_labels(labels, prompt) for prompt in prompts]
    informed = informative_cues(announced, right)
    is_frequent = _frequency_finder(labels)
    return [
        bool(answer) and (any(of_cues.get(cue) == {answer} for cue in informed) or is_frequent(answer, prompt))
        for answer, of_cues, prompt in zip(right, announced, prompts, strict=True)
    ]


def _announced_labels(labels: Sequence[str], prompt: str) -> dict[str, set[str]]:
    """Return the labels that a prompt announces, by the words that do."""
    announced: dict[str, set[str]] = {}
    for label in labels:
        for cue in find_announcements(label, prompt, [other for other in labels if other != label]):
            announced.setdefault(cue, set()).add(label)
    return announced


def informative_cues(announced: Sequence[Mapping[str, Collection[str]]], right: Sequence[str]) -> set[str]:
    """Return the words that announce the right label, and not one of an example that several prompts share.

    Of the prompts in which they announce one label, it has to be the right one in more than half of those that chance leaves.
    """
    shares = {label: count / len(right) for label, count in Counter(right).items()}
    chosen = set()
    for cue in {cue for of_cues in announced for cue in of_cues}:
        pairs = [
            (*of_cues[cue], own)
            for of_cues, own in zip(announced, right, strict=True)
            if len(of_cues.get(cue, ())) == 1
        ]
        hits = sum(label == own for label, own in pairs)
        by_chance = sum(shares.get(label, 0.0) for label, _ in pairs)
        if pairs and hits >= (len(pairs) + by_chance) / 2:
            chosen.add(cue)
    return chosen


def _frequency_finder(labels: Sequence[str]) -> Callable[[str, str], bool]:
    """Return whether a prompt contains its label more often than any other label."""
    words = {label: f" {'  '.join(split_words(label))} " for label in labels}

    def is_frequent(answer: str, prompt: str) -> bool:
        # "A" and "no" are words of any prompt.
        if len(answer) <= 3 or (not answer.isalpha() and len(split_words(answer)) < 2):
            return False
        # Two blanks between words, so that a label next to itself is counted twice.
        text = f" {'  '.join(split_words(prompt))} "
        counts = {label: text.count(of_label) for label, of_label in words.items()}
        others = [count for label, count in counts.items() if label != answer]
        return counts[answer] > max(others, default=0)

    return is_frequent


@column_check
def expect_balanced_answer_key(column: str = "expected", tolerance: float = 0.1, alpha: float = 0.05) -> Finder:
    """Expect that no choice is the right one much more often than the others.

    It fails where the most frequent choice has a share proven (exact binomial test, Bonferroni over the choices) to be above
    that of equally frequent ones by more than `tolerance`: a model that always gives it would score as much.
    """
    check_share("tolerance", tolerance)
    check_share("alpha", alpha)

    def find(table: Table) -> Finding:
        values = table.column(column)
        counts = Counter(values.labels)
        total = len(values.labels)
        if len(counts) < 2:
            text = f"all {total:,} answers are {next(iter(counts))}" if counts else "no sample has a value"
            return Finding(message=text, checked=total, missing=values.missing, is_met=False)
        choice, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
        limit = min(1 / len(counts) + tolerance, 1.0)
        p = min(1.0, len(counts) * float(stats.binomtest(count, total, limit, alternative="greater").pvalue))
        met = p > alpha
        expected = "" if met else f", proven to be above {limit:.3g} (p = {p:.2g})"
        return Finding(
            message=f"the most frequent of {len(counts)} answers, {choice}, has the share {count / total:.4g}{expected}",
            checked=total,
            missing=values.missing,
            is_met=met,
        )

    return find


@column_check
def expect_length_not_to_predict_label(
    label: str = "expected", column: str = "input", margin: float = 0.15, alpha: float = 0.05
) -> Finder:
    """Expect that the length of a text does not reveal its label.

    For each label, the probability that a text of it is longer than a text of another label is estimated (the AUROC of the
    length). It fails where this is further than `margin` from 1/2 and a difference is proven (Mann-Whitney, Holm over the
    labels).
    """
    check_share("margin", margin)
    check_share("alpha", alpha)

    def find(table: Table) -> Finding:
        labels, texts = table.column(label), table.column(column)
        lengths = dict(zip(texts.present.tolist(), map(len, texts.texts), strict=True))
        pairs = [
            (name, lengths[k]) for name, k in zip(labels.labels, labels.present.tolist(), strict=True) if k in lengths
        ]
        names = sorted({name for name, _ in pairs})
        missing = len(table) - len(pairs)
        if not 2 <= len(names) <= FEW_LABELS:
            return Finding(
                message=f"there are {len(names):,} different labels, and 2 to {FEW_LABELS} are expected",
                checked=len(pairs), missing=missing, is_met=False,
            )  # fmt: skip
        of_label = np.array([name for name, _ in pairs], dtype=object)
        length = np.array([length for _, length in pairs], dtype=float)
        areas = [(name, *_auroc(length[of_label == name], length[of_label != name])) for name in names]
        adjusted = holm([p for _, _, p in areas], family_size=len(areas))
        proven = [
            (name, area, p)
            for (name, area, _), p in zip(areas, adjusted, strict=True)
            if abs(area - 0.5) > margin and p is not None and p <= alpha
        ]
        name, area, *_ = max(proven or areas, key=lambda item: (abs(item[1] - 0.5), item[0]))
        text = f"texts of {name} are longer than those of other labels with probability {area:.3g}"
        expected = f", and {0.5 - margin:g} to {0.5 + margin:g} is expected" if proven else ""
        return Finding(message=text + expected, checked=len(pairs), missing=missing, is_met=not proven)

    return find


def _auroc(own: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Return the probability that a length is above one of the others (ties count half), and the two-sided p-value."""
    if len(np.unique(np.concatenate([own, others]))) == 1:
        return 0.5, 1.0  # for lengths that are all equal SciPy 1.18 gives NaN
    result = stats.mannwhitneyu(own, others, alternative="two-sided", method="asymptotic")
    return float(result.statistic) / (len(own) * len(others)), float(result.pvalue)
