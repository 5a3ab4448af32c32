"""Mitigation: thresholds by slice, fitted on a stored run, and weights of training rows."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_crucible.datasets.selection import fold as fold_of
from pytest_crucible.features.slices.decisions import Rule, Threshold, Thresholds
from pytest_crucible.measures.fields import field_problem, has_value, read_field, slice_samples
from pytest_crucible.plan.grammar import parse_fields
from pytest_crucible.records import Sample
from pytest_crucible.records.datasets import By
from pytest_crucible.records.errors import SpecError, describe_type
from pytest_crucible.records.settings import DEFAULT_STORE
from pytest_crucible.stats.arrays import Array

if TYPE_CHECKING:
    from pytest_crucible.store.experiments import StoredExperiment
    from pytest_crucible.store.runs import RunStore

CONSTRAINTS = ("demographic_parity", "equalized_odds", "true_positive_rate_parity", "false_positive_rate_parity")
_NEEDED = ("stated_probability", "true_positive", "false_positive")


def thresholds(
    run: str, *, by: str, fold: str = "1/2", constraint: str = "equalized_odds", store: str = DEFAULT_STORE
) -> Thresholds:
    """Return a function for `decision(read=...)` that applies a threshold of each slice to the stated probability.

    The thresholds are fitted by fairlearn's ThresholdOptimizer (extra `[fairness]`) on one fold of a stored run, whose suite
    must have `fairness.decision(..., confidence=...)`. `constraint` is one of CONSTRAINTS. A verdict that differs without the
    samples of that fold is undecided. A threshold may be random: it is then drawn by the sample's id. Raises SpecError.
    """
    # Weights need no database.
    from pytest_crucible.store.runs import RunStore

    if constraint not in CONSTRAINTS:
        raise SpecError(f"thresholds has constraint={constraint!r}: write one of {', '.join(CONSTRAINTS)}")
    for name, text in (("run", run), ("store", store)):
        if not isinstance(text, str):
            raise SpecError(f"thresholds has {name}={text!r}: write it as text, such as 'latest' or '{DEFAULT_STORE}'")
    optimizer = _load_fairlearn()
    fields = parse_fields(by, f"thresholds(by={by!r})")
    if fields.within is not None:
        raise SpecError(f"thresholds(by={by!r}): within standardises gap, ratio and worst only; leave it out")
    if "://" not in store and not Path(store).exists():
        raise SpecError(f"thresholds found no run store at {store}: run the suite first, or name it by store=")
    with contextlib.closing(RunStore(store)) as opened:
        confidence, outcome, samples = _read_run(opened, opened.find_run(run))
    chosen = {sample.id for sample in fold_of(samples, fold)}
    used = [
        at for at, sample in enumerate(samples) if sample.id in chosen and not np.isnan(confidence[at] + outcome[at])
    ]
    fitted = [samples[at] for at in used]
    rules = _fit(optimizer, fields, constraint, confidence[used], outcome[used], fitted)
    return Thresholds(by=fields, rules=rules, sample_ids=tuple(sample.id for sample in fitted))


def _load_fairlearn() -> Any:
    try:
        from fairlearn.postprocessing import ThresholdOptimizer
    except ImportError:
        raise SpecError('thresholds needs fairlearn; pip install "pytest-crucible[fairness]"') from None
    return ThresholdOptimizer


def _read_run(store: RunStore, run: str) -> tuple[Array, Array, Sequence[Sample]]:
    """Return the candidate's stated probability, the outcome and the sample, of the first experiment that has decisions."""
    from pytest_crucible.store.experiments import load_experiments

    for stored in load_experiments(store, run):
        if all(name in stored.arms[0].scores for name in _NEEDED):
            samples = stored.all_samples()
            values = [_values(stored, name, len(samples)) for name in _NEEDED]
            outcome = np.where(~np.isnan(values[1]), 1.0, np.where(~np.isnan(values[2]), 0.0, np.nan))
            return values[0], outcome, samples
    raise SpecError(
        f"run {run} has no stated probabilities: run it, with this version, with fairness.decision(..., confidence=...)"
    )


def _values(stored: StoredExperiment, name: str, samples: int) -> Array:
    column, values = stored.arms[0].scores[name], np.full(samples, np.nan)
    for position, repeat, value in zip(column.positions, column.repeats, column.values, strict=True):
        if repeat == 0 and value is not None:
            values[position] = value
    return values


def _stated_model() -> Any:
    """Return the model that fairlearn expects: its probability is the stated one."""
    from sklearn.base import BaseEstimator

    class Stated(BaseEstimator):  # type: ignore[misc]
        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, x: Any, y: Any) -> Any:
            return self

        def predict(self, x: Any) -> Array:
            return np.asarray(x)[:, 0]

    return Stated()


def _fit(
    optimizer: Any, by: By, constraint: str, confidence: Array, outcome: Array, samples: Sequence[Sample]
) -> dict[str, Rule]:
    metadata, expected = [sample.metadata for sample in samples], [sample.expected for sample in samples]
    problem = field_problem(by, expected, metadata) if samples else "the fold has no sample with a stated probability"
    if problem:
        raise SpecError(f"thresholds(by={by.title!r}): {problem}")
    slicing = slice_samples(by, expected, metadata)
    has_slice = slicing.codes >= 0
    for code, name in enumerate(slicing.names):
        if len(set(outcome[slicing.codes == code].tolist())) < 2:
            raise SpecError(
                f"thresholds(by={by.title!r}): slice {name!r} has one outcome only; choose another fold or field"
            )
    model = optimizer(
        estimator=_stated_model(),
        constraints=constraint,
        objective="balanced_accuracy_score" if constraint == "equalized_odds" else "accuracy_score",
        prefit=True,
        predict_method="predict",
    )
    labels = np.array(slicing.names, dtype=object)[slicing.codes[has_slice]]
    model.fit(confidence[has_slice][:, None], outcome[has_slice].astype(int), sensitive_features=labels)
    interpolation = model.interpolated_thresholder_.interpolation_dict
    return {str(name): _rule(interpolation[name]) for name in slicing.names}


def _rule(rule: Any) -> Rule:
    operations = [(float(rule[f"p{k}"]), rule[f"operation{k}"]) for k in (0, 1)]
    pairs = tuple((share, Threshold(float(each.threshold), each.operator == ">")) for share, each in operations)
    return Rule(pairs, float(rule.get("p_ignore", 0.0)), float(rule.get("prediction_constant", 0.0)))


def reweigh(rows: Iterable[Mapping[str, Any] | Sample], *, by: str, label: str) -> list[dict[str, Any]]:
    """Return the rows with a `weight`: how often the row's value and label would come together, over how often they do.

    The weight of value a and label y is P(a) P(y) / P(a, y), as AIF360's Reweighing. `by` and `label` are keys of the rows, or of
    their `expected` or `metadata`, or keys inside a key (`client.region`). A weight that a row has already is multiplied.
    `trainer.datums` reads the weights. Raises SpecError for a row without one of both, and where every row has one value.

    >>> rows = [{"sex": "f", "income": 1}, {"sex": "f", "income": 0}, {"sex": "m", "income": 1}, {"sex": "m", "income": 1}]
    >>> [round(row["weight"], 3) for row in reweigh(rows, by="sex", label="income")]
    [1.5, 0.5, 0.75, 0.75]
    """
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise SpecError(f"reweigh has rows={rows!r}: read the file first, and pass its rows")
    for argument, name in (("by", by), ("label", label)):
        if not isinstance(name, str):
            raise SpecError(f"reweigh has {argument}={name!r}: write a key of the rows as text")
    plain = [_as_row(row, number) for number, row in enumerate(rows, 1)]
    pairs = [(_value(row, by, number), _value(row, label, number)) for number, row in enumerate(plain, 1)]
    values, labels, together = Counter(a for a, _ in pairs), Counter(y for _, y in pairs), Counter(pairs)
    for name, counts in ((by, values), (label, labels)):
        if len(counts) < 2:
            what = f"every row has {name} = {next(iter(counts))!r}" if counts else "there are no rows"
            raise SpecError(f"reweigh(by={by!r}, label={label!r}): {what}; choose another field")
    n = len(pairs)
    return [
        {**row, "weight": _own_weight(row, number) * values[a] * labels[y] / (n * together[a, y])}
        for number, (row, (a, y)) in enumerate(zip(plain, pairs, strict=True), 1)
    ]


def _as_row(row: Mapping[str, Any] | Sample, number: int) -> dict[str, Any]:
    if isinstance(row, Sample):
        return {"id": row.id, "input": row.input, "expected": row.expected, "metadata": dict(row.metadata)}
    if not isinstance(row, Mapping):
        raise SpecError(f"reweigh: row {number} is {describe_type(row)}; pass mappings, such as lines of a JSONL file")
    return dict(row)


def _value(row: Mapping[str, Any], name: str, number: int) -> str:
    value = read_field(name, row.get("expected"), row)
    if not has_value(value):
        has = f"{name} = {value!r}" if name in row else f"no {name!r}; it has {', '.join(map(repr, row)) or 'nothing'}"
        raise SpecError(f"reweigh: row {number} has {has}; leave it out, or give it a value")
    return str(value)


def _own_weight(row: Mapping[str, Any], number: int) -> float:
    weight = row.get("weight", 1.0)
    value = float(weight) if isinstance(weight, Real) and not isinstance(weight, bool) else math.nan
    if not 0 <= value < math.inf:
        raise SpecError(f"reweigh: row {number} has weight = {weight!r}; write a number of at least 0, or leave it out")
    return value
