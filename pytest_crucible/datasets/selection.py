"""Select samples of a dataset: a split, a fold of that split, a limited number of its samples; and summarise them."""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample, Selection
from pytest_crucible.records.errors import DatasetError, suggest


def select(samples: Sequence[Sample], chosen: Selection) -> Sequence[Sample]:
    """Return the selected samples, in the dataset's order. Raises DatasetError for an invalid or empty part."""
    if chosen.split is not None:
        samples = split(samples, chosen.split, stratify=chosen.stratify)
    if chosen.fold is not None:
        samples = fold(samples, chosen.fold, stratify=chosen.stratify)
    if not samples:
        raise DatasetError(f"{selection_text(chosen)} selects none of {chosen.of} samples: select larger parts")
    return subset(samples, chosen.limit, seed=chosen.seed, stratify=chosen.stratify)


def selection_text(chosen: Selection) -> str:
    """Return the selection as the marker's arguments.

    >>> selection_text(Selection(of=100, seed=0, fold="2/5", limit=10))
    "fold='2/5', limit=10"
    """
    parts = {name: getattr(chosen, name) for name in ("split", "fold", "limit", "stratify")}
    return ", ".join(f"{name}={value!r}" for name, value in parts.items() if value is not None)


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


def subset(samples: Sequence[Sample], limit: int | None, *, seed: int, stratify: str | None = None) -> Sequence[Sample]:
    """Return `limit` samples drawn by a hash of seed and id, in the dataset's order.

    Drawing by hash makes subsets nested: the 100 samples of limit=100 are among the 200 of limit=200. With `stratify` each
    value of that field is represented in proportion, within about one sample, by Webster's method, which keeps subsets nested.
    Raises DatasetError if a sample lacks the field.
    """
    if limit is None or limit >= len(samples):
        return pack_if_many(samples)
    drawn = ((draw(f"{seed}:{sample.id}"), position) for position, sample in enumerate(samples))
    if stratify is None:
        order = [position for _, position in heapq.nsmallest(limit, drawn)]
    else:
        order = _interleave_strata([position for _, position in sorted(drawn)], strata(samples, stratify))
    return pack_if_many(samples[position] for position in sorted(order[:limit]))


def draw(what: str) -> bytes:
    """Return a hash that is the same in every process, used as a reproducible random draw."""
    # Not hash(), which differs from process to process. Labels may hold lone surrogates, which UTF-8 alone refuses.
    return hashlib.blake2b(what.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _interleave_strata(order: Sequence[int], labels: Sequence[str]) -> list[int]:
    """Return the drawn positions reordered so that each prefix contains every stratum in proportion."""
    sizes, counts = Counter(labels), Counter[str]()
    ranked = []
    for place, position in enumerate(order):
        label = labels[position]
        # The middle of the k-th seat is Webster's divisor; the start of the seat would favour small strata.
        ranked.append(((counts[label] + 0.5) / sizes[label], place, position))
        counts[label] += 1
    return [position for _, _, position in sorted(ranked)]


def strata(samples: Sequence[Sample], name: str) -> list[str]:
    """Return the value of a field for each sample, as text. Raises DatasetError for the first sample without it.

    A field is `expected`, `group`, anything in the metadata, or a key of an `expected` that is a mapping.

    >>> strata([Sample(id="a", input="", metadata={"level": 2}), Sample(id="b", input="", metadata={"level": 1})], "level")
    ['2', '1']
    """
    return [text_of(_field_value(sample, name)) for sample in samples]


def _field_value(sample: Sample, name: str) -> Any:
    fields = fields_of(sample)
    if fields.get(name) is None:
        hint = suggest(name, fields, otherwise=f"it has {', '.join(map(repr, fields)) or 'none'}")
        raise DatasetError(f"sample {sample.id!r} has no field {name!r} to stratify by: {hint}")
    return fields[name]


def fields_of(sample: Sample) -> dict[str, Any]:
    """Return the fields of a sample; a field of the metadata hides a key of `expected` with the same name."""
    inside = sample.expected if isinstance(sample.expected, Mapping) else {}
    return {**inside, **sample.metadata, "expected": sample.expected, "group": sample.group}


def text_of(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON, equal for equal values."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)


# Fields with more distinct values than this (ids, texts) are of no use for strata, and counting them costs memory.
FEW = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A summary of all samples of a dataset."""

    samples: int
    columns: tuple[str, ...]
    """The fields that some sample has, its metadata among them."""
    groups: int | None
    """None when no sample has a group."""
    duplicates: int
    """The number of samples with the same input as an earlier sample."""
    values: Mapping[str, Mapping[str, int]]
    """Field -> value -> samples, for fields of a few values that repeat; the most frequent first."""
    first: Sample


def describe(samples: Sequence[Sample]) -> Description:
    """Return a summary of the samples, which are read once.

    >>> summary = describe([Sample(id="a", input="1 + 1", expected="2"), Sample(id="b", input="1 + 1", expected="2")])
    >>> summary.duplicates, summary.values
    (1, {'expected': {'2': 2}})
    """
    counts: dict[str, Counter[str]] = {}
    inputs, groups = set[str](), set[str]()
    columns = dict.fromkeys(("id", "input"))
    for sample in samples:
        inputs.add(text_of(sample.input))
        groups |= set() if sample.group is None else {sample.group}
        own: dict[str, Any] = {"expected": sample.expected, "group": sample.group, **sample.metadata}
        columns |= dict.fromkeys(name for name, value in own.items() if value is not None)
        for name, value in fields_of(sample).items():
            counter = counts.setdefault(name, Counter())
            # A field with too many distinct values already is not counted on.
            if isinstance(value, str | int | bool) and len(counter) <= FEW:
                counter[text_of(value)] += 1
    return Description(
        samples=len(samples),
        columns=tuple(columns),
        groups=len(groups) or None,
        duplicates=len(samples) - len(inputs),
        values={
            name: dict(counter.most_common())
            for name, counter in counts.items()
            if name != "group" and 0 < len(counter) <= FEW and max(counter.values()) > 1
        },
        first=samples[0],
    )
