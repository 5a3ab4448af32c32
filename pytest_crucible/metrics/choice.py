"""Multiple choice: the letter that a reply chooses, and whether it is the expected one."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from pytest_crucible.metrics.choice_reading import read_choice
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import Reply, Sample


def choice_of(text: str, letters: str = "ABCD", options: Sequence[str] = ()) -> str | None:
    r"""Return the letter that a reply chooses, as a reader would read it; None if a reader could not decide.

    `options` are the options' texts: a reply without a letter that names exactly one of them chooses it.

    >>> choice_of("Let me think. The answer is (C)."), choice_of("Answer: A dog"), choice_of("b"), choice_of("A or B")
    ('C', None, 'B', None)
    >>> choice_of("Answer: a dog", options=["a cat", "a dog"])
    'B'
    """
    return read_choice(text, letters, options)


def chooses(letters: str = "ABCD", *, name: str = "chooses") -> Metric:
    """Return a metric that is true if the reply chooses the expected letter, or that of the expected number (0: the first).

    >>> chooses()(Reply(text="Answer: B"), Sample(id="1", input="", expected=1))
    True
    """

    @metric(name=name, kind="binary", version=f"2:{letters}")
    def right(reply: Reply, sample: Sample) -> bool | NotApplicable:
        """The reply chooses the expected letter."""
        expected = sample.expected
        if expected is None:
            return NO_EXPECTED
        if isinstance(expected, int) and 0 <= expected < len(letters):
            expected = letters[expected]
        if str(expected).strip().upper() not in letters:
            return NotApplicable(f"the expected answer {str(expected)[:20]!r} is not one of the letters {letters}")
        return choice_of(reply.text, letters, _options(sample, letters)) == str(expected).strip().upper()

    return right


choice_match = chooses(name="choice_match")
choice_match_10 = chooses(string.ascii_uppercase[:10], name="choice_match_10")


@metric(kind="binary", version="2")
def choice_given(reply: Reply, sample: Sample) -> bool:
    """A letter from A to D can be read out of the reply, right or wrong."""
    return choice_of(reply.text, options=_options(sample, "ABCD")) is not None


def _options(sample: Sample, letters: str) -> Sequence[str]:
    """Return the options' texts, where the sample has them: a list, or texts by letter, under `choices` or `options`."""
    options = sample.metadata.get("choices", sample.metadata.get("options"))
    if isinstance(options, Mapping):
        return [str(options.get(letter, "")) for letter in letters]
    return [str(option) for option in options] if isinstance(options, list | tuple) else ()
