"""Compares a gate with another gate, with what a run did, and with what a suite is now. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields

from pytest_crucible.records.model_gates import Demands, GateChange, ModelGate, SuiteRecord
from pytest_crucible.registry.settings import RegistrySettings

RULES = "[registry]"
YES, NO = "yes", "no"


def rules_of(settings: RegistrySettings) -> Demands:
    """Return the table `[registry]` as demands."""
    return {field.name: _rule_text(getattr(settings, field.name)) for field in fields(RegistrySettings)}


def gate_changes(old: ModelGate, new: ModelGate) -> list[GateChange]:
    """Return everything that differs between two gates, in whatever direction."""
    changes = list(_changes("", "suite", " ".join(old.suite), " ".join(new.suite)))
    changes += _changes("", "variables", " ".join(old.variables), " ".join(new.variables))
    changes += _differing("", old.settings, new.settings)
    changes += _differing(RULES, old.rules, new.rules)
    for nodeid in sorted({*old.experiments, *new.experiments}):
        changes += _experiment_changes(nodeid, old.experiments.get(nodeid), new.experiments.get(nodeid))
    return changes


def weaker_demands(gate: ModelGate, record: SuiteRecord) -> list[GateChange]:
    """Return the demands of a gate that a record does not have, or has otherwise, unless that is harder to meet.

    An experiment that the gate does not name adds verdicts, and takes nothing away.
    """
    changes = [change for change in _differing("", gate.settings, record.settings) if not _is_stricter(change)]
    for nodeid, demands in gate.experiments.items():
        found = _experiment_changes(nodeid, demands, record.experiments.get(nodeid))
        changes += [change for change in found if not _is_stricter(change)]
    return changes


def weaker_rules(gate: ModelGate, rules: Demands) -> list[GateChange]:
    """Return the rules of `[registry]` that are weaker than those of the gate."""
    return [change for change in _differing(RULES, gate.rules, rules) if not _is_stricter(change)]


def _experiment_changes(nodeid: str, old: Demands | None, new: Demands | None) -> Iterator[GateChange]:
    if old is None or new is None:
        yield GateChange(place=nodeid, demand="", old=_count(old), new=_count(new))
    else:
        yield from _differing(nodeid, old, new)


def _differing(place: str, old: Demands, new: Demands) -> Iterator[GateChange]:
    for name in sorted({*old, *new}):
        yield from _changes(place, name, old.get(name), new.get(name))


def _changes(place: str, name: str, old: str | None, new: str | None) -> Iterator[GateChange]:
    if old != new:
        yield GateChange(place=place, demand=name, old=old, new=new)


def _count(demands: Demands | None) -> str | None:
    return None if demands is None else f"{len(demands)} demands"


def _is_stricter(change: GateChange) -> bool:
    """Return whether a difference makes verdicts harder to meet, so that no gate needs to refuse it."""
    if change.old is None:
        # One more verdict, and the metrics that it needs.
        return change.demand.startswith(("target ", "comparison of ", "metric "))
    if change.demand.startswith("target "):
        return change.new == "bound"
    rule = _STRICTER.get(f"{change.place}.{change.demand}" if change.place == RULES else change.demand)
    return rule is not None and change.new is not None and rule(change.old, change.new)


def _is_at_most(old: str, new: str) -> bool:
    return float(new) <= float(old)


_STRICTER: Mapping[str, Callable[[str, str], bool]] = {
    # A run is decided again at the smallest of its own, the gate's and the project's.
    "alpha": lambda old, new: True,
    "strict": lambda old, new: new == YES,
    "early stop": lambda old, new: new == NO,
    "repeats": lambda old, new: int(new) >= int(old),
    f"{RULES}.proven": lambda old, new: new == YES,
    f"{RULES}.clean_commit": lambda old, new: new == YES,
    f"{RULES}.max_age_days": _is_at_most,
    # Without an era, each run has its own alpha.
    f"{RULES}.era_alpha": lambda old, new: new != NO and (old == NO or _is_at_most(old, new)),
}


def _rule_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return YES if value else NO
    return repr(float(value))  # type: ignore[arg-type]  # the other settings are numbers
