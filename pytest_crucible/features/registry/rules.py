"""The rules of the registry: which requirements of a state a proof does not meet. Functions that return sentences.

Requirements add up, so that states may be skipped: candidate, then staged, then production.

All runs that compare candidates with one production version may share one error rate, `era_alpha`. The k-th run with new answers
of a candidate is decided at era_alpha / (k (k + 1)). The rates of all runs add up to era_alpha, so that however many candidates
are tried, one that is not better passes with at most that probability (Bonferroni over an endless sequence; Foster & Stine 2008,
doi:10.1111/j.1467-9868.2007.00643.x, call it alpha spending).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.features.registry.records import Action, GateEntry, LogEntry, Version, VersionState, is_version_arm
from pytest_crucible.features.registry.store import (
    PRODUCTION,
    STAGED,
    RegistryState,
    StoredRegistry,
    append_entries,
    load_registry,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Arm, Plan, Verdict
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.database import from_json, json_part
from pytest_crucible.store.history import arms_with_new_replies
from pytest_crucible.store.runs import RunStore

ORDER: tuple[VersionState, ...] = ("draft", "candidate", STAGED, PRODUCTION)
"""States that a promotion leads to, the lowest first."""
EXCLUSIVE = (STAGED, PRODUCTION)
"""States that one version of a model has."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """The facts of a transition that the log records besides the states."""

    at: str
    by: str
    why: str = ""
    run: str | None = None
    forced: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)


Entry = TypeVar("Entry", LogEntry, GateEntry, LogEntry | GateEntry)


def change_state(store: RunStore, decide: Callable[[StoredRegistry], Sequence[Entry]]) -> tuple[Entry, ...]:
    """Append the entries that `decide` returns for the registry as it is, in one transaction. Raises what `decide` raises.

    If another transition came first, `decide` is called again with its result.
    """
    while True:
        registry = load_registry(store)
        entries = decide(registry)
        if not entries or append_entries(store, registry, entries):
            return tuple(entries)


def promotion(state: RegistryState, status: LogEntry, to: VersionState, note: Note) -> tuple[LogEntry, ...]:
    """Return the entries of a promotion: the version that was in the state before is retired.

    Raises SpecError for a version that is there already, or beyond.
    """
    if status.state in ORDER and ORDER.index(status.state) >= ORDER.index(to):
        raise SpecError(
            f"{status.version} is {_describe(status)} already: `crucible models list {status.model}` shows why"
        )
    entries = [_entry("promote", status, to, note)]
    former = state.holder(status.model, to) if to in EXCLUSIVE else None
    if former is not None:
        entries.insert(0, _entry("promote", former, "retired", Note(at=note.at, by=note.by, run=note.run)))
    return tuple(entries)


def rollback(state: RegistryState, model: str, note: Note) -> tuple[LogEntry, ...]:
    """Return the entries that restore the production version before this one. Raises SpecError without one."""
    earlier, holder = state.earlier_production(model), state.holder(model, PRODUCTION)
    if earlier is None:
        raise SpecError(f"{model} has no earlier production version to restore")
    entries = [_entry("roll back", state.statuses[model, earlier], PRODUCTION, note)]
    if holder is not None:
        entries.insert(0, _entry("roll back", holder, "rolled-back", note))
    return tuple(entries)


def retirement(status: LogEntry, note: Note) -> tuple[LogEntry, ...]:
    """Return the entry that withdraws a version. Raises SpecError for one that is withdrawn already."""
    # One that a later promotion replaced may still be restored by a rollback, until it is withdrawn by hand.
    if status.state in ("retired", "rolled-back") and status.action != "promote":
        raise SpecError(
            f"{status.version} is {status.state} already: `crucible models list {status.model} --log` shows why"
        )
    return (_entry("retire", status, "retired", note),)


def check_not_withdrawn(status: LogEntry, run: str, started: str) -> None:
    """Raise SpecError if a version was withdrawn after its proof began: the proof does not have the reason for it."""
    withdrawn = status.state == "rolled-back" or status.action == "retire"
    if withdrawn and started <= status.at:
        raise SpecError(
            f"{status.version} was {_describe(status)} on {status.at[:10]}, after run {run} began: run it again, "
            "then promote that run"
        )


def _entry(action: Action, status: LogEntry, to: VersionState, note: Note) -> LogEntry:
    changed = {"action": action, "state": to, "former": status.state}
    return LogEntry(model=status.model, number=status.number, **vars(note) | changed)


def _describe(status: LogEntry) -> str:
    names = {"production": "in production", "rolled-back": "rolled back", "candidate": "a candidate"}
    return names.get(status.state, status.state)


def known_model(state: RegistryState, model: str) -> None:
    """Raise SpecError, with the nearest name, for a model that is not registered."""
    if model not in state.models:
        hint = suggest(model, state.models, otherwise="run crucible models register ADAPTER --model NAME")
        raise SpecError(f"model {model!r} is not registered: {hint}")


if TYPE_CHECKING:
    from pytest_crucible.features.registry.evidence import Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The rules of production beyond those that always hold."""

    proven: bool = True
    """Every verdict must be proven, not only met."""
    clean_commit: bool = True
    """The run must be of a commit without uncommitted changes."""
    max_age_days: float = 30.0
    """The oldest answer of the run may be that old."""
    era_alpha: float | None = None
    """The error rate that all candidates of one production version share; None: each run has its own."""


_SETTINGS: dict[str, tuple[tuple[type, ...], str]] = {
    "proven": ((bool,), "true"),
    "clean_commit": ((bool,), "true"),
    "max_age_days": ((int, float), "30"),
    "era_alpha": ((int, float), "0.05"),
}
"""Types of the settings, and an example of each."""


def read_registry_settings(root: Path) -> RegistrySettings:
    """Return the settings of a project. `root` is the folder of its configuration. Raises SpecError for an invalid one."""
    table = read_table(root, "registry")
    for name, value in table.items():
        _check(name, value)
    return RegistrySettings(**table)


def _check(name: str, value: Any) -> None:
    if name not in _SETTINGS:
        hint = suggest(name, list(_SETTINGS), always=f"it takes {', '.join(_SETTINGS)}")
        raise SpecError(f"[registry] has {name!r}, which is not one of its settings: {hint}")
    kinds, example = _SETTINGS[name]
    is_kind = isinstance(value, kinds) and (isinstance(value, bool) == (bool in kinds))
    if not is_kind or (name == "max_age_days" and value <= 0) or (name == "era_alpha" and not 0 < value < 0.5):
        raise SpecError(f"[registry] has {name} = {value!r}: write for example {name} = {example}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Production:
    """The version that is in production now, and since when."""

    version: Version
    since: str
    name: str
    """How --compare names it: `production`, or `claims@production` where there are several models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything besides the proof that decides whether a version may be promoted."""

    version: Version
    production: Production | None
    """None if the model has no production version, or where the version is that one."""
    settings: RegistrySettings
    now: datetime.datetime
    expires: datetime.datetime | None = None
    """When a service will delete the weights."""


def shortcomings(proof: Proof, to: VersionState, situation: Situation) -> list[str]:
    """Return the requirements of a state that the proof does not meet, a sentence each; empty if it meets all."""
    problems = list(_candidate(proof))
    if to in ("staged", "production"):
        problems += _check_staged(proof, situation)
    if to == "production":
        problems += _production(proof, situation)
    return problems


def _candidate(proof: Proof) -> Iterator[str]:
    """Yield what the candidate's run lacks: it must be finished, whole and not simulated, with every verdict met."""
    run = f"run {proof.run}"
    if proof.status != "finished":
        yield f"{run} is {proof.status}, not finished: continue it with --crucible-resume"
    for plan in proof.plans:
        if plan.selected < plan.planned:
            yield (
                f"{run} measured {plan.selected} of {quantity(plan.planned, 'sample')} of {plan.nodeid.rpartition('::')[2]}: "
                "run it without -k, -m and --lf"
            )
    simulated = {arm.name: None for plan in proof.plans for arm in plan.arms if arm.simulated}
    if simulated:
        yield f"{run} is simulated ({', '.join(simulated)}): measure a model"
    if not proof.verdicts:
        yield f"{run} has no verdicts: add @pytest.mark.quality_target(...) or @pytest.mark.ab_compare(...)"
    for verdict in proof.verdicts:
        if verdict.state != "met":
            yield f"{run} has {verdict.subject} {verdict.state} when decided again from its answers ({verdict.reason})"
    for verdict in proof.disagreeing:
        yield f"{run} has {verdict.subject} {verdict.state} in its session ({verdict.reason})"


def _check_staged(proof: Proof, situation: Situation) -> Iterator[str]:
    """Yield the error of a run that did not compare with the version in production. A first version needs no comparison."""
    production = situation.production
    if production is None or any(_compares_with(plan, production.version) for plan in proof.plans):
        return
    others = dict.fromkeys(arm.name for plan in proof.plans for arm in plan.arms[1:])
    yield (
        f"run {proof.run} compared with {', '.join(others) or 'nothing'}, but {production.version.name} is in production "
        f"since {production.since[:10]}: run it again with --compare={production.name}"
    )


def _compares_with(plan: Plan, version: Version) -> bool:
    names = {arm.name for arm in plan.arms[1:] if is_version_arm(arm, version)}
    return any(contrast.decides and contrast.baseline in names for contrast in plan.contrasts)


def _production(proof: Proof, situation: Situation) -> Iterator[str]:
    settings, run = situation.settings, f"run {proof.run}"
    if settings.proven:
        yield from _unproven(proof)
    if settings.clean_commit and (proof.git is None or proof.git.get("dirty")):
        state = "outside a repository" if proof.git is None else "with uncommitted changes"
        yield f"{run} was made {state}: commit, and run it again"
    days = (situation.now - datetime.datetime.fromisoformat(proof.oldest_answer)).total_seconds() / 86400
    if days > settings.max_age_days:
        yield (
            f"{run} rests on answers of {proof.oldest_answer[:10]}, {days:,.0f} days old, and {settings.max_age_days:g} are "
            "allowed: run it again with --crucible-cache=refresh"
        )
    if any(plan.chosen_among > 1 for plan in proof.plans):
        yield f"{run} chose the winner of a sweep with confirm = 0: measure the winner on samples that did not choose it"
    if situation.expires is not None:
        path = situation.version.adapter.options.get("model_path", situation.version.name)
        yield f"{path} expires on {situation.expires.date().isoformat()}: remove its TTL, then promote"


def _unproven(proof: Proof) -> Iterator[str]:
    met = (verdict for verdict in proof.verdicts if verdict.state == "met" and verdict.kind != "claim")
    yield from filter(None, (_unproven_sentence(proof, verdict) for verdict in met if not verdict.proven))


def _unproven_sentence(proof: Proof, verdict: Verdict) -> str:
    """Return why a met verdict proves nothing; empty for a verdict that needs no proof."""
    analysis = next(analysis for analysis in proof.analyses if analysis.plan.nodeid == verdict.nodeid)
    target = next((result for result in analysis.targets if result.target.text == verdict.subject), None)
    if target is not None:
        # An equality can only be refuted, and a number of the training is known: neither has a proof to wait for.
        if target.target.relation == "==" or target.estimate.is_known:
            return ""
        return _not_proven(proof, target.target.text, target.estimate.n, target.needed)
    pairs = (pair for pair in analysis.comparisons if pair.contrast.subject(pair.candidate) == verdict.subject)
    comparison = next(pairs, None)
    if comparison is None:
        return ""
    contrast = comparison.contrast
    if contrast.margin is None and contrast.relevant is None and contrast.alternative == "regression":
        margin = '"5 %"' if comparison.ratio is not None else "0.05"
        return (
            f"run {proof.run} has {verdict.subject} without a margin, which proves nothing: write "
            f'@pytest.mark.ab_compare("{contrast.expression}", margin={margin}), or promote to staged'
        )
    return _not_proven(proof, verdict.subject, comparison.pairs, comparison.needed)


def _not_proven(proof: Proof, subject: str, n: int, needed: int | None) -> str:
    would = f"; about {needed:,} would" if needed is not None and needed > n else ""
    return f"run {proof.run} does not prove {subject} (n = {n:,}{would}): add samples, or promote to staged"


def alpha_of_look(era_alpha: float, look: int) -> float:
    """Return the error rate of the k-th run of an era, from 1.

    >>> alpha_of_look(0.06, 1), alpha_of_look(0.06, 2)
    (0.03, 0.01)
    """
    return era_alpha / (look * (look + 1))


def era_runs(store: RunStore, production: Version) -> list[str]:
    """Return the runs that brought new answers of a candidate against this version, in the order in which they began."""
    query = f"""
        SELECT experiments.run, {json_part("experiments.plan", "arms", is_sqlite=store.database.is_sqlite)}, arms.id
        FROM experiments JOIN arms ON arms.experiment = experiments.id
        WHERE arms.number = 0 ORDER BY experiments.id
    """
    compared = [(run, key) for run, arms, key in store.rows(query) if _is_in_era(from_json(arms), production)]
    new = arms_with_new_replies(store, [key for _, key in compared])
    return list(dict.fromkeys(run for run, key in compared if key in new))


def look_of_run(runs: list[str], run: str) -> int:
    """Return the number of a run's look; a run without new answers has the number of the last one before the session."""
    return runs.index(run) + 1 if run in runs else max(len(runs), 1)


def _is_in_era(arms: list[Mapping[str, Any]], production: Version) -> bool:
    # Most runs have other arms: only those with the version's identity are built as records.
    baselines = [arm for arm in arms[1:] if arm["identity"] == production.identity]
    return arms[0]["identity"] != production.identity and any(
        is_version_arm(from_plain(Arm, arm), production) for arm in baselines
    )
