"""Decides by one metric which replies have passed, and how far two replies are apart."""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from pytest_crucible.features.training.set_attempts import Attempt
from pytest_crucible.features.training.set_rows import TrainingRow, TrainingTask
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

_LIMITED = re.compile(r"(?P<metric>.+?)\s*(?P<relation>>=|<=|==|>|<)\s*(?P<limit>[-+.\w]+)")
_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True, slots=True)
class Criterion:
    """A metric, and the values of it with which a reply passes."""

    metric: str
    relation: str
    limit: float
    best: float
    """The best possible value, which a gold answer has; infinite or NaN if the metric declares none."""
    worst: float
    """The value of a reply that failed before it could be scored."""

    @property
    def text(self) -> str:
        """The criterion as `--on` takes it."""
        return f"{self.metric} {self.relation} {self.limit:g}"

    def passes(self, value: float) -> bool:
        return bool(_COMPARE[self.relation](value, self.limit))

    def gap(self, chosen: float, rejected: float) -> float:
        """Return the difference by which the chosen reply is better, in the metric's direction. NaN if a value is unknown."""
        difference = chosen - rejected
        return -difference if self.relation in ("<", "<=") else difference


def parse_on(text: str) -> tuple[str, str, float | None]:
    """Return metric, relation and limit of `--on`, such as `accuracy` or `entailment >= 0.75`. Raises SpecError.

    >>> parse_on("entailment >= 0.75"), parse_on("accuracy")
    (('entailment', '>=', 0.75), ('accuracy', '', None))
    """
    match = _LIMITED.fullmatch(text.strip())
    if match is None:
        return text.strip(), "", None
    try:
        limit = float(match["limit"])
    except ValueError:
        raise SpecError(
            f"--on={text!r} cannot be read: write a metric and where it passes, such as --on 'entailment >= 0.75'"
        ) from None
    return match["metric"], match["relation"], limit


def make_criterion(on: str, facts: MetricFacts, *, is_binary: bool) -> Criterion:
    """Return the criterion of `--on` for a metric. Raises SpecError for a score without a limit and without finite bounds.

    True passes (false, where lower is better). A score passes in the better half of its range.
    """
    metric, relation, limit = parse_on(on)
    low, high = (0.0, 1.0) if is_binary else (facts.low, facts.high)
    is_lower = facts.direction == "lower" if not relation else relation in ("<", "<=")
    best, worst = (low, high) if is_lower else (high, low)
    if limit is None:
        if not (math.isfinite(low) and math.isfinite(high)):
            raise SpecError(
                f"metric {metric!r} has scores without declared bounds: write where a reply passes, such as "
                f"--on '{metric} {'<=' if is_lower else '>='} 0.5'"
            )
        relation, limit = ("<=" if is_lower else ">="), (low + high) / 2
        # A score in the very middle is neither good nor bad: it fails.
        relation = relation if is_binary else relation[0]
    return Criterion(metric, relation, limit, best, worst)


Criteria = Mapping[str, Criterion | None]
"""The criterion of each experiment that has the metric."""


@dataclass(frozen=True)
class Selected:
    """The rows, and how many replies stay out for each reason."""

    rows: list[TrainingRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


class _Judged(NamedTuple):
    attempt: Attempt
    value: float
    passed: bool


def select_rows(attempts: Iterable[Attempt], task: TrainingTask, criteria: Criteria, gap: float) -> Selected:
    """Return the rows of a training set, in the order of the attempts.

    `sft`: one row a prompt with the gold answer, else one for each passing reply. `dpo`: one row for each failing reply.
    `kto`: one row for each reply that passed or failed.
    """
    selected = Selected()
    for of_prompt in _by_prompt(attempts, selected.left_out).values():
        if task == "sft":
            selected.rows.extend(_supervised_rows(of_prompt, criteria, selected.left_out))
        else:
            outcomes = [_judge(attempt, criteria, selected.left_out) for attempt in of_prompt]
            judged = [outcome for outcome in outcomes if outcome is not None]
            choose = (
                _preferences(judged, criteria, gap, selected.left_out) if task == "dpo" else map(_label_row, judged)
            )
            selected.rows.extend(choose)
    return selected


def select_adversarial(attacked: Iterable[Attempt], clean: Iterable[Attempt], criteria: Criteria) -> Selected:
    """Return a row for each attacked prompt whose reply failed: with the gold answer, else with a reply to the sample that passed.

    `clean` are the replies of the same arms to the original samples.
    """
    selected = Selected()
    passed: dict[tuple[str, int], Attempt] = {}
    for attempt in clean:
        judged = _judge(attempt, criteria, Counter())
        if judged is not None and judged.passed:
            passed.setdefault((attempt.sample.dataset, attempt.sample.position), attempt)
    for of_prompt in _by_prompt(attacked, selected.left_out).values():
        for attempt in of_prompt:
            judged = _judge(attempt, criteria, selected.left_out)
            if judged is None:
                continue
            if judged.passed:
                selected.left_out["the attacked reply passed"] += 1
                continue
            gold, other = gold_answer(attempt), passed.get((attempt.sample.dataset, attempt.sample.position))
            if gold is None and other is None:
                selected.left_out["failed, and the sample has no answer that passed"] += 1
                continue
            completion = gold or (other.reply if other else "") or ""
            origin = {**_origin(attempt), "completion": "gold" if gold else "clean"}
            selected.rows.append(_row(attempt, completion, origin))
    return selected


def _by_prompt(attempts: Iterable[Attempt], left_out: Counter[str]) -> dict[Any, list[Attempt]]:
    """Return attempts with a usable prompt, by sample and prompt."""
    groups: dict[Any, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.calls > 1:
            left_out["several calls in one sample"] += 1
        elif attempt.prompt is None:
            left_out["the prompt is neither a text nor messages"] += 1
        else:
            prompt = attempt.prompt if isinstance(attempt.prompt, str) else canonical(attempt.prompt)
            key = (attempt.sample.dataset, attempt.sample.position, prompt)
            groups.setdefault(key, []).append(attempt)
    return groups


def _judge(attempt: Attempt, criteria: Criteria, left_out: Counter[str]) -> _Judged | None:
    """Return an attempt that passed or failed; None, counted, for one that did neither."""
    criterion = criteria.get(attempt.source.experiment)
    reason = _why_not_judged(attempt, criterion)
    if reason:
        left_out[reason] += 1
    if reason or criterion is None:
        return None
    if attempt.state == "failed":
        return _Judged(attempt, criterion.worst, False)
    value = math.nan if attempt.value is None else attempt.value
    return _Judged(attempt, value, criterion.passes(value))


def _why_not_judged(attempt: Attempt, criterion: Criterion | None) -> str:
    if attempt.state in ("lost", "skipped"):
        return attempt.state
    if not (attempt.reply or "").strip():
        return "the reply is empty"
    if criterion is None:
        return "the experiment does not have the metric"
    if attempt.state == "answered" and (attempt.value is None or math.isnan(attempt.value)):
        return "the metric does not apply"
    return ""


def _supervised_rows(attempts: Sequence[Attempt], criteria: Criteria, left_out: Counter[str]) -> Iterator[TrainingRow]:
    gold = gold_answer(attempts[0])
    if gold is not None:
        left_out["the prompt has its gold answer already"] += len(attempts) - 1
        yield _row(attempts[0], gold, {**_origin(attempts[0]), "completion": "gold"})
        return
    for attempt in attempts:
        judged = _judge(attempt, criteria, left_out)
        if judged is not None and judged.passed:
            yield _row(attempt, attempt.reply or "", _origin(attempt))
        elif judged is not None:
            left_out["failed, and the sample has no gold answer"] += 1


def _preferences(
    judged: Sequence[_Judged], criteria: Criteria, gap: float, left_out: Counter[str]
) -> Iterator[TrainingRow]:
    passed = [attempt for attempt in judged if attempt.passed]
    failed = [attempt for attempt in judged if not attempt.passed]
    gold = gold_answer(judged[0].attempt) if judged else None
    left_out["passed, and no reply to the sample failed"] += 0 if failed else len(passed)
    for rejected in failed:
        pair = _pair(rejected, gold, passed, criteria, gap)
        if isinstance(pair, str):
            left_out[pair] += 1
        else:
            yield pair


def _pair(
    rejected: _Judged, gold: str | None, passed: Sequence[_Judged], criteria: Criteria, gap: float
) -> TrainingRow | str:
    """Return the row with the best chosen reply, or the reason against one."""
    criterion = criteria[rejected.attempt.source.experiment]
    assert criterion is not None  # a judged attempt has one
    attempt = rejected.attempt
    origin = {**_origin(attempt), "rejected_score": _number(rejected.value)}
    if gold is not None and _is_wide(criterion.gap(criterion.best, rejected.value), gap):
        return _row(attempt, gold, {**origin, "chosen": "gold"}, rejected=attempt.reply)
    if not passed:
        return "failed, and the sample has no chosen reply" if gold is None else f"closer than the gap of {gap:g}"
    # The first of the best ones: equal runs give equal rows.
    best = max(passed, key=lambda attempt: criterion.gap(attempt.value, 0.0))
    if not _is_wide(criterion.gap(best.value, rejected.value), gap):
        return f"closer than the gap of {gap:g}"
    place: dict[str, Any] = {"run": best.attempt.source.run, "variant": best.attempt.variant}
    origin["chosen"] = {**place, "repeat": best.attempt.repeat, "score": _number(best.value)}
    return _row(attempt, best.attempt.reply or "", origin, rejected=attempt.reply)


def _is_wide(difference: float, gap: float) -> bool:
    """Return whether a difference keeps the gap. An unknown one keeps it only if no gap is required."""
    # Scores are rounded: 0.7 - 0.2 is a little less than 0.5.
    return gap == 0 if math.isnan(difference) else difference >= gap - 1e-9


def _label_row(judged: _Judged) -> TrainingRow:
    origin = {**_origin(judged.attempt), "score": _number(judged.value)}
    return _row(judged.attempt, judged.attempt.reply or "", origin, label=judged.passed)


def gold_answer(attempt: Attempt) -> str | None:
    """Return the sample's expected answer, if it is text."""
    expected = attempt.sample.expected
    return expected if isinstance(expected, str) and expected.strip() else None


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _origin(attempt: Attempt) -> dict[str, Any]:
    source, sample = attempt.source, attempt.sample
    origin = {
        "run": source.run,
        "experiment": source.experiment,
        "arm": source.arm,
        "sample": sample.id,
        "variant": attempt.variant,
        "repeat": attempt.repeat,
    }
    return {**origin, "gate": True} if sample.is_gate else origin


def _row(
    attempt: Attempt,
    completion: str,
    origin: Mapping[str, Any],
    *,
    rejected: str | None = None,
    label: bool | None = None,
) -> TrainingRow:
    sample = attempt.sample
    # An ungrouped sample is a group of its own; its id could be the name of a group.
    group = f"group {sample.group}" if sample.group is not None else f"sample {sample.id}"
    return TrainingRow(attempt.prompt, attempt.template, attempt.own, completion, rejected, label, group, origin)
