"""Multiple choice: the letter that a reply chooses, and whether it is the expected one."""

from __future__ import annotations

import re
import string

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import Reply, Sample

_LETTER = r"(?:\*\*|__)?[\(\[]?(?P<letter>[{letters}])(?![\w'\u2019])[\)\]]?"
# Name, pattern, and whether the first match counts instead of the last; the first rule with a match decides.
RULES = (
    ("whole reply", r"\A\W*{letter}\W*\Z", False),
    ("boxed", r"\\boxed\{{(?:\\text\{{)?\s?{letter}", False),
    (
        "declared",
        r"\b(?i:(?:final\s|correct\s|best\s|right\s)?(?:answer|option|choice))(?i:\sis)?\s?[:=]?\s?(?i:option\s|choice\s)?{letter}",
        False,
    ),
    (
        "declared after",
        r"(?<![\w'\u2019]){letter}\s(?i:is|seems|must\sbe)\s(?i:the\s)?(?i:correct|right|best|answer)",
        False,
    ),
    ("first thing said", r"\A\s{{0,9}}{letter}(?=[\s.,:;\)]|\Z)(?!\s[a-z])", True),
    ("alone on the last line", r"(?:\A|\n)\W{{0,9}}{letter}\W{{0,9}}\Z", True),
)
_BLANKS = re.compile(r"[ \t]+")


def choice_of(text: str, letters: str = "ABCD") -> str | None:
    r"""Return the letter that a reply chooses; None if no rule applies: prose is not guessed at.

    The rules are RULES. Letters are capitals, so that the article "a" does not count; a lower-case letter alone does.

    >>> choice_of("Let me think. The answer is (C)."), choice_of("A dog is an animal."), choice_of("b")
    ('C', None, 'B')
    """
    # Bold markers are removed, so that **B** is a letter like any other.
    plain = _BLANKS.sub(" ", text.strip()).replace("**", "")
    # 4: <= Only a reply that is hardly more than the letter may be in lower case: "a" is an article elsewhere.
    if len(plain) <= 4:
        plain = plain.upper()
    for _, rule, first in RULES:
        pattern = rule.format(letter=_LETTER.format(letters=letters))
        choices = [match["letter"] for match in re.finditer(pattern, plain)]
        if choices:
            return str(choices[0] if first else choices[-1])
    return None


def chooses(letters: str = "ABCD", *, name: str = "chooses") -> Metric:
    """Return a metric that is true if the reply chooses the expected letter, or that of the expected number (0: the first).

    >>> chooses()(Reply(text="Answer: B"), Sample(id="1", input="", expected=1))
    True
    """

    @metric(name=name, kind="binary", version=f"1:{letters}")
    def right(reply: Reply, sample: Sample) -> bool | NotApplicable:
        """The reply chooses the expected letter."""
        expected = sample.expected
        if expected is None:
            return NO_EXPECTED
        if isinstance(expected, int) and 0 <= expected < len(letters):
            expected = letters[expected]
        if str(expected).strip().upper() not in letters:
            return NotApplicable(f"the expected answer {str(expected)[:20]!r} is not one of the letters {letters}")
        return choice_of(reply.text, letters) == str(expected).strip().upper()

    return right


choice_match = chooses(name="choice_match")
choice_match_10 = chooses(string.ascii_uppercase[:10], name="choice_match_10")


@metric(kind="binary", version="1")
def choice_given(reply: Reply, sample: Sample) -> bool:
    """A letter from A to D can be read out of the reply, right or wrong."""
    return choice_of(reply.text) is not None
