"""The grammar that `quality_target` and `ab_compare` share: a syntax tree, its printed form and its parser.

    target   = value relation number
    value    = term [by] | function "(" first [relation number] {"," term} [by ["," name]] ")"
    function = name [("@" | "^") number]
    first    = term | "mean_by_sample" "(" term ")"
    term     = metric ["." view] ["[" name [number] "]"]
    by       = "by" field {"&" field} ["within" field]
    field    = ( name {"." name} | '"' any text '"' ) ["(" cuts ")"]
    cuts     = number {"," number}
    relation = ">=" | "<=" | "==" | ">" | "<"

`by` and `within` are words only after a term, so a metric may have either name; `mean_by_sample` is one only before a
parenthesis. A dot may be part of a metric's name, so the parser leaves `metric.view` whole; `plan.design` splits it, because only
the experiment knows its metrics.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar, cast

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Relation
from pytest_crucible.records.datasets import By, Field, shortest
from pytest_crucible.records.errors import SpecError

RELATIONS = (">=", "<=", "==", ">", "<")
EXAMPLE = "for example 'accuracy >= 0.80'"
FIELD_EXAMPLE = """for example sex & race, age(25, 45), or "native country" in double quotes"""
CONDITION = "a condition belongs in rate(...), as in 'rate(score >= 0.75) >= 0.45'"
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][\w.\-]*)|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<draws>[@^][\w.]*)|(?P<relation>>=|<=|==|>|<)|(?P<bracket>\[[^\[\]]+\])|(?P<sign>[(),&])|(?P<quoted>\"[^\"]+\"))"
)
# A member of an ensemble may have any name, so only a last word that is a number counts as one.
_NUMBERED = re.compile(r"(?P<name>.*\S)\s+(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
BY_SAMPLE = "mean_by_sample"
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Bracket:
    """`[v1]`, a member of an ensemble, or `[attack 3]`, a numbered variant."""

    name: str
    number: float | None = None

    def __str__(self) -> str:
        return f"[{self.name}]" if self.number is None else f"[{self.name} {shortest(self.number)}]"


@dataclass(frozen=True, slots=True)
class Term:
    """A metric, perhaps with a view after a dot and a bracket."""

    metric: str
    bracket: Bracket | None = None

    def __str__(self) -> str:
        return f"{self.metric}{self.bracket or ''}"


@dataclass(frozen=True, slots=True)
class Condition:
    """`>= 0.75` within the parentheses of a function."""

    relation: Relation
    number: float

    def __str__(self) -> str:
        return f"{self.relation} {shortest(self.number)}"


@dataclass(frozen=True, slots=True)
class Value:
    """One number of an arm: a metric, or a function of metrics."""

    terms: tuple[Term, ...]
    function: str = ""
    """Empty for a metric alone, which means its mean."""
    condition: Condition | None = None
    """The condition on the first metric, such as `>= 0.75`."""
    by: By | None = None
    by_sample: bool = False
    """The condition is on the mean of each sample's replies: `mean_by_sample(accuracy) >= 0.8`."""
    counts: str = ""
    """The word after the fields: `macro` of `by task, macro`."""

    def __str__(self) -> str:
        first, *others = map(str, self.terms)
        first = f"{BY_SAMPLE}({first})" if self.by_sample else first
        condition = "" if self.condition is None else f" {self.condition}"
        by = ("" if self.by is None else f" {self.by}") + (f", {self.counts}" if self.counts else "")
        inner = ", ".join([f"{first}{condition}", *others]) + by
        return f"{self.function}({inner})" if self.function else inner


@dataclass(frozen=True, slots=True)
class Requirement:
    """A value and the requirement on it."""

    value: Value
    relation: Relation
    number: float

    def __str__(self) -> str:
        return f"{self.value} {self.relation} {shortest(self.number)}"


def parse_requirement(text: object, what: str) -> Requirement:
    """Parse a target. `what` names the target in messages. Raises SpecError with the position of the error."""
    parser = _Parser(text, what)
    value, relation = parser.value(), parser.relation()
    number = parser.number()
    if parser.kind == "relation":
        parser.refuse(CONDITION)
    parser.expect_end()
    return Requirement(value, relation, number)


def parse_value(text: object, what: str) -> Value:
    """Parse the measure of a comparison. Raises SpecError that points at the place."""
    parser = _Parser(text, what)
    value = parser.value()
    if parser.kind == "relation":
        parser.refuse("a comparison has no limit: leave out the relation and the number")
    parser.expect_end()
    return value


def parse_fields(text: object, what: str) -> By:
    """Parse fields without `by`: `sex & race within age(25, 45)`. Raises SpecError that points at the place."""
    parser = _Parser(text, what, FIELD_EXAMPLE)
    fields = parser.fields()
    parser.expect_end()
    return fields


class _Parser:
    """Reads a text token by token, from left to right, and never goes back."""

    def __init__(self, text: object, what: str, example: str = EXAMPLE) -> None:
        self._what, self._example = what, example
        self._text = text if isinstance(text, str) else ""
        self.kind, self._token = "", ""
        self._start = self._end = 0
        if not isinstance(text, str):
            raise SpecError(f"{what} is not a text: write it in quotes, {example}")
        self._advance()

    def value(self) -> Value:
        name = self._expect("name", "a metric")
        if self.kind == "draws":
            name += self._expect("draws", "a number of draws")
        elif self._token != "(":
            return Value((Term(name, self._bracket()),), by=self._by())
        self._sign("(")
        first, by_sample = self._first()
        condition = Condition(self.relation(), self.number()) if self.kind == "relation" else None
        terms = (first, *self._while(",", self._term))
        value = Value(terms, name, condition, self._by(), by_sample, self._counts())
        self._sign(")")
        return value

    def relation(self) -> Relation:
        return cast(Relation, self._expect("relation", "one of >=, <=, >, <, =="))

    def number(self) -> float:
        return float(self._expect("number", "a number"))

    def expect_end(self) -> None:
        if self.kind:
            self._refuse_place("expected nothing more")

    def refuse(self, sentence: str) -> NoReturn:
        raise SpecError(f"{self._what} cannot be read at {self._place()}: {sentence}")

    def _first(self) -> tuple[Term, bool]:
        """Return the first term, and whether it stands in `mean_by_sample(...)`."""
        name = self._expect("name", "a metric")
        if name != BY_SAMPLE or self._token != "(":
            return Term(name, self._bracket()), False
        self._advance()
        term = self._term()
        self._sign(")")
        return term, True

    def _term(self) -> Term:
        return Term(self._expect("name", "a metric"), self._bracket())

    def _bracket(self) -> Bracket | None:
        if self.kind != "bracket":
            return None
        inner = self._token[1:-1].strip()
        if not inner:
            self._refuse_place("expected a name in the brackets")
        self._advance()
        numbered = _NUMBERED.fullmatch(inner)
        return Bracket(numbered["name"], float(numbered["number"])) if numbered else Bracket(inner)

    def _by(self) -> By | None:
        if self._token != "by":
            return None
        self._advance()
        return self.fields()

    def _counts(self) -> str:
        if self._token != ",":
            return ""
        self._advance()
        return self._expect("name", "macro or micro")

    def fields(self) -> By:
        outer, self._example = self._example, FIELD_EXAMPLE
        by = self._fields()
        self._example = outer
        return by

    def _fields(self) -> By:
        fields = (self._field(), *self._while("&", self._field))
        if self._token != "within":
            return By(fields)
        self._advance()
        return By(fields, self._field())

    def _field(self) -> Field:
        quoted = self.kind == "quoted"
        name = self._expect("quoted" if quoted else "name", "a field of the samples").strip('"')
        if self.kind in ("name", "number", "quoted", "unknown") and self._token != "within":
            self._refuse_place("expected the end of a field")
        if self._token != "(":
            return Field(name)
        self._advance()
        cuts = (self.number(), *self._while(",", self.number))
        self._sign(")")
        return Field(name, cuts)

    def _while(self, sign: str, read: Callable[[], Item]) -> tuple[Item, ...]:
        items: list[Item] = []
        while self._token == sign:
            self._advance()
            items.append(read())
        return tuple(items)

    def _sign(self, sign: str) -> None:
        if self._token != sign:
            self._refuse_place(f"expected {sign!r}")
        self._advance()

    def _expect(self, kind: str, what: str) -> str:
        if self.kind != kind:
            self._refuse_place(f"expected {what}")
        token = self._token
        self._advance()
        return token

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        rest = self._text[self._end :]
        if match is None:
            self._start = self._end + len(rest) - len(rest.lstrip())
            # What is not a token is named by its first character, so that the message can point at it.
            self.kind, self._token = ("unknown", self._text[self._start]) if rest.strip() else ("", "")
            return
        self.kind, self._token = str(match.lastgroup), match[str(match.lastgroup)]
        self._start, self._end = match.start(str(match.lastgroup)), match.end()

    def _refuse_place(self, expected: str) -> NoReturn:
        self.refuse(f"{expected}, {self._example}")

    def _place(self) -> str:
        return f"{self._token!r} (character {self._start + 1})" if self.kind else "its end"
