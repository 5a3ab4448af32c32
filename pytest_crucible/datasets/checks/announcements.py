"""Announcements of an answer in a prompt: "Correct option: (B)", "the right choice is b", "(B) is the answer", "B) Rome [correct]".

The items of a list of choices announce nothing, nor does "Answer A, B or C".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

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
        found = _answer_after(core, prompt, head.end())
        if found is not None and found.start() not in items and not _is_list(prompt, found.end(), others):
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
    for _ in range(_MOST_LINKS):
        gap = _GAP.match(prompt, at)
        assert gap is not None
        # An answer such as -5 begins with what separates others.
        for begin in range(at, gap.end() + 1):
            found = _pattern(core).match(prompt, begin)
            if found and _ends_there(core, prompt, found.end()):
                return found
        link = _LINK.match(prompt, gap.end())
        if link is None:
            return None
        at = link.end()
    return None


def _ends_there(core: str, prompt: str, end: int) -> bool:
    after = _AFTER_LETTER if len(core) == 1 and core.isalpha() else _AFTER
    return after.match(prompt, end) is not None


def _list_items(prompt: str) -> set[int]:
    """Return the places of the letters and numbers of choices: of two in a row, the second is the next one."""
    markers = [(marker.start(1), _rank(marker[1])) for marker in _MARKER.finditer(prompt)]
    return {place for a, b in itertools.pairwise(markers) if b[1] == a[1] + 1 for place, _ in (a, b)}


def _rank(marker: str) -> int:
    return int(marker) if marker.isdigit() else 1000 + ord(marker)


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
