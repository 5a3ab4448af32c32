"""Searches recorded decisions: `kind = ambiguity_flagged and confidence < 0.7`.

    search     = both {"or" both}
    both       = one {"and" one}
    one        = "not" one | "(" search ")" | field relation value
    relation   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "contains"
    value      = a word or a number, or any text in quotation marks

A field that has no value, such as the confidence of a decision that states none, is unknown: no comparison with it is true, and
its negation is not true either (Kleene's logic of three values, as SQL's NULL).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.load_decisions import Chain, load_decisions, refuse_unknown
from pytest_crucible.features.provenance.observed import load_observed
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.store.runs import RunStore

EXAMPLE = "for example 'kind = ambiguity_flagged and confidence < 0.7'"
DEEPEST = 100
"""Levels of parentheses and of `not`: each is a call of this parser."""


@dataclass(frozen=True, slots=True)
class Found:
    """A decision that a search has found, and the reply that it belongs to."""

    chain: Chain
    decision: Decision


Search = Callable[[Chain, Decision], bool | None]
"""Returns whether a decision is meant; None where that is unknown."""


def find_decisions(store: RunStore, run: str, where: str = "") -> list[Found]:
    """Return the decisions of a run that a search finds; all of them for an empty one. `run` is a name for `find_run`.

    Events that were observed, such as `kind = checkpoint_saved`, are searched where their kind is named. Raises SpecError for an
    invalid search, and for a run whose decisions are not known.
    """
    full, words = store.find_run(run), set(re.findall(r"\w+", where))
    refuse_unknown(store, full)
    is_meant = parse_search(where) if where.strip() else None
    chains = (
        *load_decisions(store, full),
        *load_observed(store, full, [kind for kind in kinds.KINDS if kind in words]),
    )
    events = ((chain, event) for chain in chains for event in chain.decisions)
    return [Found(*event) for event in events if is_meant is None or is_meant(*event)]


def parse_search(text: str) -> Search:
    """Return what a search looks for. Raises SpecError that points at the place of an error."""
    parser = _Parser(text)
    search = parser.search(0)
    parser.expect_end()
    return search


# -- fields -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    values: Callable[[Chain, Decision], Sequence[Any]]
    """Its values: several for the kinds and the alternatives of a decision, none where it is unknown."""
    read: Callable[[str], Any] = str
    expected: str = "a text"


def _values_of(value: Any) -> Sequence[Any]:
    return () if value is None or value == "" else (value,)


def _number(get: Callable[[Chain, Decision], float | None]) -> _Field:
    return _Field(lambda chain, decision: _values_of(get(chain, decision)), _read_number, "a number")


def _text(get: Callable[[Chain, Decision], str]) -> _Field:
    return _Field(lambda chain, decision: (get(chain, decision),))


def _read_number(text: str) -> float:
    is_percent = text.endswith("%")
    return float(text.removesuffix("%")) / (100 if is_percent else 1)


def _read_flag(text: str) -> str:
    flag = {"true": "yes", "false": "no"}.get(text.lower(), text.lower())
    if flag not in ("yes", "no"):
        raise ValueError(text)
    return flag


FIELDS: Mapping[str, _Field] = {
    "kind": _Field(lambda chain, decision: kinds.kinds_of(decision)),
    "decision": _text(lambda chain, decision: decision.decision),
    "because": _text(lambda chain, decision: decision.because),
    "over": _Field(lambda chain, decision: decision.over or ("",)),
    "confidence": _number(lambda chain, decision: decision.confidence),
    "stage": _text(lambda chain, decision: decision.stage),
    "claim": _Field(lambda chain, decision: ("yes" if decision.is_claim else "no",), _read_flag, "yes or no"),
    "number": _number(lambda chain, decision: decision.number),
    "parent": _number(lambda chain, decision: decision.parent),
    "revises": _number(lambda chain, decision: decision.revises),
    "calls": _number(lambda chain, decision: decision.calls),
    "sample": _text(lambda chain, decision: chain.sample),
    "arm": _text(lambda chain, decision: chain.arm),
    "experiment": _text(lambda chain, decision: chain.experiment),
    "variant": _text(lambda chain, decision: chain.variant),
    # As headings count: from 1.
    "repeat": _number(lambda chain, decision: chain.repeat + 1),
}
"""The fields of a search by name."""


# -- the parser -------------------------------------------------------------------------------------------------------

_RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": lambda value, part: part.casefold() in value.casefold(),
}
_TOKEN = re.compile(r"""\s*+(?:(?P<quoted>"[^"]*+"|'[^']*+')|(?P<sign>!=|<=|>=|[=<>()])|(?P<word>[^\s=<>!()"']++))""")
_WORDS = frozenset({"and", "or", "not", "contains"})


class _Parser:
    """Reads a search from left to right, and never goes back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._kind, self._token, self._start, self._end = "", "", 0, 0
        self._advance()

    def search(self, depth: int) -> Search:
        """Return the parts between `or`."""
        parts = [self._both(depth)]
        while self._is_word("or"):
            self._advance()
            parts.append(self._both(depth))
        return _any_of(parts)

    def expect_end(self) -> None:
        if self._kind:
            self._refuse("expected and, or, or its end")

    def _both(self, depth: int) -> Search:
        parts = [self._one(depth + 1)]
        while self._is_word("and"):
            self._advance()
            parts.append(self._one(depth + 1))
        return _all_of(parts)

    def _one(self, depth: int) -> Search:
        if depth > DEEPEST:
            self._refuse(f"expected at most {DEEPEST} levels of parentheses and not")
        if self._is_word("not"):
            self._advance()
            return _not(self._one(depth + 1))
        if self._token == "(" and self._kind == "sign":
            self._advance()
            inner = self.search(depth)
            if self._token != ")":
                self._refuse("expected and, or, or ')'")
            self._advance()
            return inner
        return self._comparison()

    def _comparison(self) -> Search:
        name, field = self._field()
        relation = self._token
        if (self._kind == "quoted") or relation not in _RELATIONS:
            self._refuse("expected one of =, !=, <, <=, >, >=, contains")
        self._advance()
        if self._kind not in ("word", "quoted"):
            self._refuse(f"expected {field.expected}")
        value = self._value(name, field, relation)
        self._advance()
        return _compare(field, relation, value)

    def _field(self) -> tuple[str, _Field]:
        if self._kind != "word" or self._token in _WORDS:
            self._refuse("expected a field")
        name = self._token
        if name not in FIELDS:
            hint = suggest(name, FIELDS, always=f"the fields are {', '.join(FIELDS)}")
            raise SpecError(f"--where has the field {name!r}: {hint}")
        self._advance()
        return name, FIELDS[name]

    def _value(self, name: str, field: _Field, relation: str) -> Any:
        token = self._token[1:-1] if self._kind == "quoted" else self._token
        if relation == "contains":
            if field.read is _read_number:
                self._refuse(f"{name} is a number, and contains nothing: expected =, !=, <, <=, > or >=")
            return token
        try:
            value = field.read(token)
        except ValueError:
            self._refuse(f"expected {field.expected}")
        if name == "kind" and relation in ("=", "!="):
            _check_kind(value)
        return value

    def _is_word(self, word: str) -> bool:
        return self._kind == "word" and self._token == word

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        if match is None:
            rest = self._text[self._end :]
            self._start = self._end + len(rest) - len(rest.lstrip())
            self._kind, self._token = ("unknown", rest.lstrip()[0]) if rest.strip() else ("", "")
            return
        self._kind = str(match.lastgroup)
        self._token = match[self._kind]
        self._start, self._end = match.span(self._kind)

    def _refuse(self, expected: str) -> NoReturn:
        place = f"{self._token!r:.60} (character {self._start + 1})" if self._kind else "its end"
        raise SpecError(f"--where cannot be read at {place}: {expected}, {EXAMPLE}")


def _check_kind(name: str) -> None:
    """Refuse a kind that is nearly one of the known ones. Others may be words of the model."""
    names = (*kinds.KINDS, kinds.DEFAULT, kinds.UNCLOSED)
    hint = suggest(name, names)
    if name not in names and hint:
        raise SpecError(f"--where has the kind {name!r}: {hint} a kind of the model's own is found by contains")


# -- three values -----------------------------------------------------------------------------------------------------


def _compare(field: _Field, relation: str, value: Any) -> Search:
    is_true = _RELATIONS["=" if relation == "!=" else relation]

    def compare(chain: Chain, decision: Decision) -> bool | None:
        values = field.values(chain, decision)
        if not values:
            return None
        is_any = any(is_true(each, value) for each in values)
        return not is_any if relation == "!=" else is_any

    return compare


def _any_of(parts: Sequence[Search]) -> Search:
    def search(chain: Chain, decision: Decision) -> bool | None:
        results = [part(chain, decision) for part in parts]
        return True if True in results else None if None in results else False

    return search if len(parts) > 1 else parts[0]


def _all_of(parts: Sequence[Search]) -> Search:
    def search(chain: Chain, decision: Decision) -> bool | None:
        results = [part(chain, decision) for part in parts]
        return False if False in results else None if None in results else True

    return search if len(parts) > 1 else parts[0]


def _not(part: Search) -> Search:
    def search(chain: Chain, decision: Decision) -> bool | None:
        result = part(chain, decision)
        return None if result is None else not result

    return search
