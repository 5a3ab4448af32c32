"""The letter that a reply to a multiple-choice question chooses, as a reader would read it.

Each rule finds places where a reply states its choice; the place that comes last in the reply decides. A choice in a tag, in
`\\boxed{}` or under a key of JSON goes before all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_crucible.metrics.choice_cues import cue_patterns, letter_pattern
from pytest_crucible.metrics.choice_text import option_named, plain_text

# Stands for several letters at once, which do not count as a choice.
_SEVERAL = ""
_Place = tuple[int, str]
"""The position at which a choice ends in the reply, and its letter."""

# An article or a pronoun cannot precede these words, so that "A because" names the option.
_AFTER_LETTER = frozenset([
    "because", "since", "as", "for", "which", "due", "based", "but", "and", "or", "if", "when", "while", "with", "in", "on", "at",
    "by", "from", "per", "is", "would", "must", "seems", "rather", "than", "that",
])  # fmt: skip
_NEGATION = re.compile(
    r"(?:n't|\bnot|\bcannot|\bnever|\bunable\sto|\bwhether|\bif|\bunless|\bwhy|\bcould)(?:\s\w+){0,2}\s*$"
)
_MARKER = re.compile(r"^[\s\"'>#-]*\(?([A-Za-z])[).:](?=\s|$)", re.MULTILINE)
_INLINE_MARKER = re.compile(r"(?<!\w)\(?([A-Z])[).:](?=\s)")
_STRUCTURED = (
    r"<(?:final_?)?(?:answer|choice|option|final|b)>\s?(?P<content>[^<]{0,200})</",
    r"\\boxed\s?\{\s?(?P<content>[^{}]{0,200})\}",
    r"[\"'](?:final_?|correct_?)?(?:answer|choice|option|letter|label)[\"']\s?:\s?[\"'](?P<content>[^\"'\n]{0,200})[\"']",
)


def read_choice(text: str, letters: str, options: Sequence[str] = ()) -> str | None:
    """Return the letter; None if a reader could not decide. `options` are the options' texts, in the order of the letters.

    A reply without a letter that names exactly one of the options chooses it.
    """
    plain = plain_text(text)
    places = _find_structured(plain, letters) or list(_places(plain, letters))
    if places:
        return max(places)[1] or None
    return option_named(plain, letters, options)


def _find_structured(plain: str, letters: str) -> list[_Place]:
    """Return choices in tags, boxes and keys of JSON."""
    places = []
    for pattern in _STRUCTURED:
        for match in re.finditer(pattern, plain, re.IGNORECASE):
            content = match["content"].strip()
            letter = _whole(content, letters) or _leading(content, letters)
            if letter is not None:
                places.append((match.end(), letter))
    return places


def _places(plain: str, letters: str) -> Iterator[_Place]:
    """Yield the places in running text where a choice is stated."""
    yield from _alone(plain, letters)
    yield from _first_word(plain, letters)
    rules = cue_patterns(letters)
    for match in rules["declared"].finditer(plain):
        if (letter := _after_cue(plain, match, letters, strict=False)) is not None:
            yield match.end(), letter
    for match in rules["concluded"].finditer(plain):
        letter = None if _is_denied(plain, match.start()) else _after_cue(plain, match, letters, strict=True)
        if letter is not None:
            yield match.end(), letter
    for match in rules["judged"].finditer(plain):
        letter = match["letter"]
        is_marked = letter.isupper() or match["close"] or match["option"]
        if is_marked and not _is_denied(plain, match.start()):
            yield match.end(), letter.upper()


def _is_denied(plain: str, start: int) -> bool:
    return _NEGATION.search(plain[max(0, start - 30) : start].lower()) is not None


def _after_cue(plain: str, match: re.Match[str], letters: str, *, strict: bool) -> str | None:
    """Return the letter that a cue leads to, "" for several; None if it is an article, a pronoun or part of a formula."""
    letter, rest = match["letter"], plain[match.end() : match.end() + 200]
    if re.match(r"[)\]\"']*\s?\?", rest):
        return None
    if _names_another(rest, letters):
        return _SEVERAL
    # "so A (London) cannot be right"
    if strict and re.match(r"\)? \([^()]*\) ?\w", rest):
        return None
    word = re.match(r" ([A-Za-z']+)", rest)
    if word is None:
        return letter.upper()
    is_name = word[1].lower() in _AFTER_LETTER and not (strict and word[1].lower() in ("is", "would", "must", "seems"))
    if strict or letter.islower():
        return letter.upper() if is_name else None
    if letter in "AI":
        return letter if is_name or word[1][0].isupper() else None
    return letter


def _names_another(rest: str, letters: str) -> bool:
    """Return whether another letter follows in the text after a letter: `A or B`, `A, B`, `A/B`."""
    joint = r"[)\]\"']*\s?(?:,\s?(?:or|and)?|/|&|or|and|und|oder|o|y|ou|et|和|或|、)\s?(?:option\s)?[(\[\"']?"
    return (
        re.match(rf"{joint}[{re.escape(letters)}](?![A-Za-z0-9'])(?!\)?\s(?:is|are|was|has|would|does)\b)", rest)
        is not None
    )


def _whole(line: str, letters: str) -> str | None:
    """Return the letter of a text that is nothing else."""
    pattern = rf"[\W_]*(?:(?:option|choice|letter)[\W_]+)?([{re.escape(letters)}])[^\w+#]*_*"
    match = re.fullmatch(pattern, line, re.IGNORECASE)
    return match[1].upper() if match else None


def _leading(text: str, letters: str) -> str | None:
    """Return the letter that a text begins with, as in `B) Paris`, `B, because` and `B Paris`; "" for several."""
    match = re.match(rf"[\s\"'(\[>#-]*(?:option\s)?[(\[]?{letter_pattern(letters)}", text, re.IGNORECASE)
    if match is None:
        return None
    rest = text[match.end() :]
    if _names_another(rest, letters):
        return _SEVERAL
    if re.match(r"[\"']?[)\].:,]*\s?(?:is|are|was)\b(?!\s(?:the|correct|right|best))", rest):
        return None
    if re.match(r"[\"']?[)\].:,;!](?=\s|$)|\s-\s|\n", rest):
        return match["letter"].upper()
    word = re.match(r" ([A-Za-z']+)", rest)
    if word is None or match["letter"].islower():
        return None
    is_title = word[1][0].isupper() and len(word[1]) > 1 and len(rest.split()) < 4
    return match["letter"] if word[1] in ("because", "since", "as", "for") or is_title else None


def _alone(plain: str, letters: str) -> Iterator[_Place]:
    """Yield letters that are a whole line or sentence, if these agree; of a line with a marked option, only the last."""
    lines = [(match.end(), _whole(match[0], letters)) for match in re.finditer(r"[^\n]+", plain)]
    places = [(end, letter) for end, letter in lines if letter]
    sentences = re.findall(r"(?<=[.!;:?])\s[(\"']?([A-Z])[)\"']?\.?$", plain)
    places += [(len(plain), letter) for letter in sentences if letter in letters]
    if len({letter for _, letter in places}) == 1:
        yield from places
    elif places:
        yield len(plain), _SEVERAL
    last = plain.rpartition("\n")[2]
    if "\n" in plain and not _is_list(plain) and _MARKER.match(last) and (letter := _leading(last, letters)):
        yield len(plain), letter


def _first_word(plain: str, letters: str) -> Iterator[_Place]:
    if not _is_list(plain) and (letter := _leading(plain, letters)) is not None:
        yield 1, letter


def _is_list(plain: str) -> bool:
    """Return whether lines are marked with several letters: options, or a discussion of each."""
    at_lines = {letter.upper() for letter in _MARKER.findall(plain)}
    return len(at_lines) > 1 or len(set(_INLINE_MARKER.findall(plain))) > 2
