"""Reads `@pytest.mark.robustness(...)` and --crucible-attacks: which attacks an experiment runs, and how."""

from __future__ import annotations

import csv
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.datasets.labels import SKIP, split_person
from pytest_crucible.features.robustness.built_in import FAMILIES
from pytest_crucible.features.robustness.late_variants import Smoothing
from pytest_crucible.metrics.normalisers import NORMALISERS
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.datasets import shortest
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.views import unguard_cell

STRENGTH = 0.05
"""One character or word in twenty: a reader still understands the text."""


@dataclass(frozen=True, kw_only=True)
class RobustnessMark:
    """The arguments of one `@pytest.mark.robustness`."""

    attacks: tuple[str, ...] = ()
    strength: tuple[float, ...] = (STRENGTH,)
    draws: int = 1
    protect: tuple[str, ...] = ()
    max_edit_share: float | None = None
    min_similarity: float | None = None
    normalise: str = "text"
    queries: int = 50
    metric: str | None = None
    kept: str | None = None
    certify: Mapping[str, Any] = field(default_factory=dict)

    @property
    def smoothing(self) -> Smoothing | None:
        """The settings of certificates; None without any."""
        return Smoothing(noise=self.certify["noise"], draws=self.certify["draws"]) if self.certify else None

    @property
    def has_several_strengths(self) -> bool:
        return len(self.strength) > 1


def robustness_marks(item: pytest.Item, added: str | None) -> list[RobustnessMark]:
    """Return the marks of a test and, as one more, the attacks that the command line adds. Raises SpecError.

    `none` on the command line keeps the marks: their targets must be known, and are undecided.
    """
    marks = [read_mark(mark) for mark in item.iter_markers("robustness")]
    names = [] if added in (None, "none") else [name.strip() for name in str(added).split(",") if name.strip()]
    if "none" in names:
        raise SpecError(f"--crucible-attacks={added}: none runs no attacks; leave the others out")
    declared = {name for mark in marks for name in mark.attacks}
    more = tuple(name for name in _expand_families(names) if name not in declared)
    return [*marks, *([RobustnessMark(attacks=more)] if more else [])]


def read_mark(mark: pytest.Mark) -> RobustnessMark:
    """Return the arguments of a marker. Raises SpecError for an invalid one."""
    names = [argument.name for argument in fields(RobustnessMark) if argument.name != "attacks"]
    unknown = sorted(set(mark.kwargs) - set(names))
    if unknown:
        hint = suggest(unknown[0], names, always=f"it takes {', '.join(names)}")
        raise SpecError(f"@pytest.mark.robustness has no argument {unknown[0]!r}: {hint}")
    for name in mark.args:
        if not isinstance(name, str):
            raise SpecError(
                f"@pytest.mark.robustness has {name!r} among its attacks: write a name, such as 'homoglyph'"
            )
    arguments = dict(mark.kwargs)
    arguments["attacks"] = _expand_families(mark.args)
    arguments["strength"] = _strengths(arguments.get("strength", STRENGTH))
    arguments["protect"] = _patterns(arguments.get("protect", ()))
    for name, least in (("draws", 1), ("queries", 1)):
        value = arguments.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise SpecError(f"@pytest.mark.robustness has {name}={value!r}: write a whole number of at least {least}")
    for name in ("max_edit_share", "min_similarity"):
        value = arguments.get(name)
        if value is not None and not _is_share(value):
            raise SpecError(
                f"@pytest.mark.robustness has {name}={value!r}: write a number from 0 to 1, for example {name}=0.3"
            )
    normalise = arguments.get("normalise", "text")
    if normalise not in NORMALISERS:
        raise SpecError(f"@pytest.mark.robustness has normalise={normalise!r}: write one of {', '.join(NORMALISERS)}")
    arguments["certify"] = _certify(arguments.get("certify", {}))
    for name in ("kept", "metric"):
        if arguments.get(name) is not None and not isinstance(arguments[name], str):
            raise SpecError(f"@pytest.mark.robustness has {name}={arguments[name]!r}: write a text")
    return RobustnessMark(**arguments)


def _expand_families(names: Iterable[str]) -> tuple[str, ...]:
    """Return each attack once; a family stands for its attacks."""
    return tuple(dict.fromkeys(attack for name in names for attack in FAMILIES.get(name, (name,))))


def labels(mark: RobustnessMark, attack: str, *, has_strength: bool) -> Iterator[tuple[str, float]]:
    """Yield the name in brackets and the strength of each variant of an attack: its name, or with several strengths both."""
    if not has_strength or not mark.has_several_strengths:
        yield attack, mark.strength[0]
        return
    for strength in mark.strength:
        yield f"{attack} {shortest(strength)}", strength


def _strengths(declared: Any) -> tuple[float, ...]:
    values = declared if isinstance(declared, list | tuple) else [declared]
    for value in values:
        if not _is_share(value):
            raise SpecError(f"strength={declared!r}: expected 0 to 1, for example strength=0.05")
    if not values or len(set(values)) < len(values):
        raise SpecError(f"strength={declared!r}: name each strength once, for example strength=[0.02, 0.1]")
    return tuple(float(value) for value in values)


def _certify(declared: Any) -> Mapping[str, Any]:
    """Return the settings of certificates, with their defaults; empty without any. Raises SpecError."""
    example = 'certify={"noise": 0.9, "draws": 1000}'
    if not isinstance(declared, dict) or set(declared) - {"noise", "draws"}:
        raise SpecError(f"@pytest.mark.robustness has certify={declared!r}: write {example}")
    if not declared:
        return {}
    settings = {"noise": 0.9, "draws": 1000, **declared}
    noise, draws = settings["noise"], settings["draws"]
    if not _is_share(noise) or not 0 < noise < 1:
        raise SpecError(
            f"certify= has noise={noise!r}: the chance that a word is left out is between 0 and 1, as in {example}"
        )
    if not isinstance(draws, int) or isinstance(draws, bool) or draws < 10:
        raise SpecError(f"certify= has draws={draws!r}: write a whole number of at least 10, as in {example}")
    return settings


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _patterns(declared: Any) -> tuple[str, ...]:
    patterns = (declared,) if isinstance(declared, str) else declared
    if not isinstance(patterns, list | tuple) or not all(isinstance(pattern, str) for pattern in patterns):
        raise SpecError(
            f"@pytest.mark.robustness has protect={declared!r}: write regular expressions, such as [r'\\[\\d+\\]']"
        )
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SpecError(
                f"@pytest.mark.robustness has protect={pattern!r}, which is not a regular expression: {error}"
            ) from None
    return tuple(patterns)


_YES, _NO = frozenset({"1", "yes", "y", "true", "kept"}), frozenset({"0", "no", "n", "false"})
KEPT = "kept"
"""The column of the labels where the argument names no person."""


def read_kept(
    marks: Sequence[RobustnessMark], item: pytest.Item, variants: Container[str]
) -> dict[str, dict[str, bool]]:
    """Return variant -> sample -> label of the files that marks name, next to the test or below pytest's root directory.

    Rows without a label, and of other variants, are left out. Raises SpecError with the line.
    """
    labels: dict[str, dict[str, bool]] = {}
    for name in dict.fromkeys(mark.kept for mark in marks if mark.kept is not None):
        for number, row in enumerate(_rows(item, name), start=2):
            label = row[KEPT].strip().lower()
            if label not in (*_YES, *_NO, "", SKIP):
                raise SpecError(f"{name}, line {number}: kept is {row[KEPT]!r}; write yes, no or nothing")
            if label not in ("", SKIP) and row["variant"] in variants:
                labels.setdefault(row["variant"], {})[row["sample"]] = label in _YES
    return labels


def _rows(item: pytest.Item, name: str) -> list[dict[str, str]]:
    table, person = split_person(name)
    path, columns = _find(item, table), {"sample": "sample", "variant": "variant", KEPT: person or KEPT}
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            missing = [column for column in columns.values() if column not in (reader.fieldnames or ())]
            if missing:
                raise SpecError(
                    f"{table} has no column {missing[0]!r}: write it with crucible export --what variants -o {table}, "
                    "and fill in the column 'kept'"
                )
            return [{name: unguard_cell(row[column] or "") for name, column in columns.items()} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError(
            f"kept={name!r} cannot be read ({error}): write it with crucible export --what variants"
        ) from None


def _find(item: pytest.Item, name: str) -> Path:
    beside = item.path.parent / name
    return beside if beside.exists() else item.config.rootpath / name


def describe_attacks(item: pytest.Item, added: str | None) -> str:
    """Return a text that differs where other attacks are run; `added` are those of the command line."""
    marks = robustness_marks(item, added)
    return "; ".join(map(repr, marks)) + (" (not run)" if added == "none" else "")
