"""Folds and splits: parts that have no sample and no group in common, and that hardly change when the dataset grows.

They do not follow the session's seed: with another one, samples that a model was trained on would be asked.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pytest_crucible.datasets.packed import kept
from pytest_crucible.datasets.strata import strata
from pytest_crucible.datasets.subset import draw
from pytest_crucible.errors import DatasetError
from pytest_crucible.records import Sample

_SEED = r"(?: seed (\d{1,18}))?"
_FOLD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})" + _SEED)
_SPLIT = re.compile(r"(train|test) (0?\.\d+)" + _SEED)


def fold(samples: Sequence[Sample], which: str, *, stratify: str | None = None) -> Sequence[Sample]:
    """The samples of one fold, such as `2/5` or `2/5 seed 7`. All folds together are the dataset. Raises DatasetError."""
    number, of, seed = parse_fold(which)
    places = places_of(samples, seed=seed, purpose="fold", stratify=stratify)
    return kept(sample for sample, place in zip(samples, places, strict=True) if int(place * of) == number - 1)


def split(samples: Sequence[Sample], which: str, *, stratify: str | None = None) -> Sequence[Sample]:
    """The samples of one part of two: `test 0.2` has a fifth of them, and `train 0.2` all others. Raises DatasetError."""
    part, share, seed = parse_split(which)
    places = places_of(samples, seed=seed, purpose="split", stratify=stratify)
    return kept(sample for sample, place in zip(samples, places, strict=True) if (place < share) == (part == "test"))


def parse_fold(text: str) -> tuple[int, int, int]:
    """Number, of how many, and the seed.

    >>> parse_fold("2/5"), parse_fold("2/5 seed 7")
    ((2, 5, 0), (2, 5, 7))
    """
    found = _FOLD.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[1]) > int(found[2]):
        raise DatasetError(f"fold={text!r} is no fold: write '2/5' for the second of five")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def parse_split(text: str) -> tuple[str, float, int]:
    """The part, the share of the samples that are for testing, and the seed.

    >>> parse_split("train 0.2")
    ('train', 0.2, 0)
    """
    found = _SPLIT.fullmatch(text) if isinstance(text, str) else None
    if found is None or not 0 < float(found[2]) < 1:
        raise DatasetError(f"split={text!r} is no split: write 'test 0.2' for a fifth, and 'train 0.2' for the rest")
    return found[1], float(found[2]), int(found[3] or 0)


def places_of(samples: Sequence[Sample], *, seed: int, purpose: str, stratify: str | None) -> list[float]:
    """A number from 0 to 1 for each sample, the same within a group: all parts are cut from these.

    The groups (or samples that have none) of each stratum stand in an order drawn by hash, and each has the middle of the
    samples that it takes up. A group belongs to the stratum that most of its samples have. Where a stratum begins is drawn
    as well, so that many small ones do not all fall into the same part.
    """
    labels = strata(samples, stratify) if stratify is not None else [""] * len(samples)
    units: dict[str, list[int]] = defaultdict(list)
    for position, sample in enumerate(samples):
        units[sample.id if sample.group is None else sample.group].append(position)
    of_stratum: dict[str, list[str]] = defaultdict(list)
    for unit, positions in units.items():
        of_stratum[_most(labels[position] for position in positions)].append(unit)
    places = [0.0] * len(samples)
    for label, members in of_stratum.items():
        for unit, place in _spread(members, units, f"{seed}:{purpose}", label).items():
            for position in units[unit]:
                places[position] = place
    return places


def _spread(members: Sequence[str], units: Mapping[str, Sequence[int]], salt: str, label: str) -> dict[str, float]:
    ordered = sorted(members, key=lambda unit: (draw(f"{salt}:{unit}"), unit))
    total = sum(len(units[unit]) for unit in members)
    begin = int.from_bytes(draw(f"{salt} begins:{label}")[:6]) / 2**48
    found, before = {}, 0
    for unit in ordered:
        size = len(units[unit])
        found[unit] = (begin + (before + size / 2) / total) % 1.0
        before += size
    return found


def _most(labels: Iterable[str]) -> str:
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))
