"""Weighted patterns as a guard: the data in `rules.toml`, and patterns of the user's own under a time limit."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, NamedTuple

import regex

from pytest_crucible.features.guards.forms import add_function_words, read_forms
from pytest_crucible.features.guards.guard import GuardContext, GuardSettings, ScoredText
from pytest_crucible.features.guards.long_texts import LONG, LongForm, Starts, drop_repeats, pack_starts
from pytest_crucible.features.guards.normalise import fold_marks, read_words
from pytest_crucible.features.guards.patterns import (
    FindPossible,
    Need,
    compile_linear,
    compile_possible,
    is_plain,
    list_words,
    read_needs,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import BackendError, SpecError
from pytest_crucible.records.outcomes import Span

VERSION = "5"
"""Changes with the forms in which texts are read; the data has a hash of its own."""
PATTERN_TIMEOUT_S = 0.1
"""For all of a user's own patterns on one text. Those of the package take time in proportion to the text."""
OWN = "own"
_WORD = re.compile(r"\w+")
# Letters of a word by which rules are looked up.
_LETTERS = 6
_PART = re.compile(r"<([a-z_]+)>")
FindPlaces = Callable[[str, Sequence[Need]], Sequence[int]]
"""Returns where a start stands that may be followed by what is needed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern: a literal start of a word, and what has to follow it."""

    category: str
    weight: float
    starts: tuple[str, ...]
    then: re.Pattern[str]
    needs: tuple[Need, ...]
    """What `then` needs to follow."""


@dataclass(frozen=True, slots=True)
class OwnPattern:
    """A pattern of the user's configuration."""

    pattern: regex.Pattern[str]
    weight: float
    category: str
    linear: Any = None
    """The same for RE2, whose time is proportional to the text; None where it cannot express the pattern."""


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """The rules, the heaviest first, by the words that they begin with."""

    rules: tuple[Rule, ...]
    digest: str
    by_start: Mapping[str, Sequence[int]]
    """Starts -> the numbers of their rules."""
    by_word: Mapping[str, Sequence[str]]
    """First letters of a word -> the starts that begin so."""
    lengths: tuple[int, ...]
    """The numbers of letters among the keys of `by_word`."""
    signs: Sequence[str]
    """Starts that begin with a sign."""
    packed: Starts
    """All starts, for long texts."""
    words: frozenset[str]
    """All words that rules spell out."""
    find_possible: FindPossible | None = None
    """Finds in a short text the rules that it may match; None without RE2."""


@functools.cache
def load_rules() -> RuleIndex:
    """Return the rules of the package."""
    source = (resources.files("pytest_crucible.features.guards") / "rules.toml").read_bytes()
    data = tomllib.loads(fold_marks(source.decode()))
    parts, weights = data["parts"], data["weights"]
    unsorted = [
        _read_rule(table, _PART.sub(lambda match: parts.get(match[1], match[0]), table["then"]), weights)
        for table in data["rules"]
    ]
    rules = tuple(sorted(unsorted, key=lambda rule: -rule.weight))
    find_possible = compile_possible([(rule.starts, rule.needs) for rule in rules])
    return replace(_index(rules, hashlib.sha256(source).hexdigest()), find_possible=find_possible)


def _read_rule(table: Mapping[str, Any], then: str, weights: Mapping[str, float]) -> Rule:
    return Rule(
        category=table["category"],
        weight=table.get("weight", weights[table["category"]]),
        starts=tuple(table["starts"]),
        then=re.compile(then),
        needs=read_needs(then),
    )


def _index(rules: tuple[Rule, ...], digest: str) -> RuleIndex:
    by_start: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        for start in rule.starts:
            by_start.setdefault(start, []).append(number)
    by_word: dict[str, list[str]] = {}
    for start in by_start:
        word = _WORD.match(start)
        by_word.setdefault(word[0][:_LETTERS] if word else "", []).append(start)
    signs = by_word.pop("", [])
    return RuleIndex(
        rules,
        digest,
        by_start,
        by_word,
        tuple(sorted(set(map(len, by_word)))),
        signs,
        pack_starts(tuple(by_start)),
        add_function_words(frozenset().union(*(list_words(rule.starts, rule.then.pattern) for rule in rules))),
    )


def match_rules(text: str, index: RuleIndex) -> ScoredText:
    """Return the heaviest rule that matches a text in any of its forms."""
    best, last = ScoredText(0.0), None
    for form in read_forms(text, index.words):
        # Rotating changes nothing in a text without Latin letters.
        match = None if form is last else _find_first(form, index, above=best.score)
        last = form
        if match is not None:
            rule = match.rule
            best = ScoredText(rule.weight, rule.category, (Span(rule.category, *_locate(text, form, match)),))
            if best.score >= index.rules[0].weight:
                break
    return best


class _FormMatch(NamedTuple):
    """The first place where a form is matched by a rule."""

    start: int
    end: int
    rule: Rule


def _find_first(form: str, index: RuleIndex, *, above: float) -> _FormMatch | None:
    """Return the heaviest rule with more weight than `above` that matches a form."""
    possible, find_places = _find_possible(form, index)
    for number in sorted(possible):
        rule = index.rules[number]
        if rule.weight <= above:
            return None
        places = [_find_place(form, rule, start, find_places) for start in possible[number]]
        exact = [place for place in places if place is not None]
        if exact:
            return _FormMatch(*min(exact), rule)
    return None


def _find_place(form: str, rule: Rule, start: str, find_places: FindPlaces) -> tuple[int, int] | None:
    """Return the first place where a form is matched by a rule with one of its starts."""
    ends = [place + len(start) for place in find_places(start, rule.needs)]
    match = next(filter(None, map(rule.then.match, itertools.repeat(form), ends)), None)
    return None if match is None else (match.start() - len(start), match.end())


def _find_possible(form: str, index: RuleIndex) -> tuple[Mapping[int, Sequence[str]], FindPlaces]:
    """Return the rules that a form may match, each with starts that it may have, and what finds the places of one."""
    if len(form) < LONG and index.find_possible is not None:
        numbers = index.find_possible(form)
        return {number: index.rules[number].starts for number in numbers}, lambda start, needs: drop_repeats(
            form, _search_start(form, start)
        )
    starts, find_places = _find_starts(form, index)
    possible: dict[int, list[str]] = {}
    for start in starts:
        for number in index.by_start[start]:
            possible.setdefault(number, []).append(start)
    return possible, find_places


def _find_starts(form: str, index: RuleIndex) -> tuple[Iterable[str], FindPlaces]:
    """Return the starts that a form has, and what finds the places of one."""
    if len(form) >= LONG:
        long = LongForm(form)
        return long.find_starts(index.packed), long.places
    places = _search_starts(form, index)
    return places, lambda start, needs: places[start]


def _search_starts(form: str, index: RuleIndex) -> dict[str, list[int]]:
    """Return the starts that a form has, with their places but for repeats."""
    # Looking for each start of each rule would take ten times as long.
    beginnings = {word[:length] for length in index.lengths for word in read_words(form)}
    starts = {start for word in index.by_word.keys() & beginnings for start in index.by_word[word]}
    starts.update(start for start in index.signs if start in form)
    places = {start: _search_start(form, start) for start in starts}
    return {start: drop_repeats(form, positions) for start, positions in places.items() if positions}


def _search_start(form: str, start: str) -> list[int]:
    """Return where a literal begins a word; one that begins with a sign may stand anywhere."""
    return [match.start() for match in _word_start(start).finditer(form)]


@functools.cache
def _word_start(start: str) -> re.Pattern[str]:
    """Return the pattern of a literal that begins a word; one that begins with a sign may stand anywhere."""
    # The look behind comes last: a pattern that begins with a literal is searched ten times as fast.
    apart = rf"(?<!\w{'.' * len(start)})" if start[0].isalnum() else ""
    return re.compile(re.escape(start) + apart, re.DOTALL)


def _locate(text: str, form: str, match: _FormMatch) -> tuple[int, int]:
    """Return where a rule matches a text as it is; the whole text where it only matches another form."""
    plain = fold_marks(text.lower())
    if len(plain) != len(text):
        return 0, len(text)
    if plain == form:
        return match.start, match.end
    of_rule = _find_first(plain, _index((match.rule,), digest=""), above=0.0)
    return (of_rule.start, of_rule.end) if of_rule else (0, len(text))


class RulesGuard:
    """Scores a text by the rules of the package and by patterns of the configuration."""

    def __init__(self, own: Sequence[OwnPattern] = ()) -> None:
        self._rules = load_rules()
        self._own = tuple(own)
        patterns = [(own.pattern.pattern, own.weight, own.category) for own in self._own]
        self.identity = f"rules {VERSION} {self._rules.digest[:16]} {patterns}"

    def find_spans(self, text: str) -> tuple[Span, ...]:
        """Return the place of the heaviest rule that matches."""
        return match_rules(text, self._rules).spans

    async def score(self, text: str) -> ScoredText:
        """Return the score; raises BackendError where the user's own patterns take too long."""
        match = match_rules(text, self._rules)
        for own in self._own:
            if own.weight > match.score:
                match = _match_own(own, text) or match
        return match


def _match_own(own: OwnPattern, text: str) -> ScoredText | None:
    try:
        if own.linear is not None and is_plain(text):
            match = own.linear.search(text)
        else:
            match = own.pattern.search(text, timeout=PATTERN_TIMEOUT_S)
    except TimeoutError:
        raise BackendError(
            f"the pattern {own.pattern.pattern!r:.80} took longer than {PATTERN_TIMEOUT_S:g} s on a text of {len(text):,} "
            "characters: make it simpler"
        ) from None
    return None if match is None else ScoredText(own.weight, own.category, (Span(own.category, *match.span()),))


def read_patterns(guard: str, value: Any) -> tuple[OwnPattern, ...]:
    """Return the setting `patterns`: texts, or tables with `pattern`, `weight` and `category`. Raises SpecError."""
    if not isinstance(value, list):
        raise SpecError(f"{guard}: patterns = {value!r:.60}: write a list of regular expressions")
    return tuple(_read_pattern(guard, entry) for entry in value)


def _read_pattern(guard: str, entry: Any) -> OwnPattern:
    table: Mapping[str, Any] = (
        {"pattern": entry} if isinstance(entry, str) else entry if isinstance(entry, dict) else {}
    )
    pattern, weight, category = table.get("pattern"), table.get("weight", 1.0), table.get("category", OWN)
    is_weight = isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight <= 1
    if (
        not isinstance(pattern, str)
        or not isinstance(category, str)
        or not is_weight
        or set(table) - {"pattern", "weight", "category"}
    ):
        raise SpecError(
            f"{guard}: pattern {entry!r:.80}: write a regular expression, or a table with pattern, weight (above 0, at most 1) "
            "and category"
        )
    return OwnPattern(_compile(guard, pattern), float(weight), category, compile_linear(pattern))


def _compile(guard: str, pattern: str) -> regex.Pattern[str]:
    try:
        return regex.compile(pattern, regex.IGNORECASE)
    except regex.error as error:
        reason = _place_of_error(pattern) or str(error)
        raise SpecError(f"{guard}: pattern {pattern!r} does not compile: {reason}") from None


def _place_of_error(pattern: str) -> str:
    """Return what is wrong with a pattern and where; the standard library names the place more exactly; else nothing."""
    try:
        re.compile(pattern)
    except re.error as error:
        return f"{error.msg.partition(',')[0]} at position {error.pos}"
    return ""


def open_rules(settings: GuardSettings, context: GuardContext) -> RulesGuard:
    """Return the guard; `patterns` are added to the rules of the package. Raises SpecError for one that does not compile."""
    return RulesGuard(read_patterns(settings.place, settings.options.get("patterns", [])))
