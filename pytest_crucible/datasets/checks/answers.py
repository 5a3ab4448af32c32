"""Expectations on answers that a model could get without solving the task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from pytest_crucible.datasets.checks.arguments import check_share
from pytest_crucible.datasets.checks.check import Finder, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.expectation import column_check, row_check
from pytest_crucible.datasets.overlap.words import split_words
from pytest_crucible.stats import holm

FEW_LABELS = 20
"""Up to this many different answers are labels; more are free texts."""
# "Answer: 42", "the label is SUPPORT", "gold = B".
_CUE = r"(?:answer|hint|key|correct|label|expected|target|gold|solution|verdict)\W{{0,3}}\s*(?:is|was)?\W{{0,5}}{answer}(?!\w)"


@row_check
def expect_answer_not_in_prompt(answer: str = "expected", prompt: str = "input") -> Finder:
    """Expect that prompts do not give the answer away.

    A prompt gives it away if it announces it ("Answer: 42"), if it contains an answer of at least four words, or, where the
    answers are labels, if it contains the right label more often than each other one: a prompt may list all of them.
    """

    def find(table: Table) -> Finding:
        answers, prompts = table.column(answer), table.column(prompt)
        texts = dict(zip(prompts.present.tolist(), prompts.texts, strict=True))
        both = [k for k, position in enumerate(answers.present.tolist()) if position in texts]
        positions = answers.present[both]
        right = [answers.labels[k].strip() for k in both]
        labels = sorted(set(right) - {""})
        gives_away = _label_finder(labels) if len(labels) <= min(FEW_LABELS, len(right) // 2) else _text_is_given
        bad = [
            bool(answer) and gives_away(answer, texts[k]) for answer, k in zip(right, positions.tolist(), strict=True)
        ]
        return Finding(
            message="prompts without their answer",
            fault="contain their answer",
            failing=positions[np.array(bad, dtype=bool)],
            checked=len(bad),
            missing=len(table) - len(bad),
        )

    return find


def _is_announced(answer: str, prompt: str) -> bool:
    if answer.casefold() not in prompt.casefold():
        return False
    return re.search(_CUE.format(answer=re.escape(answer)), prompt, re.IGNORECASE) is not None


def _text_is_given(answer: str, prompt: str) -> bool:
    if _is_announced(answer, prompt):
        return True
    words = split_words(answer)
    # Shorter answers, such as numbers, occur in prompts by chance.
    return len(words) >= 4 and f" {' '.join(words)} " in f" {' '.join(split_words(prompt))} "


def _label_finder(labels: Sequence[str]) -> Callable[[str, str], bool]:
    """Return whether a prompt contains its label more often than any other label."""
    words = {label: f" {'  '.join(split_words(label))} " for label in labels}

    def gives_away(answer: str, prompt: str) -> bool:
        if _is_announced(answer, prompt) and not _all_announced(labels, prompt):
            return True
        # "A" and "no" are words of any prompt.
        if len(answer) <= 3 or (not answer.isalpha() and len(split_words(answer)) < 2):
            return False
        # Two blanks between words, so that a label next to itself is counted twice.
        text = f" {'  '.join(split_words(prompt))} "
        counts = {label: text.count(of_label) for label, of_label in words.items()}
        others = [count for label, count in counts.items() if label != answer]
        return counts[answer] > max(others, default=0)

    return gives_away


def _all_announced(labels: Sequence[str], prompt: str) -> bool:
    return len(labels) > 1 and all(_is_announced(label, prompt) for label in labels)


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
