"""Words that a pattern needs, and those that it may match, read from it as the standard library parses it; and RE2.

Most places of a text need not be tried, because the words that have to follow are not there. RE2 (extra `[guard]`) reads a text
once for all rules, and in time that is proportional to its length for any pattern. It is used where its verdicts are equal.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

# The only way to read a pattern that the standard library has.
_PARSER: Any = vars(re)["_parser"]
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
# Stands for what is in no word of the vocabulary: signs, blanks and any letters.
_BREAK = "\0"

_Items = Sequence[tuple[Any, Any]]


class Need(NamedTuple):
    """Words of which one has to follow, and how soon."""

    words: frozenset[str]
    """Beginnings of words, one of which has to follow; a blank at the end is the end of a word, whatever sign is there."""
    within: int
    """The number of characters before that word, at most."""


def read_needs(pattern: str) -> tuple[Need, ...]:
    r"""Return what words each match of a pattern has, in this order. Words at its very start are left out.

    >>> [(sorted(need.words), need.within) for need in read_needs(r"\W{1,3}(?:all\W{1,3})?(?:prompts?|rules)\b.{0,9}\bnow")]
    [(['prompt', 'rules '], 9), (['now'], 25)]
    """
    items = list(_PARSER.parse(pattern))
    needs = list(_read_sequence(items, is_apart=False, before=0))
    # What is looked ahead for at the end comes after all else.
    if items and str(items[-1][0]) == "ASSERT" and items[-1][1][0] == 1:
        others = items[:-1]
        needs += _read_sequence(list(items[-1][1][1]), is_apart=_end_apart(others, False), before=_longest(others))
    return tuple(needs)


def _read_sequence(items: _Items, *, is_apart: bool, before: int) -> Iterator[Need]:
    """Yield the needs of a sequence. `is_apart`: a letter that follows would begin a word; `before`: what may come before it."""
    for k, item in enumerate(items):
        beginnings = _begin(items[k:]) if is_apart else None
        if beginnings and all(text[0].isalpha() for text in beginnings):
            yield Need(frozenset(beginnings), before)
        else:
            yield from _read_sequence(_inside(item), is_apart=is_apart, before=before)
        is_apart = _leaves_apart(item, is_apart)
        before += _longest([item])


def _longest(items: _Items) -> int:
    """Return how long a match of a sequence is, at most."""
    longest: int = _PARSER.SubPattern(None, items).getwidth()[1]
    return longest


def _inside(item: tuple[Any, Any]) -> _Items:
    """Return the sequence that a group or a repeat has to match; of other parts none."""
    name, value = str(item[0]), item[1]
    if name == "SUBPATTERN":
        return list(value[3])
    return list(value[2]) if name in _REPEATS and value[0] else []


def _begin(items: _Items, *, ends_word: bool = False) -> list[str] | None:
    """Return texts of which each match begins with one; None where no letter is certain.

    A blank at the end of a text stands for the end of a word, which `ends_word` says of the end of the items.
    """
    beginnings = [""]
    for k, item in enumerate(items):
        name, value = str(item[0]), item[1]
        if name == "LITERAL":
            beginnings = [text + chr(value) for text in beginnings]
            continue
        if _ends_word(item):
            return _all_begun([_end(text) for text in beginnings])
        inner = _begin_part(item, ends_word=_ends_word(items[k + 1]) if k + 1 < len(items) else ends_word)
        if None not in inner:
            beginnings = [
                text + more for text, more in product(beginnings, [text for part in inner for text in part or ()])
            ]
        return _all_begun(beginnings)
    return _all_begun([_end(text) for text in beginnings] if ends_word else beginnings)


def _begin_part(item: tuple[Any, Any], *, ends_word: bool) -> list[list[str] | None]:
    """Return, for each alternative of a part, how its matches begin."""
    name, value = str(item[0]), item[1]
    if name == "BRANCH":
        return [_begin(list(branch), ends_word=ends_word) for branch in value[1]]
    if name == "IN" and all(str(kind) == "LITERAL" for kind, _ in value):
        return [[chr(code)] for _, code in value]
    # After one of several rounds comes the next.
    is_last = ends_word and name == "SUBPATTERN"
    return [_begin(_inside(item), ends_word=is_last) if _inside(item) else None]


def _all_begun(beginnings: list[str]) -> list[str] | None:
    return beginnings if all(beginnings) else None


def _ends_word(item: tuple[Any, Any]) -> bool:
    """Return whether no letter follows a letter before this part."""
    name, value = str(item[0]), item[1]
    if name in _REPEATS and value[0]:
        return len(value[2]) == 1 and _ends_word(value[2][0])
    return (name == "AT" and str(value) == "AT_BOUNDARY") or (name == "IN" and _is_no_letter(value))


def _is_no_letter(value: _Items) -> bool:
    return [str(code) for _, code in value] == ["CATEGORY_NOT_WORD"]


def _end(text: str) -> str:
    """Return a text that ends with a whole word; punctuation does not end a word."""
    return f"{text} " if text[-1:].isalnum() else text


def _leaves_apart(item: tuple[Any, Any], is_apart: bool) -> bool:
    """Return whether after a part a letter would begin a word."""
    name, value = str(item[0]), item[1]
    if name == "LITERAL":
        return not (chr(value).isalnum() or chr(value) == "_")
    if name == "AT":
        return str(value) == "AT_BOUNDARY" or is_apart
    if name == "IN":
        return _is_no_letter(value)
    if name in ("ASSERT", "ASSERT_NOT"):
        return is_apart
    if name == "BRANCH":
        return all(_end_apart(list(branch), is_apart) for branch in value[1])
    if name in _REPEATS and not value[0]:
        return is_apart and _end_apart(list(value[2]), is_apart)
    return bool(_inside(item)) and _end_apart(_inside(item), is_apart)


def _end_apart(items: _Items, is_apart: bool) -> bool:
    for item in items:
        is_apart = _leaves_apart(item, is_apart)
    return is_apart


def list_words(starts: Sequence[str], then: str) -> frozenset[str]:
    """Return the words that a pattern spells out, behind literals that it may begin with.

    >>> sorted(list_words(["ignor"], r"(?:e|ing)?\\W{1,3}(?:all\\W{1,3})?rules?"))
    ['all', 'ignor', 'ignore', 'ignoring', 'rule', 'rules']
    """
    words: set[str] = set()
    ends = _read_words(_PARSER.parse(then), list(starts), words)
    for text in ends:
        words.update(_split(text))
    return frozenset(words)


def _read_words(items: _Items, begun: list[str], words: set[str]) -> list[str]:
    """Return the texts that a sequence may leave unfinished; finished words are added to the set."""
    for item in items:
        texts = [text + more for text, more in product(begun, _read_word_part(item, words))]
        if any(_BREAK in text for text in texts):
            words.update(word for text in texts for word in _split(text.rpartition(_BREAK)[0]))
            # Behind a break only what comes after it goes on.
            texts = [_BREAK + text.rpartition(_BREAK)[2] if _BREAK in text else text for text in texts]
        begun = list(dict.fromkeys(texts))
    return begun


def _read_word_part(item: tuple[Any, Any], words: set[str]) -> list[str]:
    name, value = str(item[0]), item[1]
    if name == "LITERAL":
        return [chr(value)]
    if name == "BRANCH":
        return [text for branch in value[1] for text in _read_words(branch, [""], words)]
    if name == "SUBPATTERN":
        return _read_words(value[3], [""], words)
    if name == "IN" and all(str(kind) == "LITERAL" for kind, _ in value):
        return [chr(code) for _, code in value]
    if name in _REPEATS:
        return [*([] if value[0] else [""]), *_read_words(value[2], [""], words)]
    if name in ("ASSERT", "ASSERT_NOT"):
        _read_words(value[1], [_BREAK], words)
    return [_BREAK]


def _split(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)


@functools.cache
def load_re2() -> Any:
    """Return the module of google-re2; None where it is not installed."""
    try:
        import re2
    except ImportError:
        return None
    return re2


def _re2_options(re2: Any, **settings: Any) -> Any:
    options = re2.Options()
    # Errors are raised; without this they are written to standard error, too.
    for name, value in {"log_errors": False, **settings}.items():
        setattr(options, name, value)
    return options


FindPossible = Callable[[str], Sequence[int]]
"""Returns the numbers of the rules that a text may match."""
_RULES_BYTES = 64 << 20  # for the states of all rules together; on 4,000 texts they took 3 MB


def compile_possible(rules: Sequence[tuple[Sequence[str], Sequence[Need]]]) -> FindPossible | None:
    """Return what finds the rules of which a text has a start and then all needed words; None without RE2.

    Every text that matches a rule has them, so that only these rules need be tried.
    """
    re2 = load_re2()
    if re2 is None:
        return None
    possible = re2.Set.SearchSet(_re2_options(re2, max_mem=_RULES_BYTES))
    for starts, needs in rules:
        possible.Add("(?s)" + ".*".join(_one_of(re2, words) for words in (starts, *(need.words for need in needs))))
    possible.Compile()
    return lambda text: possible.Match(text.encode("utf-8", "replace")) or ()


def _one_of(re2: Any, words: Iterable[str]) -> str:
    return f"(?:{'|'.join(_begin_word(word) + re2.escape(word.rstrip()) for word in sorted(words))})"


def _begin_word(word: str) -> str:
    # RE2 knows only ASCII's word boundaries: before a letter of ASCII they are wherever Unicode has one.
    return r"\b" if word[0].isascii() and word[0].isalnum() else ""


# On texts of these characters \w, \s and $ mean the same in RE2 and in `regex`.
_PLAIN_TEXT = re.compile(r"[\x00-\x0a\x0c-\x1b\x20-\x7f]*(?<!\n)", re.DOTALL)
_SAME_PARTS = {"ANY", "BRANCH", "LITERAL", "NOT_LITERAL"}
_SAME_PLACES = {"AT_BEGINNING", "AT_BOUNDARY", "AT_END"}


def is_plain(text: str) -> bool:
    """Return whether patterns that `compile_linear` returns find the same in this text as those of `regex`."""
    return _PLAIN_TEXT.fullmatch(text) is not None


def compile_linear(pattern: str) -> Any:
    """Return a pattern, whatever the case of letters, for RE2; None without RE2, and for a pattern of more than it can express."""
    re2 = load_re2()
    if re2 is None or not _is_same(pattern):
        return None
    try:
        return re2.compile(pattern, _re2_options(re2, case_sensitive=False))
    except re2.error:
        return None


def _is_same(pattern: str) -> bool:
    """Return whether a pattern has only parts that mean the same in RE2 and in `regex`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            parsed = _PARSER.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return parsed.state.flags == int(re.UNICODE) and pattern.isascii() and all(map(_is_same_part, parsed))


def _is_same_part(item: tuple[Any, Any]) -> bool:
    name, value = str(item[0]), item[1]
    if name == "AT":
        return str(value) in _SAME_PLACES
    if name == "IN":
        # Within a set `regex` reads [:alpha:] as a class.
        return all(str(kind) != "LITERAL" or inner != ord("[") for kind, inner in value)
    if name == "LITERAL":
        # In `regex` a brace may begin the errors that a match may have, as in {e<=1}.
        return bool(value != ord("{"))
    if name == "BRANCH":
        return all(_is_same_part(part) for branch in value[1] for part in branch)
    if name == "SUBPATTERN":
        return not (value[1] or value[2]) and all(map(_is_same_part, value[3]))
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        # Of an empty round RE2 makes other captures.
        return value[2].getwidth()[0] > 0 and all(map(_is_same_part, value[2]))
    return name in _SAME_PARTS
