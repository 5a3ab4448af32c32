"""Lists of words with replacements: the package's own, and files of users.

One entry a line, `word: replacement, replacement`; lines that begin with # are comments.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random

from pytest_crucible.adversary.edits import Edit, Perturbed, apply_edits, count_edits, draw_sites
from pytest_crucible.adversary.source import Source, keep_case
from pytest_crucible.records.errors import SpecError

Lexicon = Mapping[str, tuple[str, ...]]


def replace_words(source: Source, rng: Random, strength: float, lexicon: Lexicon) -> Perturbed:
    """Return the text with words of the lexicon replaced, whole and in their case."""
    sites = [number for number, word in enumerate(source.lower_words) if word in lexicon]
    edits = []
    for number in draw_sites(rng, sites, count_edits(strength, len(sites))):
        start, end = source.words[number]
        word = rng.choice(lexicon[source.lower_words[number]])
        edits.append(Edit(start, end, keep_case(source.text[start:end], word)))
    return apply_edits(source.text, edits)


@cache
def load_lexicon(name: str) -> Lexicon:
    """Return one of the package's lists of synonyms."""
    return parse_lexicon(files("pytest_crucible.adversary").joinpath("data", name).read_text(encoding="utf-8"), name)


@cache
def read_lexicon(path: Path) -> Lexicon:
    """Return the list of synonyms in a user's file. Raises SpecError for a missing file and for a line that cannot be read."""
    try:
        return parse_lexicon(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"lexicon {str(path)!r} cannot be read ({error}): write 'word: synonym, synonym' on each line"
        ) from None


def parse_lexicon(text: str, name: str) -> Lexicon:
    """Return word -> replacements, in lower case. Raises SpecError with the line.

    >>> parse_lexicon("# comment\\nbig: large, huge", "words.txt")
    {'big': ('large', 'huge')}
    """
    entries: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        word, colon, others = line.partition(":")
        replacements = tuple(other.strip() for other in others.split(",") if other.strip())
        if not colon or not word.strip() or not replacements:
            raise SpecError(f"{name}, line {number}: {line!r} has no synonym: write 'word: synonym, synonym'")
        entries[word.strip().lower()] = replacements
    return entries
