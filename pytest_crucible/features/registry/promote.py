"""Promotes the candidate of a run, with the run as proof, and the suite as pytest collects it now."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pytest_crucible.features.registry.evidence import Proof, judged_plans, load_proof
from pytest_crucible.features.registry.model_gate import Collect, GateRequest, promotion_gate, rules_of
from pytest_crucible.features.registry.records import (
    GateEntry,
    LogEntry,
    Version,
    VersionState,
    is_numbered,
    is_version_arm,
    without_session_seed,
)
from pytest_crucible.features.registry.registration import check_weights
from pytest_crucible.features.registry.rules import (
    Note,
    Production,
    RegistrySettings,
    Situation,
    alpha_of_look,
    change_state,
    check_not_withdrawn,
    era_runs,
    look_of_run,
    promotion,
    shortcomings,
)
from pytest_crucible.features.registry.store import (
    PRODUCTION,
    RegistryState,
    StoredRegistry,
    check_row,
    load_registry,
    load_version,
    load_versions,
    version_key,
)
from pytest_crucible.features.registry.suite_record import SuiteRecord
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Arm
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store.runs import RunStore

COLLECTOR = "pytest_crucible.features.registry.suite"
# What programs need to start, to find packages, files and caches, and to reach a mirror. Everything else may be a switch that
# a conftest.py reads, such as FAST=1.
KEPT = (
    *("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "USERPROFILE"),
    *("APPDATA", "COMSPEC", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "WINDIR"),
    *("CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONPYCACHEPREFIX"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "VIRTUAL_ENV", "PYTEST_DEBUG_TEMPROOT"),
    *("CRUCIBLE_DATA", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
)
KEPT_BEGINNINGS = ("LC_", "XDG_", "HF_", "TRANSFORMERS_")
"""Of the names of further variables: locale, folders, and where Hugging Face keeps its files."""


def collect_suite(suite: Sequence[str], variables: Sequence[str], root: Path) -> SuiteRecord:
    """Return what pytest collects with these arguments in its root directory. Nothing is sent to a model.

    `variables` are passed on from the environment, besides those of every process. Raises SpecError where it cannot be collected.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "suite.json"
        done = subprocess.run(
            [sys.executable, "-m", COLLECTOR, str(file), *suite],
            cwd=root,
            env=clean_environment(os.environ, variables),
            capture_output=True,
            text=True,
            check=False,
        )
        if not file.is_file():
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            raise _collection_error(suite, lines[-1])
        plain = json.loads(file.read_text(encoding="utf-8"))
    if plain["error"]:
        raise _collection_error(suite, plain["error"])
    return from_plain(SuiteRecord, plain["record"])


def clean_environment(environment: Mapping[str, str], variables: Sequence[str]) -> dict[str, str]:
    """Return the variables that a suite is collected with: those of every process, and those that are named."""
    return {
        name: value
        for name, value in environment.items()
        if name.upper() in KEPT or name.upper().startswith(KEPT_BEGINNINGS) or name in variables
    }


def _collection_error(suite: Sequence[str], reason: str) -> SpecError:
    where = " ".join(suite) or "pytest's root directory"
    return SpecError(
        f"the suite ({where}) cannot be collected for its gate: {reason}: correct the suite; a variable of the environment "
        "reaches it only where `crucible models gate freeze` names it with --env"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A request to promote the candidate of a run."""

    run: str
    """The full id of the run."""
    to: VersionState
    settings: RegistrySettings
    alpha: float
    """The project's error rate: a run with a larger one is decided again at this."""
    folder: Path
    """The registry's folder, with the copied weights."""
    now: datetime.datetime
    by: str
    why: str = ""
    force: bool = False
    model: str = ""
    """Which model, where the candidate is a version of several."""
    expiry: Callable[[Version], datetime.datetime | None] = lambda version: None
    """Returns when a service will delete a version's weights."""
    collect: Collect
    """Collects a suite as it is now."""


def promote_run(store: RunStore, request: Promotion) -> tuple[LogEntry | GateEntry, ...]:
    """Promote the candidate of a run; return the entries that were appended to the log, that of the version last.

    A model without a gate gets one: everything that pytest collects without arguments.
    Raises SpecError with all unmet requirements, one a line, unless it is forced; StoreError for a broken log.
    """
    version = candidate_version(store, request)
    expires = request.expiry(version) if request.to == PRODUCTION else None
    # Where another transition comes first, the suite is not collected again.
    request = replace(request, collect=cache(request.collect))

    def decide(registry: StoredRegistry) -> tuple[LogEntry | GateEntry, ...]:
        # After the log, which `change_state` has checked.
        check_row(store, registry, version)
        check_weights(version, request.folder)
        return _decide(store, registry, version, request, expires)

    return change_state(store, decide)


def candidate_version(store: RunStore, request: Promotion) -> Version:
    """Return the version that the candidate of a run is. Raises SpecError for one that is not registered."""
    arm = _candidate_arm(store, request.run)
    parameters = (arm.parameters, without_session_seed(arm.parameters, {}))
    keys = [version_key(arm.identity, each) for each in parameters]
    versions = [version for version in load_versions(store, keys) if is_version_arm(arm, version)]
    if is_numbered(arm.name):
        versions = [version for version in versions if version.name == arm.name] or versions
    if request.model:
        versions = [version for version in versions if version.model == request.model]
    if not versions:
        models = load_registry(store).state.models
        model = request.model or (models[0] if len(models) == 1 else "NAME")
        raise SpecError(f"{arm.name} is not registered: run crucible models register {arm.name} --model {model}")
    if len(versions) > 1:
        names = " and ".join(version.name for version in versions)
        raise SpecError(f"the candidate of run {request.run} is {names}: name one of the models with --model")
    return versions[0]


def _decide(
    store: RunStore, registry: StoredRegistry, version: Version, request: Promotion, expires: datetime.datetime | None
) -> tuple[LogEntry | GateEntry, ...]:
    status = registry.state.statuses[version.model, version.number]
    at = request.now.isoformat(timespec="milliseconds")
    # Refused first where the version has that state already, because its proof may be out of date by now.
    promotion(registry.state, status, request.to, Note(at=at, by=request.by))
    production = _production(store, registry.state, version)
    rules = rules_of(request.settings)
    of_gate = GateRequest(model=version.model, collect=request.collect, rules=rules, at=at, by=request.by)
    gate = promotion_gate(registry, version, of_gate)
    proof = _proof(store, replace(request, alpha=min(request.alpha, gate.alpha)), production)
    check_not_withdrawn(status, proof.run, proof.started)
    situation = Situation(
        version=version, production=production, settings=request.settings, now=request.now, expires=expires
    )
    lacking = [*gate.shortcomings(proof), *shortcomings(proof, request.to, situation)]
    if lacking and not request.force:
        raise SpecError("\n".join(lacking))
    evidence = _evidence(proof, production, gate.entry)
    note = Note(at=at, by=request.by, why=request.why, run=proof.run, forced=tuple(lacking), evidence=evidence)
    frozen = (gate.entry,) if gate.is_new and gate.entry is not None else ()
    return (*frozen, *promotion(registry.state, status, request.to, note))


def _proof(store: RunStore, request: Promotion, production: Production | None) -> Proof:
    """Return the run decided again: in an era, at the error rate of this run's look."""
    era_alpha = request.settings.era_alpha
    if era_alpha is None or production is None:
        return load_proof(store, request.run, alpha=request.alpha)
    look = look_of_run(era_runs(store, production.version), request.run)
    return load_proof(store, request.run, alpha=alpha_of_look(era_alpha, look), look=look)


def _production(store: RunStore, state: RegistryState, version: Version) -> Production | None:
    holder = state.holder(version.model, PRODUCTION)
    if holder is None or holder.number == version.number:
        return None
    stored = load_version(store, holder.model, holder.number)
    if stored is None:
        raise SpecError(f"{holder.version} is in production, and its row is missing: restore the store from a backup")
    name = PRODUCTION if len(state.models) == 1 else f"{version.model}@{PRODUCTION}"
    return Production(version=stored, since=holder.at, name=name)


def _evidence(proof: Proof, production: Production | None, gate: GateEntry | None) -> dict[str, Any]:
    return {
        "verdicts": [
            {"experiment": verdict.nodeid, "subject": verdict.subject, "state": verdict.state, "proven": verdict.proven}
            for verdict in proof.verdicts
        ],
        "samples": proof.samples,
        "alpha": proof.alpha,
        "look": proof.look,
        "production": None if production is None else production.version.name,
        "gate": None if gate is None else gate.number,
        "commit": None if proof.git is None else proof.git.get("commit"),
        "oldest_answer": proof.oldest_answer,
    }


def _candidate_arm(store: RunStore, run: str) -> Arm:
    arms = [plan.candidate for plan in judged_plans(store, run)]
    if not arms:
        raise SpecError(
            f"run {run} has no experiments that give verdicts: measure an adapter with --crucible-adapter=NAME"
        )
    if len({(arm.name, arm.identity) for arm in arms}) > 1:
        raise SpecError(
            f"run {run} has several candidates ({', '.join(sorted({arm.name for arm in arms}))}): measure one"
        )
    return arms[0]
