"""Which demands of a model's gate a run, and the suite as it is now, do not meet. Pure functions that return sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_crucible.records.model_gates import Demands, GateChange, ModelGate, SuiteRecord
from pytest_crucible.records.registry import Version
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.registry.gate_differences import RULES, weaker_demands, weaker_rules
from pytest_crucible.registry.proof import Proof

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
    record = recorded_suite(proof)
    if record is None:
        return [
            f"run {proof.run} has no record of what it collected: run it again with this version of pytest-crucible"
        ]
    ran, now = _differences(check, record), _differences(check, check.suite)
    # Where run and suite differ in one way from the gate, one sentence says so.
    return [
        *(f"run {proof.run} {sentence}" for sentence in ran),
        *_missing_verdicts(check, proof, record),
        *(f"the suite {sentence}" for sentence in now if sentence not in ran),
        *_weaker_rules(check),
    ]


def recorded_suite(proof: Proof) -> SuiteRecord | None:
    """Return what a run recorded of its collection; None for a run of an earlier version, and for an imported one."""
    plain = proof.manifest.get("suite")
    return None if plain is None else from_plain(SuiteRecord, plain)


def freeze_problems(record: SuiteRecord, model: str) -> list[str]:
    """Return why a suite cannot be the gate of a model, a sentence each; empty if it can."""
    if not record.experiments and not record.left_out:
        return [
            "the suite has no experiment with a verdict: add @pytest.mark.quality_target(...) or "
            "@pytest.mark.ab_compare(...), or name another suite"
        ]
    return [
        f"the suite leaves out {name}, which is {reason}: let it run{_variable_hint(reason)}, or name the tests of the gate: "
        f"crucible models gate freeze {model} {_example(record)}"
        for name, reason in record.left_out.items()
    ]


def _variable_hint(reason: str) -> str:
    # Tests often skip themselves without a key in the environment.
    return " (--env NAME passes a variable of the environment to it)" if reason.startswith("skipped") else ""


def _example(record: SuiteRecord) -> str:
    whole = [nodeid for nodeid in record.experiments if nodeid not in record.left_out]
    return whole[0] if whole else "SUITE"


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
    missing = [_missing_text(check, record, change) for change in changes if not change.demand]
    return [*left_out, *missing, *_changed_texts(check, [change for change in changes if change.demand])]


def _missing_text(check: GateCheck, record: SuiteRecord, change: GateChange) -> str:
    reason = _absence(record, change.place)
    return f"gives no verdict on {change.place} ({reason}), which {check.name} asks for: run it, or {check.remedy}"


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
    """Return the first three names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _absence(record: SuiteRecord, nodeid: str) -> str:
    """Return why a record has no demands of an experiment."""
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


def _weaker_rules(check: GateCheck) -> Iterator[str]:
    for change in weaker_rules(check.gate, check.rules):
        yield (
            f"{RULES} has {change.demand} = {change.new}, but {check.name} has {change.old}: restore it, or {check.remedy}"
        )


def short_value(value: str | None) -> str:
    """Return a demand as it is shown: hashes by their first digits, and long values cut."""
    if value is None:
        return "nothing"
    words = [word[:12] if len(word) == 64 and word.isalnum() else word for word in value.split(" ")]
    text = " ".join(words)
    return text if len(text) <= 120 else f"{text[:117]}..."
