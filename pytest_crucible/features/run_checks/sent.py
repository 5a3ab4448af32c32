"""Checks what was sent: the parameters of each call, and the settings of the adapter that every request has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding
from pytest_crucible.records import Arm
from pytest_crucible.records.call_differences import SentCalls, SentComparison
from pytest_crucible.records.serialize import canonical

Kinds = Counter[str]
"""Distinct values of one setting as JSON, with their number of calls; empty text where a call has none."""
WEIGHTS = (
    *("base", "base_model", "base_url", "checkpoint", "lora", "model", "model_path", "path", "project", "recipe"),
    *("hyperparameters", "script", "seed", "seeds"),
)
"""Settings that say which model answers: these are what arms are compared for."""
MOST_LETTERS = 40
"""Characters of a value that are shown."""
MOST_VALUES = 3
"""Values of a setting that are listed; a test may pass one of its own for each sample."""


def check_sent(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield one line on the settings of all calls, with those in which arms differ without a declaration."""
    sent = [
        sent_settings(columns) or (recorded_settings(columns) if inputs.plan.is_imported else {})
        for columns in inputs.arms
    ]
    if not any(sent):
        return
    declared = declared_differences(inputs)
    of_test = dict.fromkeys(
        name for baseline in inputs.arms[1:] for name in differences_of_test(inputs.arms[0], baseline)
    )
    of_tables = [
        name for name in _names(sent) if (name in declared or inputs.plan.is_imported) and _differs(name, inputs, sent)
    ]
    differing = list(dict.fromkeys((*of_tables, *of_test)))
    first = {name: _first_difference(name, sent) for name in differing}
    undeclared = [name for name in differing if not declared.intersection((name, "*"))]
    yield Finding(
        check="sent",
        cells=tuple(_describe(settings, first) for settings in sent),
        differs=f"differs: {', '.join(_with_declaration(name, inputs) for name in differing)}" if differing else "",
        problem=_problem(undeclared, inputs, sent, first) if undeclared else "",
        document=[
            {name: dict(kinds) if len(kinds) <= MOST_VALUES else len(kinds) for name, kinds in settings.items()}
            for settings in sent
        ],
    )


def sent_settings(columns: ArmColumns) -> dict[str, Kinds]:
    """Return the values of each setting in the calls of an arm; empty for an arm without calls."""
    if not columns.own_calls:
        return {}
    arm = columns.arm
    own = {name: value for name, value in arm.settings.items() if name not in WEIGHTS}
    models = _model_settings(arm)
    of_calls = Counter(columns.calls.parameters[row] for row in columns.own_calls)
    settings: dict[str, Kinds] = {}
    for text, count in of_calls.items():
        parameters = json.loads(text) if text else arm.parameters
        for model in models:
            for name, value in {**own, **model, **parameters}.items():
                settings.setdefault(name, Counter())[canonical(value)] += count
    total = len(columns.own_calls) * len(models)
    for kinds in settings.values():
        if missing := total - kinds.total():
            kinds[""] = missing
    return settings


def _model_settings(arm: Arm) -> list[dict[str, Any]]:
    """Return what each model of an arm is sent beside the arm's own settings: of an ensemble, its members' tables."""
    members: Iterable[Mapping[str, Any]] = arm.member_settings.values() or [{}]
    return [{name: value for name, value in member.items() if name not in WEIGHTS} for member in members]


def differences_of_test(candidate: ArmColumns, baseline: ArmColumns) -> list[str]:
    """Return the parameters that differ between two arms because of the test, not of the adapters.

    The arms are compared unit by unit. Units of only one arm are left out: a lost sample is not a difference.
    """
    arms = candidate, baseline
    own = tuple(canonical(columns.arm.parameters) for columns in arms)
    ours, theirs = (_unit_calls(columns, text) for columns, text in zip(arms, own, strict=True))
    comparison = SentComparison(candidate.arm, baseline.arm, (own[0], own[1]), with_messages=False)
    pairs = {(ours[unit], theirs[unit]) for unit in ours.keys() & theirs.keys()}
    return sorted({name for pair in pairs for name in comparison.differences(*pair)})


def _unit_calls(columns: ArmColumns, own: str) -> dict[tuple[int, int], SentCalls]:
    """Return the parameters of the calls of each unit, by position and repeat."""
    calls = columns.calls
    texts = {text: canonical(json.loads(text)) if text else own for text in set(calls.parameters)}
    units: dict[tuple[int, int], dict[str, None]] = {}
    for row in columns.own_calls:
        units.setdefault((calls.positions[row], calls.repeats[row]), {})[texts[calls.parameters[row]]] = None
    return {unit: SentCalls(None, tuple(settings)) for unit, settings in units.items()}


def recorded_settings(columns: ArmColumns) -> dict[str, Kinds]:
    """Return the settings that a file has for all replies of an arm, where it has no requests."""
    return {name: Counter({canonical(value): 1}) for name, value in columns.arm.parameters.items()}


def declared_differences(inputs: CheckInputs) -> frozenset[str]:
    """Return the settings that the tables of the adapters, the marker or the option declare to differ between the arms."""
    if inputs.plan.is_imported:
        return frozenset(inputs.plan.arms_differ_in)
    arms = [columns.arm for columns in inputs.arms]
    tables = [
        [{**model, **arm.settings, **arm.parameters} for model in arm.member_settings.values() or [{}]] for arm in arms
    ]
    names = {name for models in tables for model in models for name in model}
    of_adapters = {name for name in names if len({_all_values(name, models) for models in tables}) > 1}
    return frozenset((*of_adapters, *inputs.plan.arms_differ_in))


def _all_values(name: str, tables: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(canonical(table.get(name)) for table in tables)


def _with_declaration(name: str, inputs: CheckInputs) -> str:
    return f"{name} (declared)" if {name, "*"} & {*inputs.plan.arms_differ_in} else name


def _names(sent: list[dict[str, Kinds]]) -> list[str]:
    return list(dict.fromkeys(name for settings in sent for name in settings))


def _differs(name: str, inputs: CheckInputs, sent: list[dict[str, Kinds]]) -> bool:
    """Return whether arms were sent other values of a setting.

    Those of arms without calls are unknown, and so are those of members in runs that did not record their tables.
    """
    tables = [
        settings
        for columns, settings in zip(inputs.arms, sent, strict=True)
        if settings and (name in settings or columns.arm.member_settings or not columns.arm.members)
    ]
    return len({frozenset(settings.get(name, {"": 1})) for settings in tables}) > 1


def _problem(names: list[str], inputs: CheckInputs, sent: list[dict[str, Kinds]], first: Mapping[str, int]) -> str:
    name = names[0]
    values = [
        f"{columns.arm.name} {_values(settings.get(name), first[name])}"
        for columns, settings in zip(inputs.arms, sent, strict=True)
        if settings
    ]
    if inputs.plan.is_imported:
        return (
            f"the arms were sent different {' and '.join(names)} ({name}: {', '.join(values)}): a difference of the arms may come "
            f"from that; if it is what you compare, add {' '.join(f'--arms-differ-in={each}' for each in names)}"
        )
    return (
        f"the test sent different {' and '.join(names)} ({name}: {', '.join(values)}), and no adapter declares it: a difference "
        f"of the arms may come from that; if it is what you compare, write arms_differ_in={names!r} in the marker"
    )


def _first_difference(name: str, sent: list[dict[str, Kinds]]) -> int:
    """Return the number of characters that all values of a setting begin with."""
    texts = [_text(value) for settings in sent for value in settings.get(name, ()) if value]
    return sum(1 for _ in takewhile(lambda letters: len({*letters}) == 1, zip(*texts, strict=False)))


def _values(kinds: Mapping[str, int] | None, first: int = 0) -> str:
    if kinds and len(kinds) > MOST_VALUES:
        return f"({len(kinds):,} different values)"
    return " and ".join(_short(_text(value), first) for value in kinds) if kinds else "none"


def _describe(settings: Mapping[str, Kinds], first: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {_values(kinds, first.get(name, 0))}" for name, kinds in settings.items())


def _text(value: str) -> str:
    plain: Any = json.loads(value) if value else "none"
    # A line end, such as that of `stop`, would break the line of a note: it is shown as in JSON.
    return plain if isinstance(plain, str) and "\n" not in plain else value


def _short(text: str, first: int) -> str:
    """Return MOST_LETTERS of a text, so that what differs from the character `first` on is among them.

    >>> _short("You are an assistant who answers every question in one word.", 45)
    '...answers every question in one word.'
    """
    if len(text) <= MOST_LETTERS:
        return text
    start = max(0, first - MOST_LETTERS // 2) if first < len(text) else 0
    end = start + MOST_LETTERS
    return f"{'...' if start else ''}{text[start:end].strip()}{'...' if end < len(text) else ''}"


def weights_of(arm: Arm) -> str:
    """Return the declared weights of an arm as JSON: which model answers, wherever it is."""
    return canonical({name: arm.settings[name] for name in WEIGHTS if name in arm.settings})
