"""Attacks: functions from a text to an edited one, the words and letters that they may change, and lists of replacements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from difflib import SequenceMatcher
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple, TypeVar

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import UNCHANGED, NoTwin
from pytest_crucible.records.errors import SpecError

PROTECTED = re.compile(
    r"""
      ```.*?```                        # code
    | `[^`\n]+`
    | \b(?:https?://|www\.)\S+         # addresses
    | \S+@\S+\.\w+
    | \{\{[^{}\n]*\}\} | \{[^{}\n]*\}  # placeholders
    | <[^<>\n]{1,80}>
    | [$%]\w+
    | \S*\d\S*                         # numbers, with the unit or sign beside them
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
SHORTEST_ANSWER = 2
"""Characters. A shorter expected text, such as a letter of a choice, occurs anywhere in a question."""


class Places(NamedTuple):
    """The places of a text that attacks may edit."""

    spans: list[tuple[int, int]]
    """The protected spans, in order. They may overlap."""
    is_protected: bytearray
    words: list[tuple[int, int]]
    """Start and end of each word that may be edited."""
    lower_words: list[str]
    letters: list[int]
    """The positions of all letters of these words."""
    inner_letters: list[int]
    """The positions of the letters after the first of each word of at least three."""
    gaps: list[int]
    """The positions of the single blanks between two words on one line."""


# All attacks of a sample look at the same text, one after the other.
@lru_cache(maxsize=64)
def _find_places(text: str, protect: tuple[str, ...], answers: tuple[str, ...]) -> Places:
    spans = [match.span() for match in PROTECTED.finditer(text)]
    for pattern in protect:
        spans += [match.span() for match in re.finditer(pattern, text)]
    for answer in answers:
        spans += [match.span() for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.I)]
    spans = sorted(span for span in spans if span[0] < span[1])
    flags = bytearray(len(text))
    for start, end in spans:
        flags[start:end] = b"\1" * (end - start)
    words = [span for span in (match.span() for match in _WORD.finditer(text)) if 1 not in flags[span[0] : span[1]]]
    ends = {end for _, end in words}
    return Places(
        spans=spans,
        is_protected=flags,
        words=words,
        lower_words=[text[start:end].lower() for start, end in words],
        letters=[at for start, end in words for at in range(start, end) if text[at].isalpha()],
        inner_letters=[
            at for start, end in words if end - start > 2 for at in range(start + 1, end) if text[at].isalpha()
        ],
        gaps=[start - 1 for start, _ in words if start and text[start - 1] == " " and start - 1 in ends],
    )


@dataclass(frozen=True)
class Source:
    """A text, with the facts about its sample that an attack needs."""

    text: str
    protect: tuple[str, ...] = ()
    """Regular expressions of further spans that stay as they are."""
    expected: Any = None
    """The expected answer, whose occurrences in the text stay as they are."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What frames may name besides the text: `code` and `secret`."""
    sample: Any = None
    """The sample itself, for functions of users."""

    @cached_property
    def places(self) -> Places:
        return _find_places(self.text, self.protect, tuple(_texts(self.expected)))

    def is_free(self, start: int, end: int) -> bool:
        """Return whether no character from `start` to `end` is protected."""
        return 1 not in self.places.is_protected[start:end]


def _texts(expected: Any) -> Iterator[str]:
    if isinstance(expected, str):
        if len(expected.strip()) >= SHORTEST_ANSWER:
            yield expected.strip()
    elif isinstance(expected, Mapping):
        yield from _all_texts(expected.values())
    elif isinstance(expected, list | tuple):
        yield from _all_texts(expected)


def _all_texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from _texts(value)


def keep_case(original: str, replacement: str) -> str:
    """Return the replacement in the case of the original: small, Capitalised or CAPITALS.

    >>> keep_case("The", "this"), keep_case("USA", "america"), keep_case("I", "we")
    ('This', 'AMERICA', 'We')
    """
    if len(original) > 1 and original.isupper():
        return replacement.upper()
    return replacement[:1].upper() + replacement[1:] if original[:1].isupper() else replacement


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


def draw_sites(rng: Random, sites: Sequence[Site], strength: float) -> list[Site]:
    """Return the share of the sites that the strength says, drawn without replacement."""
    return rng.sample(sites, count_edits(strength, len(sites)))


def draw_apart(
    rng: Random, sites: Sequence[Site], strength: float, cells: Callable[[Site], Iterable[int]]
) -> list[Site]:
    """Return such sites that share no cell (such as a character), or fewer where no more fit."""
    count = count_edits(strength, len(sites))
    drawn: list[Site] = []
    occupied: set[int] = set()
    # A permutation of all sites costs more than the edits of most texts.
    for site in rng.sample(sites, min(len(sites), 3 * count)):
        if len(drawn) == count:
            break
        of_site = tuple(cells(site))
        if occupied.isdisjoint(of_site):
            occupied.update(of_site)
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


Lexicon = Mapping[str, tuple[str, ...]]


def replace_words(source: Source, rng: Random, strength: float, lexicon: Lexicon) -> Perturbed:
    """Return the text with words of the lexicon replaced, whole and in their case."""
    sites = [number for number, word in enumerate(source.places.lower_words) if word in lexicon]
    edits = []
    for number in draw_sites(rng, sites, strength):
        start, end = source.places.words[number]
        word = rng.choice(lexicon[source.places.lower_words[number]])
        edits.append(Edit(start, end, keep_case(source.text[start:end], word)))
    return apply_edits(source.text, edits)


@cache
def load_lexicon(name: str) -> Lexicon:
    """Return one of the package's lists of synonyms."""
    return parse_lexicon(
        files("pytest_crucible.features.robustness").joinpath("data", name).read_text(encoding="utf-8"), name
    )


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


Perturb = Callable[[Source, Random, float], Perturbed | NoTwin]
AttackKind = Literal["characters", "words", "obfuscation", "meaning", "injection", "own"]
AsksFor = Literal["", "code", "secret"]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack under a name. Equal versions (and settings) give equal texts."""

    name: str
    kind: AttackKind
    summary: str
    """One line for lists."""
    perturb: Perturb
    """Returns the attacked text, which is the text itself where nothing is eligible, or why the attack does not apply."""
    version: str = "1"
    has_strength: bool = True
    """False if it changes all or nothing, so that several strengths are an error."""
    asks_for: AsksFor = ""
    """What an injection wants in the reply."""
    needs_model: str = ""
    """The instruction to the paraphraser, for an attack that rewrites texts by a model; empty for one that follows rules."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings as configured; the attacked text depends on them."""

    @property
    def key(self) -> str:
        """Everything that its texts depend on besides the sample, the strength and the draw."""
        return f"{self.name} {self.version} {sorted(self.settings.items())}"
