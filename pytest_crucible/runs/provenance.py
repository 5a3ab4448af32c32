"""The origin of a run: command, settings, machine, packages; and whether it can be reproduced here."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from pytest_crucible.adapters.config_tables import read_prices, read_table
from pytest_crucible.plan.fingerprint import differences
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import git_commit
from pytest_crucible.records.redaction import HIDDEN
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.stats.number_format import quantity

# A fixed list: the environment also holds keys and private data. These change results or identify the machine of a run.
VARIABLES = (
    *("CI", "CUDA_VISIBLE_DEVICES", "GITHUB_REF", "GITHUB_RUN_ID", "GITHUB_SHA", "GITHUB_WORKFLOW", "LANG"),
    *("LC_ALL", "TZ", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTEST_ADDOPTS"),
    *("PYTHONHASHSEED", "PYTHONPATH", "CRUCIBLE_CACHE", "CRUCIBLE_DATA", "CRUCIBLE_RUN_CODE", "CRUCIBLE_STORE"),
    *("CRUCIBLE_TINKER_BASE",),
)
# The packages that compute and store results. Every run records their versions, its manifest those of all others.
PACKAGES = ("pytest-crucible", "pytest", "numpy", "scipy")


def build_manifest(command: Sequence[str], directory: Path, root: Path, settings: Settings) -> dict[str, Any]:
    """Return the data for reproducing a session, as plain data; secrets in it are not redacted yet.

    `command` are pytest's arguments, `directory` is where it was started and `root` its root directory.
    """
    return {
        "command": list(command),
        "directory": os.path.relpath(directory, root),
        "settings": {
            name: (list(value) if isinstance(value, tuple) else value) for name, value in settings.by_option().items()
        },
        "adapters": configured_adapters(root),
        "prices": _or_none(lambda: read_prices(root)),
        "packages": dict(sorted(installed_packages())),
        "machine": machine_facts(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def environment_facts() -> dict[str, Any]:
    """Return Python, the platform, the versions of the packages that compute and that of the rules that decide."""
    return {
        "rules": RULES_VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def utc_now() -> str:
    """Return the time in ISO 8601, in UTC, with milliseconds, as run records store it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def configured_adapters(root: Path) -> Any:
    """Return the table of adapters, empty if it cannot be read: opening an adapter reports the error."""
    # Imported here: it imports backends and asyncio, 40 ms that a stored run is shown without.
    from pytest_crucible.adapters.config import read_adapters

    adapters = _or_none(lambda: read_adapters(root)) or {}
    return {name: asdict(adapter) for name, adapter in adapters.items()}


def configured_tables(root: Path) -> dict[str, Any]:
    """Return the tables of the configuration as they are written; those that cannot be read are left out."""
    return {name: _or_none(lambda name=name: read_table(root, name)) for name in ("adapters", "scorers", "prices")}


def machine_facts() -> dict[str, Any]:
    """Return the interpreter, architecture, processor and number of CPUs."""
    return {
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
    }


def installed_packages() -> Iterator[tuple[str, str]]:
    """Yield name and version of every installed package."""
    # From the names of directories: reading the metadata of hundreds of packages takes a second.
    for folder in dict.fromkeys(sys.path):
        path = Path(folder or ".")
        if path.is_dir():
            for folder_of_package in path.glob("*.dist-info"):
                name, _, version = folder_of_package.stem.rpartition("-")
                # Names of directories have underscores and capitals, names of packages need not.
                yield name.lower().replace("_", "-"), version


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    # Only where it is needed: `platform` starts a process for it.
    return next(names, None) or platform.processor()


def _or_none(read: Any) -> Any:
    try:
        return read()
    except SpecError:
        return None


# A new environment changes hundreds of packages: the first few are named, the others counted.
MOST_PACKAGES = 5


@dataclass(frozen=True, slots=True)
class ReproductionCheck:
    """One dependency of a run, and whether this machine has the same."""

    subject: str
    matches: bool
    detail: str


class CollectPlans(Protocol):
    """Collects tests as a session did, without running them."""

    def __call__(self, command: Sequence[str], directory: Path) -> tuple[bool, str, Mapping[str, Plan]]:
        """Return whether collection succeeded, its last line, and the plans by nodeid."""


def reproduction_checks(
    facts: Mapping[str, Any],
    plans: Sequence[Plan],
    directory: Path,
    collect: CollectPlans,
    sent: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[ReproductionCheck]:
    """Compare everything that a run depends on with the present state: machine, commit, packages, experiments, adapters.

    `directory` is pytest's root directory. `sent` are texts on what the tests passed to their arms, by nodeid, which only a run
    shows again.
    """
    then, manifest, now = facts["environment"], facts["manifest"] or {}, environment_facts()
    yield _check_equal("python", then.get("python"), now["python"])
    yield _check_equal("platform", then.get("platform"), now["platform"])
    # An imported run has no commit, packages or experiments of its own to compare.
    if "imported" in then:
        yield from map(_check_imported_file, then["imported"])
        return
    if not manifest:
        sentence = "this run was stored without one: packages and command line are not known"
        yield ReproductionCheck("manifest", False, sentence)
        return
    yield _check_equal("processor", manifest["machine"]["processor"], machine_facts()["processor"])
    yield _check_commit(facts["git"], git_commit(directory))
    yield _check_packages(manifest["packages"], dict(installed_packages()))
    yield from _check_experiments(manifest, plans, directory, collect, sent)


def _check_imported_file(origin: Mapping[str, Any]) -> ReproductionCheck:
    """Compare a file of another harness: only that harness can repeat its run, but the file can be read again."""
    path = Path(origin["file"])
    if not path.is_file():
        return ReproductionCheck(origin["file"], False, "it was imported from there, and is not there now")
    # Imported here: a session that imports nothing needs no readers of tables.
    from pytest_crucible.importers.sources import sha256

    same = sha256(path) == origin["sha256"]
    detail = "as it was imported" if same else "it was imported with another content"
    return ReproductionCheck(origin["file"], same, detail)


def _check_equal(subject: str, then: Any, now: Any) -> ReproductionCheck:
    return ReproductionCheck(subject, then == now, str(now) if then == now else f"{then} then, {now} now")


def _check_commit(then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> ReproductionCheck:
    if then is None or now is None:
        return ReproductionCheck("commit", then is now, "no repository" if then is now else "in a repository only once")
    before, here = (f"{git['commit'][:12]}{' with uncommitted changes' * bool(git['dirty'])}" for git in (then, now))
    # Uncommitted changes may differ although the commits are equal: such a run never matches.
    matches = before == here and not then["dirty"]
    return ReproductionCheck("commit", matches, here if matches else f"{before} then, {here} now")


def _check_packages(then: Mapping[str, str], now: Mapping[str, str]) -> ReproductionCheck:
    changed = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
    if not changed:
        return ReproductionCheck("packages", True, f"{quantity(len(now), 'package')}, the same versions")
    first = [f"{name} {then.get(name, 'missing')} then, {now.get(name, 'missing')} now" for name in changed]
    more = f" and {len(changed) - MOST_PACKAGES} more" if len(changed) > MOST_PACKAGES else ""
    return ReproductionCheck("packages", False, "; ".join(first[:MOST_PACKAGES]) + more)


def _check_experiments(
    manifest: Mapping[str, Any],
    plans: Sequence[Plan],
    directory: Path,
    collect: CollectPlans,
    sent: Mapping[str, str],
) -> Iterator[ReproductionCheck]:
    if any(HIDDEN in argument for argument in manifest["command"]):
        sentence = "it contains a key, which is not stored: put keys into the environment"
        yield ReproductionCheck("command line", False, sentence)
        return
    succeeded, last_line, here = collect(manifest["command"], directory / manifest["directory"])
    if not succeeded:
        yield ReproductionCheck("experiments", False, f"cannot be collected any more: {last_line}")
        return
    for plan in plans:
        now = here.get(plan.nodeid)
        detail = _plan_detail(plan, now)
        if plan.nodeid in sent:
            detail = f"{detail}; sent by the test: {sent[plan.nodeid]}"
        yield ReproductionCheck(plan.nodeid, now is not None and not _changes(plan, now), detail)


def _plan_detail(plan: Plan, now: Plan | None) -> str:
    if now is None:
        return "is not there any more"
    same = f"the same {quantity(now.selected, 'sample')}, test, metrics and adapters"
    details = "".join(f" ({comparison.detail})" for comparison in _by_features(plan, now) if comparison.detail)
    return ", ".join(_changes(plan, now)) or f"{same}{details}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """The hashes, adapters and runs in a store that depend on a file, a checkpoint or a commit that may be wrong."""

    hashes: frozenset[str]
    """SHA-256 of files and weights; of weights on a service, their path."""
    identities: frozenset[str]
    """Of adapters."""
    runs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependent:
    """A record of a feature that depends on suspects, such as a registered version."""

    kind: str
    """`registered version`."""
    name: str
    """`claims@4`."""
    state: str
    """`production`."""
    because: str
    """`its adapter is v2`, or `run 3f2a is the proof of its promotion`."""
    depends_on: str
    """One of the hashes, identities or runs of the suspects."""


@dataclass(frozen=True)
class PlanComparison:
    """The differences between a stored plan and that of today, as a feature finds them."""

    changes: tuple[str, ...] = ()
    detail: str = ""
    """Shown where nothing has changed."""
    names_candidate: bool = True
    """False if the plan of today has no candidate yet, because the run chooses it."""


def _by_features(then: Plan, now: Plan) -> list[PlanComparison]:
    comparisons: list[PlanComparison] = program_plugins().hook.pytest_crucible_compare_plans(then=then, now=now)
    return comparisons


def _changes(then: Plan, now: Plan) -> list[str]:
    changed = [f"{part} changed" for part in differences(then.fingerprint, now.fingerprint)]
    by_features = _by_features(then, now)
    changed += [change for comparison in by_features for change in comparison.changes]
    arms = {arm.name: arm for arm in now.arms}
    names_candidate = all(comparison.names_candidate for comparison in by_features)
    for arm in then.arms if names_candidate else then.arms[1:]:
        other = arms.get(arm.name)
        if other is None:
            changed.append(f"{arm.name} is not queried")
        elif (arm.identity, dict(arm.parameters)) != (other.identity, dict(other.parameters)):
            changed.append(f"{arm.name} is another model, or has other parameters")
    return changed
