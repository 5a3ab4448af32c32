"""The gate of a model: frozen by hand, or by the first promotion, and asked for by each promotion after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.model_gates import Demands, GateChange, GateEntry, ModelGate, SuiteRecord
from pytest_crucible.records.registry import Version
from pytest_crucible.registry.gate_differences import gate_changes
from pytest_crucible.registry.gate_rules import GateCheck, freeze_problems, gate_shortcomings
from pytest_crucible.registry.proof import Proof
from pytest_crucible.registry.transitions import change_state
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.versions import StoredRegistry

Collect = Callable[[tuple[str, ...], tuple[str, ...]], SuiteRecord]
"""Collects a suite by pytest's arguments, with variables of the environment by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionGate:
    """The gate that one promotion is decided by."""

    entry: GateEntry | None
    """None where the model has no gate yet, and the suite cannot be one."""
    is_new: bool
    """The promotion freezes it."""
    check: GateCheck | None
    """None where the suite cannot be collected."""
    problems: tuple[str, ...] = ()

    @property
    def alpha(self) -> float:
        """The error rate that no run may exceed."""
        return 1.0 if self.entry is None else float(self.entry.gate.settings["alpha"])

    def shortcomings(self, proof: Proof) -> list[str]:
        """Return what keeps a run from meeting the gate, a sentence each."""
        return [*self.problems, *([] if self.check is None else gate_shortcomings(self.check, proof))]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """A request to freeze a suite as the gate of a model."""

    model: str
    suite: tuple[str, ...] = ()
    """Empty: that of the present gate, else all that pytest collects without arguments."""
    variables: tuple[str, ...] = ()
    collect: Collect
    rules: Demands
    at: str
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenGate:
    """The gate of a model after it was frozen."""

    entry: GateEntry
    is_new: bool
    """False if it is as it was."""
    changes: tuple[GateChange, ...] = ()
    """What differs from the gate before; empty for a first gate."""


def promotion_gate(registry: StoredRegistry, version: Version, request: GateRequest) -> PromotionGate:
    """Return the gate that a promotion is decided by: that of the model, else its whole suite, which becomes its gate."""
    former = next(reversed(registry.gates(version.model)), None)
    suite, variables = (former.gate.suite, former.gate.variables) if former else ((), ())
    try:
        record = request.collect(suite, variables)
    except SpecError as error:
        return PromotionGate(entry=former, is_new=False, check=None, problems=(str(error),))
    problems = () if former else tuple(freeze_problems(record, version.model))
    if problems:
        return PromotionGate(entry=None, is_new=False, check=None, problems=problems)
    entry = former or _entry(request, _gate(request, suite, variables, record), number=1)
    check = GateCheck(
        gate=entry.gate, number=former.number if former else 0, version=version, suite=record, rules=request.rules
    )
    return PromotionGate(entry=entry, is_new=former is None, check=check)


def freeze_gate(store: RunStore, request: GateRequest) -> FrozenGate:
    """Freeze a suite as the gate of a model; a gate that has not changed stays as it is.

    Raises SpecError for a suite that leaves out experiments, and for a change without a reason.
    """
    frozen: FrozenGate | None = None

    def decide(registry: StoredRegistry) -> tuple[GateEntry, ...]:
        nonlocal frozen
        frozen = _freeze(registry, request)
        return (frozen.entry,) if frozen.is_new else ()

    change_state(store, decide)
    assert frozen is not None
    return frozen


def _freeze(registry: StoredRegistry, request: GateRequest) -> FrozenGate:
    former = next(reversed(registry.gates(request.model)), None)
    suite = request.suite or (former.gate.suite if former else ())
    variables = request.variables or (former.gate.variables if former else ())
    record = request.collect(suite, variables)
    problems = freeze_problems(record, request.model)
    if problems:
        raise SpecError("\n".join(problems))
    gate = _gate(request, suite, variables, record)
    if former is None:
        return FrozenGate(entry=_entry(request, gate, number=1), is_new=True)
    changes = tuple(gate_changes(former.gate, gate))
    if not changes:
        return FrozenGate(entry=former, is_new=False)
    if not request.why:
        texts = ", ".join(change.text for change in changes)
        raise SpecError(f"{former.name} changes ({texts}): add --why TEXT, the reason for the log")
    return FrozenGate(entry=_entry(request, gate, number=former.number + 1), is_new=True, changes=changes)


def _gate(request: GateRequest, suite: tuple[str, ...], variables: tuple[str, ...], record: SuiteRecord) -> ModelGate:
    return ModelGate(
        suite=suite,
        variables=variables,
        settings=record.settings,
        experiments=record.experiments,
        rules=request.rules,
    )


def _entry(request: GateRequest, gate: ModelGate, *, number: int) -> GateEntry:
    return GateEntry(at=request.at, model=request.model, number=number, gate=gate, by=request.by, why=request.why)
