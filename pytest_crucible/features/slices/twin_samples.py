"""Twins of prompts: the same prompt with pronouns, nouns and names of another version, such as female and male.

Invariance is what twins test: whether the score stays the same when only these words change. It is not causal fairness.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.load import load_file, load_rows
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import NoTwin, Sample, Twin
from pytest_crucible.records.datasets import TWIN
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.number_format import quantity

Resolve = Callable[[str, str, str], str | None]
"""Returns the counterpart of a word that has several, from the text before and after it; None if it is not certain."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """A value with its words swapped, the words that were, and those whose counterpart is not certain."""

    value: Any
    words: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()


@dataclass(frozen=True)
class SwapTable:
    """Words and phrases of several versions: each row has one for each version."""

    versions: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    resolve: Mapping[str, Resolve] = field(default_factory=dict)
    """By the lower-case word: how to choose between several counterparts."""

    @property
    def has_own_words(self) -> bool:
        """Return whether some word belongs to one version only."""
        return any(self._own.values())

    def versions_in(self, value: Any) -> list[str]:
        """Return the versions that a value names by a word of no other version."""
        matches = [match for text in texts_of(value) for match in self._pattern.finditer(text)]
        words = {_key(match[0]) for match in matches if self._counts(match)}
        return [version for version in self.versions if any(word in self._own[version] for word in words)]

    def swap(self, value: Any, own: str, version: str) -> Swapped:
        """Return a value, with the texts in it, in another version."""
        if isinstance(value, str):
            return self._swap_text(value, own, version)
        if isinstance(value, Mapping):
            is_message = "content" in value
            parts = {
                key: Swapped(item) if is_message and key == "role" else self.swap(item, own, version)
                for key, item in value.items()
            }
            return _join({key: part.value for key, part in parts.items()}, list(parts.values()))
        if isinstance(value, list | tuple):
            items = [self.swap(item, own, version) for item in value]
            return _join([item.value for item in items], items)
        return Swapped(value)

    def _swap_text(self, text: str, own: str, version: str) -> Swapped:
        counterparts = self._counterparts(own, version)
        words: list[str] = []
        uncertain: list[str] = []

        def replace_word(match: re.Match[str]) -> str:
            word = match[0]
            targets = counterparts.get(_key(word))
            if targets is None or not self._counts(match):
                return word
            target: str | None = targets[0] if len(targets) == 1 else None
            if target is None and _key(word) in self.resolve:
                target = self.resolve[_key(word)](text[: match.start()], text[match.end() :], version)
            if target is None:
                uncertain.append(word)
                return word
            words.append(word)
            return _with_capitals(target, word)

        swapped = self._pattern.sub(replace_word, text)
        return Swapped(swapped, tuple(words), tuple(uncertain))

    def _counterparts(self, own: str, version: str) -> dict[str, list[str]]:
        from_column, to_column = self.versions.index(own), self.versions.index(version)
        counterparts: dict[str, list[str]] = {}
        for row in self.rows:
            targets = counterparts.setdefault(_key(row[from_column]), [])
            if row[to_column] not in targets:
                targets.append(row[to_column])
        return counterparts

    def _counts(self, match: re.Match[str]) -> bool:
        """Return whether a match is a word of the table: a name needs its capital, "bob" is not Bob."""
        return (match[0][0].isupper() or _key(match[0]) not in self._names) and not _is_part_of_a_letter(match)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(_key(word) for row in self.rows for word in row if word[0].isupper())

    @cached_property
    def _own(self) -> dict[str, frozenset[str]]:
        columns = [{_key(row[column]) for row in self.rows} for column in range(len(self.versions))]
        return {
            version: frozenset(columns[at] - set().union(*(words for k, words in enumerate(columns) if k != at)))
            for at, version in enumerate(self.versions)
        }

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # Longer phrases first: "step mother" before "mother".
        # An accent may be a part of its letter, or a character of its own.
        forms = {unicodedata.normalize(form, word) for row in self.rows for word in row for form in ("NFC", "NFD")}
        words = [
            r"\s+".join(map(re.escape, word.split())) for word in sorted(forms, key=lambda word: (-len(word), word))
        ]
        return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)


def _key(word: str) -> str:
    """Return a word as it is looked up, whatever its capitals, blanks and form of accents.

    >>> _key("New\\nYork")
    'new york'
    """
    return " ".join(unicodedata.normalize("NFC", word).lower().split())


def _is_part_of_a_letter(match: re.Match[str]) -> bool:
    """Return whether a match is cut off at an accent that is a character of its own: "cafe" in "café"."""
    beside = match.string[max(match.start() - 1, 0) : match.start()], match.string[match.end() : match.end() + 1]
    return any(unicodedata.category(char).startswith("M") for char in beside if char)


def texts_of(value: Any) -> list[str]:
    """Return all texts in a value, but neither the keys of mappings nor the roles of messages.

    >>> texts_of([{"role": "user", "content": "He is late."}])
    ['He is late.']
    """
    if isinstance(value, str):
        return [value]
    parts: list[Any] = list(value) if isinstance(value, list | tuple) else []
    if isinstance(value, Mapping):
        parts = [part for key, part in value.items() if key != "role" or "content" not in value]
    return [text for part in parts for text in texts_of(part)]


def read_table(path: Path) -> SwapTable:
    """Return the table of a CSV file, whose first row names the versions. Raises SpecError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError(
            f'twins(swap="{path}") cannot be read ({error}): write "gender", or the path of a CSV file'
        ) from None
    versions = tuple(cell.strip() for cell in rows[0]) if rows else ()
    described = (
        f"the version{'s' * (len(versions) > 1)} {', '.join(map(repr, versions))}" if versions else "no versions"
    )
    if len(versions) < 2 or len(rows) < 2 or len(set(versions)) < len(versions) or not all(versions):
        raise SpecError(
            f'twins(swap="{path}") has {quantity(len(rows), "row")} and {described}: name at least two '
            "different versions in the first row, separated by commas, and write a word for each of them in each further "
            "row, as in `female,male` and `she,he`"
        )
    words = [tuple(cell.strip() for cell in row) for row in rows[1:]]
    for number, row in enumerate(words, 2):
        if len(row) != len(versions) or not all(row):
            raise SpecError(
                f'twins(swap="{path}") has {quantity(sum(map(bool, row)), "word")} in row {number}: '
                f"write one for each of {', '.join(versions)}"
            )
    # Of `She,He` and `she,he` the second is enough: the first would make both words names, which need their capital.
    plain = {
        tuple(map(_key, row)): row
        for row in sorted(words, key=lambda row: sum(map(str.isupper, "".join(row))), reverse=True)
    }
    table = SwapTable(versions, tuple(plain.values()))
    if not table.has_own_words:
        raise SpecError(
            f'twins(swap="{path}") has no word that belongs to one version only, which would show the version of a '
            "prompt: write each word in one column"
        )
    return table


def _join(value: Any, parts: list[Swapped]) -> Swapped:
    return Swapped(
        value,
        tuple(word for part in parts for word in part.words),
        tuple(word for part in parts for word in part.uncertain),
    )


def _with_capitals(target: str, word: str) -> str:
    if len(word) > 1 and word.isupper():
        return target.upper()
    return target[0].upper() + target[1:] if word[0].isupper() else target


_WORDS = tomllib.loads(Path(__file__).with_name("twin_words.toml").read_text(encoding="utf-8"))
_NOT_A_NOUN = frozenset(_WORDS["function_words"].split())
_TWO_OBJECTS = frozenset(_WORDS["verbs_of_two_objects"].split())


def _next_word(after: str) -> str:
    match = re.match(r"\s+([^\W\d_][\w'-]*)", after)
    return match[1].lower() if match else ""


def _resolve_her(before: str, after: str, version: str) -> str | None:
    following = _next_word(after)
    if not following or following in _NOT_A_NOUN:
        return "him"
    last = re.search(r"([^\W\d_]+)\s*$", before)
    return None if last and last[1].lower() in _TWO_OBJECTS else "his"


def _resolve_his(before: str, after: str, version: str) -> str | None:
    following = _next_word(after)
    return "her" if following and following not in _NOT_A_NOUN else "hers"


GENDER = SwapTable(
    ("female", "male"),
    tuple(tuple(pair.split()) for words in ("pairs", "names") for pair in _WORDS[words].split("|")),
    {
        "her": _resolve_her,
        "his": _resolve_his,
        "mr": lambda before, after, version: "ms",
        "sir": lambda before, after, version: "madam",
        "dad": lambda before, after, version: "mom",
    },
)
"""Pronouns, nouns and names of women and men in English."""


NOTHING = NoTwin("no word to swap")
MIXED = NoTwin("words of several versions")
_OWN = "the prompt is the {} version"


def twins(
    dataset: str | Path | Iterable[Sample | Mapping[str, Any]],
    *,
    swap: str | Path,
    fields: Mapping[str, str] | None = None,
) -> Callable[[], Sequence[Sample]]:
    """Return a dataset whose samples bring along their other versions as variants, for `dataset=` of the marker.

    `dataset` is a file or a list of samples. `swap` is "gender" (pronouns, nouns and common names), or a CSV file of your own: its
    first row names the versions, and each further row has a word or phrase for each. Prompt and `expected` are swapped, with
    capitals kept. The field `twin` names the version. A sample that has words of several versions, or a word whose counterpart is
    not certain, gets no twin, and is counted. Relative paths are those of the calling file, or of the working directory. Raises
    SpecError when the samples are read, if no sample has a twin.
    """
    folder = _calling_folder()
    if not isinstance(swap, str | Path):
        raise SpecError(f'twins has swap={swap!r}: write "gender", or the path of a CSV file')
    if not isinstance(dataset, str | Path | Iterable):
        raise SpecError(f"twins has dataset={dataset!r}: pass the path of a file, or a list of samples")

    def read_twins() -> Sequence[Sample]:
        table = GENDER if str(swap) == "gender" else read_table(_locate(swap, folder))
        if isinstance(dataset, str | Path):
            samples = load_file(_locate(dataset, folder), fields=fields)
        else:
            samples = load_rows(list(dataset), name="twins", fields=fields or {})
        versions = [with_twins(sample, table) for sample in samples]
        sent = {
            version
            for sample in versions
            for version, twin in sample.variants.items()
            if version in table.versions and isinstance(twin, Twin)
        }
        if not sent:
            advice = "pass your own table" if table is GENDER else "add words of these prompts to the table"
            changed = f'twins(swap="{swap}") changed none of {quantity(len(samples), "prompt")}'
            raise SpecError(f"{changed}{_other_reasons(versions, table)}; {advice}")
        # Where all prompts are female, only their male versions are variants.
        unsent = set(table.versions) - sent
        return [
            replace(sample, variants={name: twin for name, twin in sample.variants.items() if name not in unsent})
            for sample in versions
        ]

    return read_twins


def _other_reasons(samples: Sequence[Sample], table: SwapTable) -> str:
    """Return why prompts that have words of the table have no twin, such as ` (words of several versions)`."""
    reasons = {NOTHING.reason, *map(_OWN.format, table.versions)}
    twins = [twin for sample in samples for twin in sample.variants.values()]
    others = dict.fromkeys(twin.reason for twin in twins if isinstance(twin, NoTwin) and twin.reason not in reasons)
    return f" ({', '.join(list(others)[:3])})" if others else ""


def with_twins(sample: Sample, table: SwapTable) -> Sample:
    """Return the sample with its other versions as variants; without a certain one, with the reason."""
    versions = table.versions_in(sample.input)
    if len(versions) != 1:
        reason = MIXED if versions else NOTHING
        return replace(sample, variants={**sample.variants, **dict.fromkeys(table.versions, reason)})
    own = versions[0]
    variants: dict[str, Twin | NoTwin] = {own: NoTwin(_OWN.format(own))}
    for version in table.versions:
        if version != own:
            variants[version] = _twin(sample, table, own, version)
    has_twin = any(isinstance(twin, Twin) for twin in variants.values())
    metadata = {**sample.metadata, TWIN: own} if has_twin else sample.metadata
    return replace(sample, metadata=metadata, variants={**sample.variants, **variants})


def _twin(sample: Sample, table: SwapTable, own: str, version: str) -> Twin | NoTwin:
    prompt = table.swap(sample.input, own, version)
    expected = table.swap(sample.expected, own, version)
    uncertain = [*prompt.uncertain, *expected.uncertain]
    if uncertain:
        return NoTwin(f"the counterpart of {uncertain[0].lower()!r} is not certain")
    return Twin(input=prompt.value, expected=expected.value, facts={"swapped": list(prompt.words)})


def _calling_folder() -> Path:
    file = sys._getframe(2).f_globals.get("__file__")
    return Path(file).parent if file else Path.cwd()


def _locate(path: str | Path, folder: Path) -> Path:
    beside = folder / path
    return beside if beside.exists() else Path(path)
