"""Folds and splits: parts that share no sample and no group, and that hardly change when the dataset grows.

They do not depend on the session's seed, because another seed would test a model on samples that it was trained on.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.datasets.strata import strata
from pytest_crucible.datasets.subset import draw
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError

# Bounded digits: Python refuses to convert texts of thousands of digits, with an error of its own.
_SEED = r"(?: seed (\d{1,18}))?"
_FOLD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})" + _SEED)
_SPLIT = re.compile(r"(train|test) (0?\.\d+)" + _SEED)


def fold(samples: Sequence[Sample], which: str, *, stratify: str | None = None) -> Sequence[Sample]:
    """Return the samples of one fold, such as `2/5` or `2/5 seed 7`. All folds together are the dataset. Raises DatasetError."""
    number, of, seed = parse_fold(which)
    places = places_of(samples, seed=seed, purpose="fold", stratify=stratify)
    return pack_if_many(sample for sample, place in zip(samples, places, strict=True) if int(place * of) == number - 1)


def split(samples: Sequence[Sample], which: str, *, stratify: str | None = None) -> Sequence[Sample]:
    """Return the samples of one part of two: `test 0.2` is a fifth, `train 0.2` the rest. Raises DatasetError."""
    part, share, seed = parse_split(which)
    places = places_of(samples, seed=seed, purpose="split", stratify=stratify)
    return pack_if_many(
        sample for sample, place in zip(samples, places, strict=True) if (place < share) == (part == "test")
    )


def parse_fold(text: str) -> tuple[int, int, int]:
    """Return the number of the fold, the number of folds, and the seed.

    >>> parse_fold("2/5"), parse_fold("2/5 seed 7")
    ((2, 5, 0), (2, 5, 7))
    """
    match = _FOLD.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) > int(match[2]):
        raise DatasetError(f"fold={text!r} is not valid: write '2/5' for the second of five folds")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def parse_split(text: str) -> tuple[str, float, int]:
    """Return the part, the share of test samples, and the seed.

    >>> parse_split("train 0.2")
    ('train', 0.2, 0)
    """
    match = _SPLIT.fullmatch(text) if isinstance(text, str) else None
    if match is None or not 0 < float(match[2]) < 1:
        raise DatasetError(f"split={text!r} is not valid: write 'test 0.2' for a fifth, and 'train 0.2' for the rest")
    return match[1], float(match[2]), int(match[3] or 0)


def places_of(samples: Sequence[Sample], *, seed: int, purpose: str, stratify: str | None) -> list[float]:
    """Return a number from 0 to 1 for each sample, the same within a group. Folds and splits are ranges of these numbers.

    The groups (or samples without a group) of each stratum are ordered by hash, and a group's number is the middle of the
    range of its samples. A group belongs to the stratum of most of its samples. The start of each stratum is drawn by hash
    too, so that many small strata do not all fall into the same part.
    """
    labels = strata(samples, stratify) if stratify is not None else [""] * len(samples)
    units: dict[str, list[int]] = defaultdict(list)
    for position, sample in enumerate(samples):
        units[sample.id if sample.group is None else sample.group].append(position)
    of_stratum: dict[str, list[str]] = defaultdict(list)
    for unit, positions in units.items():
        of_stratum[_most_frequent(labels[position] for position in positions)].append(unit)
    places = [0.0] * len(samples)
    for label, members in of_stratum.items():
        for unit, place in _spread(members, units, f"{seed}:{purpose}", label).items():
            for position in units[unit]:
                places[position] = place
    return places


def _spread(members: Sequence[str], units: Mapping[str, Sequence[int]], salt: str, label: str) -> dict[str, float]:
    ordered = sorted(members, key=lambda unit: (draw(f"{salt}:{unit}"), unit))
    total = sum(len(units[unit]) for unit in members)
    # 48 bits are exact in a float, so that the number is the same on every machine.
    begin = int.from_bytes(draw(f"{salt} begins:{label}")[:6]) / 2**48
    positions, before = {}, 0
    for unit in ordered:
        size = len(units[unit])
        positions[unit] = (begin + (before + size / 2) / total) % 1.0
        before += size
    return positions


def _most_frequent(labels: Iterable[str]) -> str:
    counts = Counter(labels)
    # Ties by name: `Counter.most_common` takes the label that came first, and parts would depend on the order of rows.
    return min(counts, key=lambda label: (-counts[label], label))
