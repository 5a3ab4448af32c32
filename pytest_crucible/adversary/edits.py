"""Edits of a text: the characters that may change, the number that changes, and the edited text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from random import Random
from typing import Any, NamedTuple, TypeVar

from pytest_crucible.records import UNCHANGED

Site = TypeVar("Site")


class Edit(NamedTuple):
    """Replaces the characters from `start` to `end` of a text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Perturbed:
    """An attacked text, and the edits of the original one that lead to it, in their order; none for a rewritten text."""

    text: str
    edits: tuple[Edit, ...] = ()
    expected: Any = UNCHANGED
    """The expected answer, where the attack changes that, too."""


def count_edits(strength: float, places: int) -> int:
    """Return how many of the eligible places are edited: their share, rounded, and at least one; none at strength 0.

    >>> count_edits(0.05, 10), count_edits(0.05, 50), count_edits(0.05, 0), count_edits(0.0, 50)
    (1, 3, 0, 0)
    """
    # Halves are rounded up: round() would take them to the even number.
    return min(places, max(1, int(strength * places + 0.5))) if strength and places else 0


def draw_sites(rng: Random, sites: Sequence[Site], count: int) -> list[Site]:
    """Return `count` sites, drawn without replacement."""
    return rng.sample(sites, count)


def draw_apart(rng: Random, sites: Sequence[Site], count: int, cells: Callable[[Site], Iterable[int]]) -> list[Site]:
    """Return `count` drawn sites that share no cell (such as a character), or fewer where no more fit."""
    drawn: list[Site] = []
    taken: set[int] = set()
    # A permutation of all sites costs more than the edits of most texts.
    for site in (
        rng.sample(sites, min(len(sites), 3 * count)) if 3 * count < len(sites) else rng.sample(sites, len(sites))
    ):
        if len(drawn) == count:
            break
        of_site = tuple(cells(site))
        if taken.isdisjoint(of_site):
            taken.update(of_site)
            drawn.append(site)
    return drawn


def apply_edits(text: str, edits: Iterable[Edit]) -> Perturbed:
    """Return the text with edits that do not overlap.

    >>> apply_edits("abc", [Edit(2, 3, "z"), Edit(0, 1, "")]).text
    'bz'
    """
    in_order, parts, end = sorted(edits), [], 0
    for edit in in_order:
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    return Perturbed("".join([*parts, text[end:]]), tuple(in_order))


def edit_share(text: str, perturbed: Perturbed) -> float:
    """Return the share of a text's characters that its edits replace, remove or insert, of the longer one.

    Of a rewritten text, whose edits are not known, it is the share of words that are not in both texts in one order.

    >>> edit_share("one two", Perturbed("one three")), edit_share("abcd", Perturbed("abxd", (Edit(2, 3, "x"),)))
    (0.5, 0.25)
    """
    if perturbed.edits:
        changed = sum(max(edit.end - edit.start, len(edit.text)) for edit in perturbed.edits)
        return changed / max(len(text), len(perturbed.text), 1)
    return 1 - SequenceMatcher(None, text.split(), perturbed.text.split(), autojunk=False).ratio()
