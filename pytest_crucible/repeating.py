"""Can a stored run be repeated here? What it depended on, beside what is here now."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.environment import environment, git_commit
from pytest_crucible.importing.source import sha256
from pytest_crucible.manifest import installed, machine
from pytest_crucible.numerals import counted
from pytest_crucible.plan.fingerprint import differences
from pytest_crucible.records import Plan
from pytest_crucible.redaction import HIDDEN

MOST = 5
"""Packages that are named."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a run depends on."""

    what: str
    fits: bool
    said: str


def repeatable(facts: Mapping[str, Any], plans: Sequence[Plan], directory: Path) -> Iterator[Finding]:
    """All that could make a repetition another run: machine, commit, packages, experiments, adapters.

    `directory` is pytest's root.
    """
    then, manifest, now = facts["environment"], facts["manifest"] or {}, environment()
    yield _same("python", then.get("python"), now["python"])
    yield _same("platform", then.get("platform"), now["platform"])
    if "imported" in then:
        yield from map(_imported, then["imported"])
        return
    if not manifest:
        yield Finding("manifest", False, "this run was stored without one: packages and command line are not known")
        return
    yield _same("processor", manifest["machine"]["processor"], machine()["processor"])
    yield _commit(facts["git"], git_commit(directory))
    yield _packages(manifest["packages"], dict(installed()))
    yield from _experiments(manifest, plans, directory)


def _imported(origin: Mapping[str, Any]) -> Finding:
    """The run of another harness is repeated by that one; here its file can be read again."""
    path = Path(origin["file"])
    if not path.is_file():
        return Finding(origin["file"], False, "it was imported from there, and is not there now")
    same = sha256(path) == origin["sha256"]
    return Finding(origin["file"], same, "as it was imported" if same else "it was imported with another content")


def _same(what: str, then: Any, now: Any) -> Finding:
    return Finding(what, then == now, str(now) if then == now else f"{then} then, {now} now")


def _commit(then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> Finding:
    if then is None or now is None:
        return Finding("commit", then is now, "no repository" if then is now else "in a repository only once")
    changed = " with uncommitted changes"
    said = [f"{one['commit'][:12]}{changed if one['dirty'] else ''}" for one in (then, now)]
    fits = said[0] == said[1] and not then["dirty"]
    return Finding("commit", fits, said[1] if fits else f"{said[0]} then, {said[1]} now")


def _packages(then: Mapping[str, str], now: Mapping[str, str]) -> Finding:
    changed = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
    if not changed:
        return Finding("packages", True, f"{counted(len(now), 'package')}, the same versions")
    told = [f"{name} {then.get(name, 'missing')} then, {now.get(name, 'missing')} now" for name in changed[:MOST]]
    more = f" and {len(changed) - MOST} more" if len(changed) > MOST else ""
    return Finding("packages", False, "; ".join(told) + more)


def _experiments(manifest: Mapping[str, Any], plans: Sequence[Plan], directory: Path) -> Iterator[Finding]:
    if any(HIDDEN in one for one in manifest["command"]):
        yield Finding("command line", False, "it has a key in it, which is not stored: put keys into the environment")
        return
    status, said, here = _planned(manifest["command"], directory / manifest["directory"])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        yield Finding("experiments", False, f"cannot be collected any more: {said}")
        return
    for plan in plans:
        now = here.get(plan.nodeid)
        yield Finding(plan.nodeid, now is not None and not _changes(plan, now), _said(plan, now))


def _said(plan: Plan, now: Plan | None) -> str:
    if now is None:
        return "is not there any more"
    return ", ".join(_changes(plan, now)) or f"the same {counted(now.selected, 'sample')}, test, metrics and adapters"


def _changes(then: Plan, now: Plan) -> list[str]:
    changed = [f"{part} changed" for part in differences(then.fingerprint, now.fingerprint)]
    known = {arm.name: arm for arm in now.arms}
    for arm in then.arms:
        other = known.get(arm.name)
        if other is None:
            changed.append(f"{arm.name} is not asked")
        elif (arm.identity, dict(arm.parameters)) != (other.identity, dict(other.parameters)):
            changed.append(f"{arm.name} is another model, or has other parameters")
    return changed


_LOOK = ("--collect-only", "-q", "--junitxml=", "--log-file=", "-o", "log_file=")
"""Look, and leave alone what the run has written: its reports, its log, and below its cache."""


class _Watcher:
    """Reads the plans when collection is over."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_finish(self, session: pytest.Session) -> Any:
        result = yield
        opened = session.config.pluginmanager.get_plugin("crucible-session")
        if opened is not None:
            self.plans = {plan.nodeid: plan for plan in opened.plans()}
        return result


def _planned(command: Sequence[str], directory: Path) -> tuple[int, str, Mapping[str, Plan]]:
    """Collect as the run did, asking nothing: exit status, the last line that was said, the plans."""
    watcher, said = _Watcher(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as cache,
        contextlib.chdir(directory),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        status = pytest.main([*command, *_LOOK, "-o", f"cache_dir={cache}"], plugins=[watcher])
    lines = [line for line in said.getvalue().splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return int(status), (errors or lines or [""])[-1], watcher.plans
