"""Checks whether a stored run can be reproduced here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from pytest_crucible.plan.fingerprint import differences
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.files import git_commit
from pytest_crucible.records.redaction import HIDDEN
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.runs.provenance import environment_facts, installed_packages, machine_facts
from pytest_crucible.stats.number_format import quantity

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
    from pytest_crucible.records.files import hash_file

    same = hash_file(path) == origin["sha256"]
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
