"""Constrained decoding: the tokens that a reply may continue with, so that its text belongs to a language.

A language is an expression over bytes. While a reply grows, `Constraint` follows all ways in which its text can be read, and
allows a token where one of them can still end within the tokens that are left:

    node = sequence(literal('{"n": '), repeat(DIGITS, 1, 3), literal("}"))
    constraint = Constraint(node, token_texts, end=eos)
    constraint.find_mask(room=20)    # over the vocabulary
    constraint.advance(token)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Bytes:
    """One byte of a set."""

    values: frozenset[int]


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Parts that follow each other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several expressions."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """An expression several times; `most` None is without end."""

    part: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Reference:
    """An expression by its name, which may contain itself."""

    name: str
    resolve: Callable[[str], Node]

    def __hash__(self) -> int:
        return hash((self.name, self.resolve))


Node: TypeAlias = Bytes | Concatenation | Choice | Repeat | Reference
Stack: TypeAlias = tuple[Node, ...]
"""The nodes that remain to be read."""

_NOTHING = Concatenation(())


def literal(text: str) -> Node:
    return Concatenation(tuple(Bytes(frozenset((byte,))) for byte in text.encode()))


def characters(text: str) -> Bytes:
    """Return the expression of one of these ASCII characters."""
    return Bytes(frozenset(text.encode("ascii")))


def sequence(*parts: Node) -> Node:
    return Concatenation(parts)


def choice(parts: Iterable[Node]) -> Node:
    return Choice(tuple(parts))


def optional(part: Node) -> Node:
    return Choice((part, _NOTHING))


def repeat(part: Node, least: int = 0, most: int | None = None) -> Node:
    return Repeat(part, least, most)


def shortest(node: Node) -> float:
    """Return the number of bytes of the shortest text; infinite for an expression without texts.

    >>> shortest(sequence(literal("ab"), repeat(characters("01"), 2, 5)))
    4
    """
    lengths, parts = dict[Reference, float](), dict[Reference, Node]()
    waiting = list(_references(node))
    while waiting:
        if (name := waiting.pop()) not in parts:
            lengths[name], parts[name] = math.inf, name.resolve(name.name)
            waiting += _references(parts[name])
    # A name's parts come after it, so that lengths are known after one round, unless a name contains itself.
    is_known = False
    while not is_known:
        is_known = True
        for name in reversed(parts):
            if (length := _length(parts[name], lengths)) != lengths[name]:
                lengths[name], is_known = length, False
    return _length(node, lengths)


def _references(node: Node) -> Iterator[Reference]:
    match node:
        case Reference():
            yield node
        case Concatenation() | Choice():
            for part in node.parts:
                yield from _references(part)
        case Repeat():
            yield from _references(node.part)


def _length(node: Node, lengths: Mapping[Reference, float]) -> float:
    match node:
        case Bytes():
            return 1 if node.values else math.inf
        case Concatenation():
            return sum(_length(part, lengths) for part in node.parts)
        case Choice():
            return min((_length(part, lengths) for part in node.parts), default=math.inf)
        case Repeat():
            return node.least * _length(node.part, lengths) if node.least else 0
        case Reference():
            return lengths[node]


class Language:
    """An expression, with the tokens that can spell its texts. Shared by all replies that it constrains."""

    def __init__(self, node: Node, tokens: Sequence[bytes], end: int) -> None:
        """`tokens` are the bytes of each id, and an empty one is never used; `end` is the id that ends a reply."""
        self.start = _expand((node,))
        self.end = end
        self._tokens = [(token, text) for token, text in enumerate(tokens) if text]
        self._texts = dict(self._tokens)
        self._longest = max((len(text) for _, text in self._tokens), default=0)
        self._size = max(len(tokens), end + 1)
        self._shortest = functools.cache(shortest)
        self._next = functools.cache(self._find_next)

    def least_tokens(self) -> float:
        """Return a number of tokens within which a reply can always end, with its end token."""
        return self.left(self.start) + 1

    def left(self, stacks: frozenset[Stack]) -> float:
        """Return the bytes that the shortest end needs."""
        return min((sum(map(self._shortest, stack)) for stack in stacks), default=math.inf)

    def find_mask(self, stacks: frozenset[Stack], room: int) -> NDArray[np.bool_]:
        """Return the tokens after which the text can still end within `room` tokens, this one included."""
        tokens, lefts, can_end = self._next(frozenset(map(self._without_far_ends, stacks)))
        mask = np.zeros(self._size, np.bool_)
        # After this token its shortest end follows, of one byte a token at most, and the end token.
        mask[tokens[lefts + 2 <= room]] = True
        mask[self.end] = can_end
        return mask

    def _without_far_ends(self, stack: Stack) -> Stack:
        """Return a stack that allows the same tokens, and is the same at many places of a long text."""
        return tuple(
            replace(part, most=None)
            if isinstance(part, Repeat) and part.most is not None and part.most > self._longest
            else part
            for part in stack
        )

    def _find_next(self, stacks: frozenset[Stack]) -> tuple[NDArray[np.int64], NDArray[np.float64], bool]:
        pairs = [(token, self.left(after)) for token, text in self._tokens if (after := read(stacks, text))]
        tokens = np.array([token for token, _ in pairs], np.int64)
        return tokens, np.array([left for _, left in pairs], np.float64), () in stacks

    def text_of(self, token: int) -> bytes:
        """Return the bytes of a token; none of the end token and of those that are never used."""
        return self._texts.get(token, b"")


class Constraint:
    """The language of one reply, and how far the reply has come."""

    def __init__(self, language: Language) -> None:
        self._language, self._stacks = language, language.start

    def find_mask(self, room: int) -> NDArray[np.bool_]:
        """Return the tokens that may come next, where `room` tokens are left."""
        return self._language.find_mask(self._stacks, room)

    def advance(self, token: int) -> None:
        self._stacks = read(self._stacks, self._language.text_of(token))


def read(stacks: frozenset[Stack], text: bytes) -> frozenset[Stack]:
    """Return what can follow after a text; empty if the text does not fit."""
    for byte in text:
        stacks = _read_byte(stacks, byte)
        if not stacks:
            break
    return stacks


@functools.lru_cache(maxsize=1 << 16)
def _read_byte(stacks: frozenset[Stack], byte: int) -> frozenset[Stack]:
    ends: set[Stack] = set()
    for stack in stacks:
        if stack and isinstance(stack[0], Bytes) and byte in stack[0].values:
            ends |= _expand(stack[1:])
    return frozenset(ends)


@functools.lru_cache(maxsize=1 << 16)
def _expand(stack: Stack) -> frozenset[Stack]:
    """Return the stacks that a stack stands for, each empty or with a byte to read first."""
    waiting, expanded, ends = [stack], set[Stack](), set[Stack]()
    while waiting:
        stack = waiting.pop()
        if not stack or isinstance(stack[0], Bytes):
            ends.add(stack)
        # A name that leads back to itself stands for nothing more the second time.
        elif stack not in expanded:
            expanded.add(stack)
            waiting += _replace_first(stack[0], stack[1:])
    return frozenset(ends)


def _replace_first(first: Node, rest: Stack) -> Sequence[Stack]:
    """Return the stacks that a stack stands for, one step further."""
    match first:
        case Concatenation():
            return ((*first.parts, *rest),)
        case Choice():
            return [(part, *rest) for part in first.parts]
        case Reference():
            return ((first.resolve(first.name), *rest),)
        case Repeat():
            if first.most == 0:
                return (rest,)
            more = Repeat(first.part, max(0, first.least - 1), None if first.most is None else first.most - 1)
            again = (first.part, more, *rest)
            return (again,) if first.least else (again, rest)
        case Bytes():
            return ()
