"""The samples to explain: by id, or by their scores in the latest run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_crucible.records.errors import SpecError, suggest

if TYPE_CHECKING:
    import numpy as np

KINDS = ("message", "paragraph", "sentence")
"""The built-in segments."""
# Options of sessions that send other units than those of one explanation.
_OTHER_RUNS = ("sample", "executor", "shard", "stop", "stages", "estimate", "resume", "tag")
_BY_SCORE = re.compile(r"(worst|changed):(.*)", re.DOTALL)


class ByScore(NamedTuple):
    """So many samples of each experiment, chosen by their scores in its latest run."""

    kind: str
    """`worst` or `changed`."""
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}"


def parse_choice(text: str) -> str | ByScore:
    """Return an id, or a choice by score. Raises SpecError for an invalid number of samples.

    >>> parse_choice("q17"), parse_choice("worst:3")
    ('q17', ByScore(kind='worst', number=3))
    """
    match = _BY_SCORE.fullmatch(text)
    if match is None:
        return text
    if not re.fullmatch("[1-9][0-9]{0,5}", match[2]):
        raise SpecError(f"--crucible-explain={text}: write a number of samples, such as {match[1]}:3")
    return ByScore(match[1], int(match[2]))


def check_options(values: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield pairs (is wrong, sentence) for options that an explanation cannot have."""
    segments, calls, texts = values["segments"], values["explain_calls"], values["explain"]
    if ":" not in segments and segments not in KINDS:
        hint = suggest(segments, KINDS, always="write message, paragraph, sentence or FILE:function")
        yield True, f"--crucible-segments={segments}: {hint}"
    yield calls < 1, f"--crucible-explain-calls={calls}: write a number of requests, such as 200"
    if not texts:
        return
    for text in texts:
        try:
            choice = parse_choice(text)
        except SpecError as error:
            yield True, str(error)
            continue
        if isinstance(choice, ByScore) and choice.kind == "changed":
            sentence = f"--crucible-explain={text} compares two arms; add --compare=NAME"
            yield not values["compare"], sentence
    for name in _OTHER_RUNS:
        flag = "crucible_stages" if name == "stages" else f"--crucible-{name}"
        remedy = "-o crucible_stages=" if name == "stages" else "leave it out"
        yield bool(values.get(name)), f"--crucible-explain cannot be combined with {flag}: {remedy}"


def check_ids(choices: Sequence[str | ByScore], ids: Sequence[str]) -> None:
    """Raise SpecError for an id that is not among those of the selected experiments."""
    for choice in choices:
        if isinstance(choice, str) and choice not in ids:
            # Letters in another order are the most common slip in an id.
            alike = [name for name in ids if sorted(name) == sorted(choice)]
            otherwise = f"the first is {ids[0]!r:.200}" if ids else "there is none"
            hint = suggest(choice, alike or ids[:1000], otherwise=otherwise)
            raise SpecError(
                f"--crucible-explain={choice:.200}: no selected experiment has a sample {choice!r:.200}; {hint}"
            )


def rank_samples(scores: Sequence[np.ndarray], kind: str, direction: str) -> list[int]:
    """Return the positions of samples with a score, from the worst or the most changed on; equal ones in their order.

    `scores` has those of the candidate first, NaN where there is none.

    >>> import numpy as np
    >>> rank_samples([np.array([0.5, np.nan, 0.1])], "worst", "higher")
    [2, 0]
    """
    import numpy as np  # not in sessions that explain nothing: options are read in each

    worst = scores[0] if direction == "higher" else -scores[0]
    keys = worst if kind == "worst" else -np.abs(scores[0] - scores[1])
    order = np.argsort(keys, kind="stable").tolist()
    return [position for position in order if not np.isnan(keys[position])]
