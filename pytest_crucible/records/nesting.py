"""Limits how deep the values of users are nested, where they are read: so that everything behind may walk them by recursion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Text = TypeVar("Text", str, bytes)
# Python's limit is 1,000 frames, of which pytest and a coroutine take 150 and a level of a value up to three.
MOST_DEPTH = 100


class TooDeep(ValueError):
    """A value of the user's is nested too deep."""

    def __init__(self) -> None:
        super().__init__(f"is nested more than {MOST_DEPTH} levels deep")


def check_depth(value: Any) -> None:
    """Raise TooDeep for lists and mappings within each other beyond the limit, or that contain themselves.

    >>> check_depth({"a": [1, {"b": 2}]})
    """
    # By identity, because of what contains itself twice there would be twice as many on each level.
    level = _containers([value])
    for _ in range(MOST_DEPTH):
        if not level:
            return
        level = _containers(
            child for each in level.values() for child in (each.values() if isinstance(each, Mapping) else each)
        )
    if level:
        raise TooDeep


def parse(read: Callable[[Text], Any], text: Text) -> Any:
    """Return what a parser reads of a text. Raises TooDeep, also where the parser itself cannot go on, and the parser's errors."""
    try:
        value = read(text)
    except RecursionError:
        raise TooDeep from None
    check_depth(value)
    return value


def _containers(values: Any) -> dict[int, Any]:
    return {id(value): value for value in values if isinstance(value, dict | list | tuple | Mapping)}
