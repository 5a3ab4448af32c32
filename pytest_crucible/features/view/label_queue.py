"""The replies of a run that people label, each different text to a sample once, in an order that is always the same.

A reply is 32 bytes here, so that there may be millions: its text is read when its turn comes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.labels import KEY_COLUMNS, STRATUM, STRATUM_SIZE, ReplyKey
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ORDERS, VOTES, ArmOutcomes, MetricFacts, Plan, ScoreColumns
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.outcomes import load_outcomes, variant_keys
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import load_sample, load_twins
from pytest_crucible.store.texts import stored_text, text_id

First = Literal["random", "disagreements"]
STRATA: dict[str, tuple[str, ...]] = {"random": ("all",), "disagreements": ("agree", "disagree")}
SHARE = 3
"""Of four replies, three are to samples with a disagreement: the fourth keeps the others in every estimate."""
ROW = np.dtype(
    [("experiment", "i4"), ("twin", "i4"), ("arm", "i8"), ("position", "i4"), ("stratum", "i1"), ("hash", "u8", 2)]
)
Rows = npt.NDArray[Any]
Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Turn:
    """A reply to label, and what the person sees: neither the arm nor scores."""

    ids: dict[str, str]
    """The cells by which its row is found again, and those of its stratum."""
    key: ReplyKey
    prompt: Any
    sent: Any
    """The input of the sample's variant; None for the sample itself."""
    expected: Any
    text: str


class LabelQueue:
    """The first replies to each sample of a run, and to its variants, in the order in which people label them."""

    def __init__(self, store: RunStore, run: str, first: First) -> None:
        self.store, self.run, self.first = store, run, first
        self._experiments: list[tuple[int, Plan]] = [(key, plan) for key, plan, _ in store.experiments(run)]
        self._names: dict[tuple[str, int], str] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def strata(self) -> dict[str, int]:
        """The number of replies in each stratum."""
        return {name: int((self._rows["stratum"] == k).sum()) for k, name in enumerate(STRATA[self.first])}

    def turn(self, place: int) -> Turn:
        """Return the reply at a place, counted from 0. Raises SpecError if it was removed since."""
        row = self._rows[place]
        plan, position, twin = self._plan(row), int(row["position"]), int(row["twin"])
        query = f"SELECT {stored_text('replies')} FROM replies WHERE arm = :arm AND position = :position AND epoch = 0"
        text = self.store.scalar(query, arm=int(row["arm"]), position=position)
        if text is None:
            raise SpecError(f"run {self.run} was removed from this store")
        sample = load_sample(self.store, plan.dataset_sha256, position)
        variant = load_twins(self.store, plan.variants[twin - 1].sha256, position)[position] if twin else {}
        key = self._key(row)
        return Turn(
            ids=self._ids(key, row),
            key=key,
            prompt=sample["input"],
            sent=variant.get("input"),
            expected=(variant or sample)["expected"],
            text=text,
        )

    def next_place(self, place: int, labelled: Collection[ReplyKey]) -> int | None:
        """Return the first place from this one on, and then from the beginning, that has no label; None if all have one."""
        hashes = {key.reply_sha256 for key in labelled}
        order = range(len(self))
        for at in itertools.chain(order[place:], order[:place]) if len(labelled) < len(self) else ():
            row = self._rows[at]
            # The sample's id is read only for a text that has a label.
            if _hexadecimal(row) not in hashes or self._key(row) not in labelled:
                return at
        return None

    @cached_property
    def _rows(self) -> Rows:
        parts = [rows for number in range(len(self._experiments)) for rows in self._read(number)]
        return order_rows(_distinct(np.concatenate(parts) if parts else np.empty(0, dtype=ROW)), self.run, self.first)

    def _read(self, number: int) -> Iterator[Rows]:
        """Yield the first replies of each arm of an experiment, to the samples and to their variants."""
        experiment, plan = self._experiments[number]
        for twin in range(1 + len(plan.variants)):
            is_random = self.first == "random"
            flags = None if is_random else find_disagreements(self.store, experiment, plan, twin)
            for arm in range(len(plan.arms)):
                for key, _ in variant_keys(self.store, experiment, arm, twin)[:1]:
                    rows = self._read_arm(key)
                    rows["experiment"], rows["twin"] = number, twin
                    rows["stratum"] = 0 if flags is None else flags[rows["position"]]
                    yield rows

    def _read_arm(self, arm: int) -> Rows:
        query = """
            SELECT position, text, text_id FROM replies
            WHERE arm = :arm AND epoch = 0 AND (text IS NOT NULL OR text_id IS NOT NULL)
        """
        positions, digests = array("l"), bytearray()
        with self.store.connect() as connection, connection.stream(query, arm=arm) as cursor:
            for position, text, reference in itertools.chain.from_iterable(iter(lambda: cursor.fetchmany(1_000), [])):
                positions.append(position)
                digests += bytes(reference) if text is None else text_id(text)
        rows = np.zeros(len(positions), dtype=ROW)
        rows["arm"], rows["position"] = arm, positions
        # In the order of its digits; as numbers of this machine, in which NumPy joins rows.
        rows["hash"] = np.frombuffer(digests, dtype=">u8").reshape(-1, 2)
        return rows

    def _plan(self, row: Any) -> Plan:
        return self._experiments[int(row["experiment"])][1]

    def _key(self, row: Any) -> ReplyKey:
        plan = self._plan(row)
        place = plan.dataset_sha256, int(row["position"])
        if place not in self._names:
            query = "SELECT sample_id FROM samples WHERE dataset = :dataset AND position = :position"
            self._names[place] = str(self.store.scalar(query, dataset=place[0], position=place[1]))
        return ReplyKey(plan.nodeid, self._names[place], plan.variant_name(int(row["twin"])), _hexadecimal(row))

    def _ids(self, key: ReplyKey, row: Any) -> dict[str, str]:
        stratum = STRATA[self.first][row["stratum"]]
        own = {name: getattr(key, name) for name in KEY_COLUMNS}
        return {"run": self.run, **own, STRATUM: stratum, STRATUM_SIZE: str(self.strata[stratum])}


def order_rows(rows: Rows, run: str, first: First) -> Rows:
    """Return rows in the order in which they are labelled: whenever a person stops, the labels of a stratum are a random part."""
    rows = rows[np.argsort(_random_numbers(rows, run), kind="stable")]
    return rows if first == "random" else _interleave(rows)


def _hexadecimal(row: Any) -> str:
    return "".join(f"{int(half):016x}" for half in row["hash"])


def _distinct(rows: Rows) -> Rows:
    """Return one row for each text to a sample: arms that reply alike get one label, and an equal chance of it."""
    columns = [rows["hash"][:, 1], rows["hash"][:, 0], rows["position"], rows["twin"], rows["experiment"]]
    order = np.lexsort(columns)
    is_new = np.zeros(len(rows), dtype=bool)
    for column in columns:
        is_new[1:] |= column[order][1:] != column[order][:-1]
    is_new[:1] = True
    return rows[order][is_new]


def _random_numbers(rows: Rows, run: str) -> Numbers:
    """Return a number for each row that only the run, the sample and the text decide: the run's id is the seed."""
    seed = int.from_bytes(hashlib.sha256(run.encode()).digest()[:8])
    numbers = rows["hash"][:, 0].astype(np.uint64) ^ np.uint64(seed)
    for name in ("position", "twin", "experiment"):
        numbers = _mix(numbers + rows[name].astype(np.uint64))
    return numbers


def _mix(numbers: Numbers) -> Numbers:
    """Return numbers in which each bit depends on all bits (splitmix64, Steele et al. 2014). They overflow on purpose."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _interleave(rows: Rows) -> Rows:
    """Return rows with three of a disagreement and one without in turn, each in their random order; then what is left."""
    turns = np.empty(len(rows), dtype=np.intp)
    disagree = rows["stratum"] == 1
    rank, other = np.arange(disagree.sum()), np.arange((~disagree).sum())
    turns[disagree] = rank // SHARE * (SHARE + 1) + rank % SHARE
    turns[~disagree] = other * (SHARE + 1) + SHARE
    return rows[np.argsort(turns, kind="stable")]


Flags = npt.NDArray[np.bool_]
WIDE = 0.5
"""Arms disagree where their scores differ by at least this share of the metric's range, as right and wrong do."""


def find_disagreements(store: RunStore, experiment: int, plan: Plan, twin: int) -> Flags:
    """Return, for each sample, whether the first replies to it, or to its twin, got wide scores apart or votes that differ."""
    samples = store.scalar("SELECT COUNT(*) FROM samples WHERE dataset = :dataset", dataset=plan.dataset_sha256)
    flags = np.zeros(samples, dtype=bool)
    arms = [load_outcomes(store, experiment, number, plan.draws(number), twin) for number in range(len(plan.arms))]
    facts = {metric.name: metric for metric in plan.metrics}
    for name in dict.fromkeys(name for arm in arms for name in arm.scores):
        flags |= _wide_apart([arm.scores[name] for arm in arms if name in arm.scores], facts.get(name), samples)
    for arm in arms:
        flags[list(_split_verdicts(arm))] = True
    return flags


def _wide_apart(columns: Sequence[ScoreColumns], facts: MetricFacts | None, samples: int) -> Flags:
    is_binary = all(all(column.is_bool) for column in columns)
    low, high = (0.0, 1.0) if is_binary or facts is None else (facts.low, facts.high)
    least, most = np.full(samples, np.inf), np.full(samples, -np.inf)
    for column in columns:
        first = np.array(column.repeats, dtype=np.intp) == 0
        positions = np.array(column.positions, dtype=np.intp)[first]
        # A value of None does not apply: NaN is in no comparison.
        values = np.array(column.values, dtype=np.float64)[first]
        least[positions] = np.fmin(least[positions], values)
        most[positions] = np.fmax(most[positions], values)
    is_ranged = (is_binary or facts is not None) and np.isfinite(high - low)
    return most - least >= WIDE * (high - low) if is_ranged else np.zeros(samples, dtype=bool)


def _split_verdicts(arm: ArmOutcomes) -> Iterator[int]:
    """Yield the positions of replies that a judge's votes, or both orders of a preference, do not agree on."""
    texts: Mapping[str, Sequence[tuple[int, int, str]]] = arm.judge_texts
    for name, rows in texts.items():
        for position, repeat, text in rows if name.endswith((VOTES, ORDERS)) else ():
            verdicts = json.loads(text) if name.endswith(VOTES) else [json.loads(text)]
            if repeat == 0 and any(len(set(of_question)) > 1 for of_question in verdicts):
                yield position
