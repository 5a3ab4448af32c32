"""Checks who answered: the model's own name, the fingerprint of its configuration, and the server's version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding, Severity
from pytest_crucible.records import Arm
from pytest_crucible.records.calls import Answerer
from pytest_crucible.stats.number_format import quantity


def check_answered(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on who answered, and one more for each arm whose model or server changed while it was measured."""
    answerers = [count_answerers(columns) for columns in inputs.arms]
    if not any(answerers):
        return
    changed = _changed_models(inputs, answerers)
    yield Finding(
        check="answered by",
        cells=tuple(_models(counts) for counts in answerers),
        differs="model changed" if changed else "",
        problem=changed,
        document=[{" ".join(filter(None, who)): count for who, count in counts.items()} for counts in answerers],
    )
    for number, columns in enumerate(inputs.arms):
        for member in columns.members:
            yield from _changes(number, f"{member.arm.name} of {columns.arm.name}", inputs, count_answerers(member))
        if not columns.members:
            yield from _changes(number, columns.arm.name, inputs, answerers[number])


def count_answerers(columns: ArmColumns) -> Counter[Answerer]:
    """Return how many calls of the test each model on each server has answered, where that is known.

    Those of an ensemble are its members' calls: no server has the ensemble's name.
    """
    if columns.members:
        return sum(map(count_answerers, columns.members), Counter())
    answerers = (columns.calls.answered_by[row] for row in columns.own_calls)
    return Counter(answerer for answerer in answerers if answerer is not None)


def _changed_models(inputs: CheckInputs, answerers: Sequence[Counter[Answerer]]) -> str:
    """Return a sentence on a baseline with the candidate's model and server that other models answered; else an empty text."""
    (candidate, *baselines), (ours, *others) = inputs.arms, answerers
    names = {who.model for who in ours}
    for columns, counts in zip(baselines, others, strict=True):
        theirs = {who.model for who in counts}
        if not _declare_one_model(candidate.arm, columns.arm) or "" in names | theirs or not names or not theirs:
            continue
        if names.isdisjoint(theirs):
            now, then = (" and ".join(sorted(models)) for models in (names, theirs))
            return (
                f"{candidate.arm.name} and {columns.arm.name} name one model and server, but {now} answered {candidate.arm.name}, "
                f"and {then} answered {columns.arm.name}: the server's model has changed"
            )
    return ""


def _declare_one_model(ours: Arm, theirs: Arm) -> bool:
    names = ("model", "base_url")
    return "model" in ours.settings and all(ours.settings.get(name) == theirs.settings.get(name) for name in names)


def _models(counts: Counter[Answerer]) -> str:
    models = Counter[str]()
    for answerer, count in counts.items():
        models[answerer.model or answerer.server] += count
    if len(models) == 1:
        return next(iter(models))
    return ", ".join(f"{model} ({count:,})" for model, count in models.most_common())


_PARTS: tuple[tuple[str, Severity], ...] = (("model", "warn"), ("system_fingerprint", "note"), ("server", "note"))
"""A provider changes fingerprints and versions often, and what they mean is not documented."""


def _changes(number: int, name: str, inputs: CheckInputs, counts: Counter[Answerer]) -> Iterator[Finding]:
    for part, severity in _PARTS:
        values = Counter[str]()
        for answerer, count in counts.items():
            values[getattr(answerer, part)] += count
        values.pop("", None)
        if len(values) > 1:
            words = part.replace("_", " ")
            listed = ", ".join(f"{value} ({quantity(count, 'reply')})" for value, count in values.most_common())
            yield Finding(
                check="answered by",
                cells=tuple(listed if arm == number else "" for arm in range(len(inputs.arms))),
                differs=f"{words} changed",
                problem=f"{name} was answered by {len(values)} {words}s: {listed}; its replies are not those of one model",
                severity=severity,
            )
