"""Checks of expected answers, and the standard set that `crucible data check` runs."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from scipy import stats

from pytest_crucible.datasets.check import Finder, Finding, column_finding, number_subjects
from pytest_crucible.datasets.columns import Table
from pytest_crucible.datasets.expectation import check_share, column_check, row_check
from pytest_crucible.datasets.similar import split_words
from pytest_crucible.features.data_checks.statistics import (
    expect_group_share_below,
    expect_no_duplicates,
    expect_one_answer_per_input,
)
from pytest_crucible.features.data_checks.texts import expect_clean_text, expect_no_canaries, expect_no_secrets
from pytest_crucible.records import Sample
from pytest_crucible.records.datasets import CheckResult
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
        positions = np.intersect1d(answers.present, prompts.present)
        right = [label.strip() for label in answers.at(positions, answers.labels)]
        texts = prompts.at(positions, prompts.texts)
        labels = sorted(set(right) - {""})
        if len(labels) <= min(FEW_LABELS, len(right) // 2):
            bad = _labels_given(labels, right, texts)
        else:
            bad = [bool(answer) and _text_is_given(answer, text) for answer, text in zip(right, texts, strict=True)]
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
    announced: list[dict[str, set[str]]] = [{} for _ in prompts]
    for prompt, of_cues in zip(prompts, announced, strict=True):
        for label in labels:
            for cue in find_announcements(label, prompt, [other for other in labels if other != label]):
                of_cues.setdefault(cue, set()).add(label)
    informed = informative_cues(announced, right)
    is_frequent = _frequency_finder(labels)
    return [
        bool(answer) and (any(of_cues.get(cue) == {answer} for cue in informed) or is_frequent(answer, prompt))
        for answer, of_cues, prompt in zip(right, announced, prompts, strict=True)
    ]


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
            return column_finding(values, text, is_met=False)
        choice, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
        limit = min(1 / len(counts) + tolerance, 1.0)
        p = min(1.0, len(counts) * float(stats.binomtest(count, total, limit, alternative="greater").pvalue))
        met = p > alpha
        expected = "" if met else f", proven to be above {limit:.3g} (p = {p:.2g})"
        message = f"the most frequent of {len(counts)} answers, {choice}, has the share {count / total:.4g}{expected}"
        return column_finding(values, message, is_met=met)

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
        positions = np.intersect1d(labels.present, texts.present)
        of_label = np.array(labels.at(positions, labels.labels), dtype=object)
        length = np.array([len(text) for text in texts.at(positions, texts.texts)], dtype=float)
        names = sorted(set(of_label.tolist()))
        checked, missing = len(positions), len(table) - len(positions)
        if not 2 <= len(names) <= FEW_LABELS:
            return Finding(
                message=f"there are {len(names):,} different labels, and 2 to {FEW_LABELS} are expected",
                checked=checked, missing=missing, is_met=False,
            )  # fmt: skip
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
        return Finding(message=text + expected, checked=checked, missing=missing, is_met=not proven)

    return find


def _auroc(own: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Return the probability that a length is above one of the others (ties count half), and the two-sided p-value."""
    if len(np.unique(np.concatenate([own, others]))) == 1:
        return 0.5, 1.0  # for lengths that are all equal SciPy 1.18 gives NaN
    result = stats.mannwhitneyu(own, others, alternative="two-sided", method="asymptotic")
    return float(result.statistic) / (len(own) * len(others)), float(result.pvalue)


_NOUN = (
    "(?:answer|option|choice|letter|response|label|class|category|alternative|one|key|solution|verdict|output|result)s?"
)

_TRUE = "(?:correct|right|true|best|gold|golden|expected|target|actual|intended|final|reference)"

# "right" and "best" need their noun, because they are words of any question.
_HEAD = re.compile(
    rf"(?<!\w)(?:{_TRUE}[ \t_-]+{_NOUN}|answers?|ans\.?|hint|key|correct|label|expected|target|gold|solution|verdict"
    r"|ground[ -]truth)(?!\w)",
    re.IGNORECASE,
)

# Words between the head and the answer: "the answer to this question would be option B".
_LINK = re.compile(
    rf"(?:{_NOUN}|is|was|are|be|would|will|should|being|equals|the|to|for|of|this|that|question|problem|item|here|number"
    rf"|{_TRUE})(?!\w)",
    re.IGNORECASE,
)

_MOST_LINKS = 8

# Marks and line ends, but no end of a sentence: in "Which is correct? A cat ..." another one begins.
_GAP = re.compile(r"[^\w?!.,;]{0,20}")

# A letter may be a word of its own: "Hint: A triangle has ...". It is an answer where a mark, a reason or the end follows.
_AFTER_LETTER = re.compile(r"\s*(?:[)\]}<>\"'*_`]|$|[.,:;!?](?!\w)|(?:because|since|as)\b)", re.MULTILINE)
_AFTER = re.compile(r"(?!\w|[.,]\d)")
_IS_RIGHT = re.compile(
    rf"[)\]}}\"'*`.]*\s+(?:is|was)\s+(?:(?P<named>(?:the\s+)?{_TRUE}\s+{_NOUN}|the\s+answer)|correct|right)(?!\w)",
    re.IGNORECASE,
)

_OPTION = re.compile(r"(?:(?:option|choice|answer|letter|response)\s*[(\[\"'*`]*|[(\[])$", re.IGNORECASE)
_CONDITION = re.compile(r"(?<!\w)(?:if|whether|when|unless|that|suppose)\s[^.?!\n]{0,20}$", re.IGNORECASE)

# The mark of the right one among choices.
_MARKED = re.compile(
    r"[).:\]][^\n]*?(?:[(\[{<*←-]+\s*(?:the\s+)?(?:correct|right)(?:\s+(?:answer|option|choice|one))?\s*[)\]}>*]*|[✓✔✅☑])\s*$",
    re.IGNORECASE | re.MULTILINE,
)

_TICKED = re.compile(r"(?:^|\n)[ \t]*(?:[✓✔✅☑]|[-*]?[ \t]*\[[xX]\])[ \t]*[(\[]?$")
_LINE_BEGIN = re.compile(r"(?:^|\n)[^\w\n]*$")
_MARKER = re.compile(r"(?<!\S)[(\[*]*([A-Za-z]|\d{1,2})[).:\]]")
_BEFORE_ITEM = re.compile(r"(?<!\S)(?:[(\[*]*(?:[A-Za-z]|\d{1,2})[).:\]*]+|[-*•])\s*$")

# Characters before an answer that are looked at.
_WINDOW = 60


def find_announcements(answer: str, prompt: str, others: Sequence[str] = ()) -> Iterator[str]:
    """Yield the words by which a prompt announces an answer. `others` are the answers that a list may name beside it.

    >>> list(find_announcements("B", "A) Rome B) Paris. Correct option: (B)"))
    ['correct option']
    >>> list(find_announcements("A", "Which is correct? A) Rome B) Paris. Answer A or B.", ["B"]))
    []
    """
    core = _core(answer)
    if not core or core.split()[0].casefold() not in prompt.casefold():
        return
    items = _list_items(prompt)
    for head in _HEAD.finditer(prompt):
        place = _answer_after(core, prompt, head.end())
        if place is not None and place.start() not in items and not _is_list(prompt, place.end(), others):
            yield " ".join(head[0].lower().split())
    for place in _pattern(core).finditer(prompt):
        before = prompt[max(0, place.start() - _WINDOW) : place.start()]
        right = _IS_RIGHT.match(prompt, place.end())
        if right and (right["named"] or _OPTION.search(before)) and not _CONDITION.search(before):
            yield "is right"
        elif _TICKED.search(before) or (_LINE_BEGIN.search(before) and _MARKED.match(prompt, place.end())):
            yield "marked"


def occurs_outside_of_choices(text: str, prompt: str) -> bool:
    """Return whether a text is in a prompt, elsewhere than as an item of a list of choices.

    >>> occurs_outside_of_choices("the red one", "Which? A) the red one B) the blue one")
    False
    """
    places = [place.start() for place in _pattern(text).finditer(prompt)]
    return any(not _BEFORE_ITEM.search(prompt[max(0, at - _WINDOW) : at]) for at in places)


def _core(answer: str) -> str:
    """Return an answer without brackets, quotes and a full stop: "(B)" and "B." are B."""
    return answer.strip("()[]{}<>\"'*` \t\n").rstrip(".,:;)]")


@lru_cache(maxsize=256)
def _pattern(core: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, core.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def _answer_after(core: str, prompt: str, at: int) -> re.Match[str] | None:
    """Return the answer after the head of an announcement; None where something else follows."""
    after = _AFTER_LETTER if len(core) == 1 and core.isalpha() else _AFTER
    for _ in range(_MOST_LINKS):
        gap = _GAP.match(prompt, at)
        assert gap is not None
        # An answer such as -5 begins with what separates others.
        for begin in range(at, gap.end() + 1):
            answer = _pattern(core).match(prompt, begin)
            if answer and after.match(prompt, answer.end()):
                return answer
        link = _LINK.match(prompt, gap.end())
        if link is None:
            return None
        at = link.end()
    return None


def _list_items(prompt: str) -> set[int]:
    """Return the places of the letters and numbers of choices: of two in a row, the second is the next one."""
    markers = [
        (marker.start(1), int(marker[1]) if marker[1].isdigit() else 1000 + ord(marker[1]))
        for marker in _MARKER.finditer(prompt)
    ]
    return {place for a, b in itertools.pairwise(markers) if b[1] == a[1] + 1 for place, _ in (a, b)}


def _is_list(prompt: str, end: int, others: Sequence[str]) -> bool:
    """Return whether another answer is named beside one: "A, B or C", "yes/no"."""
    cores = [core for core in map(_core, others) if core]
    return bool(cores) and _list_pattern(tuple(cores)).match(prompt, end) is not None


@lru_cache(maxsize=64)
def _list_pattern(cores: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, cores))
    return re.compile(
        rf"[^\w\n]{{0,3}}(?:[,/|]|[-–]|(?<!\w)(?:or|and|to)(?!\w))[^\w\n]{{0,3}}(?:(?:or|and)[^\w\n]{{1,3}})?(?:{names})(?!\w)",
        re.IGNORECASE,
    )


# Keys of multiple choice: letters, or the places of the choices.
_CHOICE = re.compile(r"\(?[A-J]\)?|\d")


def run_standard(samples: Sequence[Sample]) -> tuple[CheckResult, ...]:
    """Return the results of the standard set, as far as it applies: checks on answers and groups need them.

    Near duplicates, answers in prompts, lengths and large groups only warn: a dataset may have them for a reason.
    """
    table = Table(samples, names=("input",))
    checks = [expect_clean_text(), expect_no_duplicates(near=None), expect_no_duplicates(severity="warn")]
    checks += [expect_no_canaries(), expect_no_secrets()]
    if table.has("expected"):
        checks += [expect_one_answer_per_input(), expect_answer_not_in_prompt(severity="warn")]
        labels = set(table.column("expected").labels)
        if 2 <= len(labels) <= FEW_LABELS:
            checks += [expect_balanced_answer_key()] if all(map(_CHOICE.fullmatch, labels)) else []
            checks.append(expect_length_not_to_predict_label(severity="warn"))
    if table.has("group") and len(set(table.column("group").labels)) > 1:
        checks.append(expect_group_share_below(severity="warn"))
    return number_subjects([check.run(table) for check in checks])
