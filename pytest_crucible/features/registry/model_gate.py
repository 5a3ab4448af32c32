"""The gate of a model: frozen by hand, or by the first promotion, and asked for by each promotion after it.

It is compared with another gate, with what a run did, and with what a suite is now; each difference is a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from pytest_crucible.features.registry.evidence import Proof
from pytest_crucible.features.registry.records import GateChange, GateEntry, ModelGate, Version
from pytest_crucible.features.registry.rules import RegistrySettings
from pytest_crucible.features.registry.store import StoredRegistry, append_entries, load_registry
from pytest_crucible.features.registry.suite_record import Demands, SuiteRecord
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store.runs import RunStore

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
        differing = _experiment_changes(nodeid, demands, record.experiments.get(nodeid))
        changes += [change for change in differing if not _is_stricter(change)]
    return changes


def weaker_rules(gate: ModelGate, rules: Demands) -> list[GateChange]:
    """Return the rules of `[registry]` that are weaker than those of the gate."""
    return [change for change in _differing(RULES, gate.rules, rules) if not _is_stricter(change)]


def _experiment_changes(nodeid: str, old: Demands | None, new: Demands | None) -> Iterator[GateChange]:
    if old is None or new is None:
        counts = (None if demands is None else f"{len(demands)} demands" for demands in (old, new))
        yield GateChange(place=nodeid, demand="", old=next(counts), new=next(counts))
    else:
        yield from _differing(nodeid, old, new)


def _differing(place: str, old: Demands, new: Demands) -> Iterator[GateChange]:
    for name in sorted({*old, *new}):
        yield from _changes(place, name, old.get(name), new.get(name))


def _changes(place: str, name: str, old: str | None, new: str | None) -> Iterator[GateChange]:
    if old != new:
        yield GateChange(place=place, demand=name, old=old, new=new)


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


MOST_NAMES = 3
"""Experiments that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """A gate, and what is compared with it."""

    gate: ModelGate
    number: int
    """The number of the gate; 0 for one that the promotion itself freezes."""
    version: Version
    suite: SuiteRecord
    """What pytest collects now."""
    rules: Demands
    """The table `[registry]` as it is now."""

    @property
    def name(self) -> str:
        return f"gate {self.number} of {self.version.model}" if self.number else f"the suite of {self.version.model}"

    @property
    def remedy(self) -> str:
        """Return how to change the gate, or how to freeze another first one."""
        if not self.number:
            return f"name the tests of its gate with `crucible models gate freeze {self.version.model} SUITE`"
        return f"change the gate with `crucible models gate freeze {self.version.model} --why TEXT`"


def gate_shortcomings(check: GateCheck, proof: Proof) -> list[str]:
    """Return what keeps a run from meeting a gate, a sentence each; empty if it meets all of it."""
    plain = proof.manifest.get("suite")
    # A run of an earlier version, and an imported one, recorded nothing of its collection.
    if plain is None:
        return [
            f"run {proof.run} has no record of what it collected: run it again with this version of pytest-crucible"
        ]
    record = from_plain(SuiteRecord, plain)
    ran, now = _differences(check, record), _differences(check, check.suite)
    # Where run and suite differ in one way from the gate, one sentence says so.
    return [
        *(f"run {proof.run} {sentence}" for sentence in ran),
        *_missing_verdicts(check, proof, record),
        *(f"the suite {sentence}" for sentence in now if sentence not in ran),
        *(
            f"{RULES} has {change.demand} = {change.new}, but {check.name} has {change.old}: restore it, or {check.remedy}"
            for change in weaker_rules(check.gate, check.rules)
        ),
    ]


def freeze_problems(record: SuiteRecord, model: str) -> list[str]:
    """Return why a suite cannot be the gate of a model, a sentence each; empty if it can."""
    if not record.experiments and not record.left_out:
        return [
            "the suite has no experiment with a verdict: add @pytest.mark.quality_target(...) or "
            "@pytest.mark.ab_compare(...), or name another suite"
        ]
    example = next((nodeid for nodeid in record.experiments if nodeid not in record.left_out), "SUITE")
    # Tests often skip themselves without a key in the environment.
    variable = " (--env NAME passes a variable of the environment to it)"
    return [
        f"the suite leaves out {name}, which is {reason}: let it run{variable if reason.startswith('skipped') else ''}, or name "
        f"the tests of the gate: crucible models gate freeze {model} {example}"
        for name, reason in record.left_out.items()
    ]


def _differences(check: GateCheck, record: SuiteRecord) -> list[str]:
    """Return how a record is weaker than the gate, as sentences without their subject."""
    left_out = [
        f"leaves out {nodeid} ({record.left_out[nodeid]}), which {check.name} asks for: let it run, or {check.remedy}"
        for nodeid in check.gate.experiments
        if nodeid in record.left_out
    ]
    changes = [
        change
        for change in weaker_demands(check.gate, record)
        # A deselected experiment has no demands either.
        if change.demand or change.place not in record.left_out
    ]
    missing = [
        f"gives no verdict on {change.place} ({_absence(record, change.place)}), which {check.name} asks for: run it, or "
        f"{check.remedy}"
        for change in changes
        if not change.demand
    ]
    return [*left_out, *missing, *_changed_texts(check, [change for change in changes if change.demand])]


def _changed_texts(check: GateCheck, changes: Iterable[GateChange]) -> Iterator[str]:
    """Yield a sentence for each difference; one that several experiments have, such as a conftest.py, once."""
    places: dict[tuple[str, str | None, str | None], list[str]] = {}
    for change in changes:
        places.setdefault((change.demand, change.old, change.new), []).append(change.place)
    for (demand, old, new), nodeids in places.items():
        of = f" of {_first_few(nodeids)}" if any(nodeids) else ""
        yield (
            f"has {demand}{of}: {short_value(new)}, but {check.name} has {short_value(old)}: restore it, or {check.remedy}"
        )


def _first_few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _absence(record: SuiteRecord, nodeid: str) -> str:
    if nodeid in record.without_verdict:
        return "it has no target and no comparison"
    file = nodeid.partition("::")[0]
    return f"{file} is {record.left_out[file]}" if file in record.left_out else "not collected"


def _missing_verdicts(check: GateCheck, proof: Proof, record: SuiteRecord) -> Iterator[str]:
    """Yield the experiments of the gate that were collected and did not run, such as one that a fixture skipped."""
    ran = {analysis.plan.nodeid for analysis in proof.analyses}
    for nodeid in check.gate.experiments:
        if nodeid in record.experiments and nodeid not in ran and nodeid not in record.left_out:
            yield f"run {proof.run} collected {nodeid} and did not run it, which {check.name} asks for: run it again"


def short_value(value: str | None) -> str:
    """Return a demand as it is shown: hashes by their first digits, and long values cut."""
    if value is None:
        return "nothing"
    words = [word[:12] if len(word) == 64 and word.isalnum() else word for word in value.split(" ")]
    text = " ".join(words)
    return text if len(text) <= 120 else f"{text[:117]}..."


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
    entry = former or _entry(request, suite, variables, record, number=1)
    check = GateCheck(
        gate=entry.gate, number=former.number if former else 0, version=version, suite=record, rules=request.rules
    )
    return PromotionGate(entry=entry, is_new=former is None, check=check)


def freeze_gate(store: RunStore, request: GateRequest) -> FrozenGate:
    """Freeze a suite as the gate of a model; a gate that has not changed stays as it is.

    Raises SpecError for a suite that leaves out experiments, and for a change without a reason.
    """
    while True:
        registry = load_registry(store)
        frozen = _freeze(registry, request)
        # Another process may have changed the registry meanwhile.
        if not frozen.is_new or append_entries(store, registry, [frozen.entry]):
            return frozen


def _freeze(registry: StoredRegistry, request: GateRequest) -> FrozenGate:
    former = next(reversed(registry.gates(request.model)), None)
    suite = request.suite or (former.gate.suite if former else ())
    variables = request.variables or (former.gate.variables if former else ())
    record = request.collect(suite, variables)
    problems = freeze_problems(record, request.model)
    if problems:
        raise SpecError("\n".join(problems))
    entry = _entry(request, suite, variables, record, number=former.number + 1 if former else 1)
    if former is None:
        return FrozenGate(entry=entry, is_new=True)
    changes = tuple(gate_changes(former.gate, entry.gate))
    if not changes:
        return FrozenGate(entry=former, is_new=False)
    if not request.why:
        texts = ", ".join(change.text for change in changes)
        raise SpecError(f"{former.name} changes ({texts}): add --why TEXT, the reason for the log")
    return FrozenGate(entry=entry, is_new=True, changes=changes)


def _entry(
    request: GateRequest, suite: tuple[str, ...], variables: tuple[str, ...], record: SuiteRecord, *, number: int
) -> GateEntry:
    gate = ModelGate(
        suite=suite, variables=variables, settings=record.settings, experiments=record.experiments, rules=request.rules
    )
    return GateEntry(at=request.at, model=request.model, number=number, gate=gate, by=request.by, why=request.why)
