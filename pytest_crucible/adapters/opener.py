"""Opens the arms of a session by the names of their adapters: the candidate, and the baselines that it is compared with."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.config import read_adapters, resolve_name
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import (
    NamedAdapter,
    Pending,
    explain_missing,
    find_maker,
    find_pending,
    open_wrappers,
)
from pytest_crucible.adapters.kinds import locate_adapter
from pytest_crucible.adapters.open_backend import open_backend
from pytest_crucible.adapters.opened_arm import OpenedArm, describe_arm, find_training_files
from pytest_crucible.backends import Backend, KnowsItsSamples
from pytest_crucible.backends.protocol import system_prompt
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.plan.arms import check_arms
from pytest_crucible.records import JUDGE, Adapter, Arm, Role
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import Settings
from pytest_crucible.store.runs import TAGGED

if TYPE_CHECKING:
    from pytest_crucible.metrics.models.scorers import Judge

NAMELESS = "candidate"
"""The arm of a session without an adapter: tests that call a model of their own need none."""
STORED = "run:"
"""Precedes the id of a run."""


class Opener:
    """Opens the arms of a session. An adapter that several arms name is opened once."""

    def __init__(self, context: AdapterContext) -> None:
        """Raises SpecError for a configuration that cannot be read."""
        self.context = replace(context, open_model=self.open_model)
        """The session as adapters see it."""
        self._configured = read_adapters(context.root)
        self.models: list[Backend] = []
        """The backends of models that were opened in a role."""
        self._opened: dict[str, OpenedArm] = {}
        self._making: list[str] = []
        """The arms of several parts that are being opened, the outermost first."""
        self._prepared: dict[str, Any] = {}
        """The results of preparations in this session, by the adapter's name."""

    def open(self, name: str, role: Role) -> OpenedArm:
        """Return the arm of a configured adapter, of a URI, of a feature, or of a stored run. Raises SpecError."""
        if is_stored(name):
            return _stored_arm(name, role)
        return self.open_named_part(name, role, self.context.invocation_folder)

    @property
    def parents(self) -> Sequence[str]:
        """The arms that the present one is a part of, the outermost first."""
        return self._making[:-1]

    def find_part(self, name: str) -> NamedAdapter:
        """Return the adapter that the name of a part means. Raises SpecError for an unknown name."""
        return resolve_name(name, self._configured, self.context)

    def open_named_part(self, name: str, role: Role, typed_in: Path | None = None) -> OpenedArm:
        """Return the arm that a name means. `typed_in` is the folder of a command line that has it. Raises SpecError."""
        named = resolve_name(name, self._configured, self.context)
        opened = self._open_once(named, role, typed_in)
        if named.identity and opened.arm.identity != named.identity:
            raise SpecError(named.changed)
        return opened

    def open_part(self, adapter: Adapter, role: Role) -> OpenedArm:
        """Return the arm of an adapter that is a part of another one's. Raises SpecError."""
        return self._open_once(NamedAdapter(adapter, maker=find_maker(adapter, self.context.is_left_out)), role)

    def _open_once(self, named: NamedAdapter, role: Role, typed_in: Path | None = None) -> OpenedArm:
        """Open an adapter once, although it may be an arm and a part of others; that of a URI each time."""
        adapter, maker = named.adapter, named.maker
        if maker is None and (named.is_uri or adapter.name not in self._opened):
            # Only the path of a URI is relative to the folder of the command line.
            single = self.open_single(adapter, role, typed_in if named.is_uri else None)
            if named.is_uri:
                return single
            self._opened[adapter.name] = single
        elif maker is not None and adapter.name not in self._opened:
            self._making.append(adapter.name)
            try:
                self._opened[adapter.name] = maker.open(adapter, role, self)
            finally:
                self._making.pop()
        # One backend may stand in both roles, as the candidate and as a member of a baseline.
        opened = self._opened[adapter.name]
        if opened.competitors and role != "candidate":
            raise SpecError(
                f"adapter {adapter.name!r} is a family, so it can only be the candidate: name one of its members"
            )
        return replace(opened, arm=replace(opened.arm, role=role))

    def open_single(self, adapter: Adapter, role: Role, typed_in: Path | None = None) -> OpenedArm:
        """Return the arm of an adapter that is one model, and that no name means. Raises SpecError."""
        context = self.context
        located = locate_adapter(adapter, context, self._configured, typed_in)
        adapter = located.adapter
        outer = open_wrappers(adapter, context)
        backend = open_backend(located, context, self._prepared.get(adapter.name))
        # Described before it is wrapped: wrappers do not know how the weights behind them were trained.
        files = find_training_files(adapter, backend, context.root)
        arm = describe_arm(adapter, role, backend, root=context.root, trained_on=files, outer=outer)
        wrap = partial(wrap_backend, backend, adapter, context.shared, is_free=located.kind.is_free, outer=outer)
        if not isinstance(backend, Pending):
            backend = wrap()
        elif context.shared.on_unsent is not None:
            backend.estimating = wrap()
        return OpenedArm(arm, backend, adapter=adapter)

    def open_model(self, name: str, owner: str, role: str = JUDGE) -> Judge:
        """Return an adapter as a model that `owner` queries in a role. Raises SpecError if it cannot answer prompts."""
        from pytest_crucible.metrics.models.scorers import Judge

        # A stored run has replies, but no model that could answer a new prompt.
        opened = None if is_stored(name) else self.open(name, "candidate")
        backend = None if opened is None else opened.backend
        if opened is None or backend is None or opened.trainings or isinstance(backend, Pending | KnowsItsSamples):
            raise SpecError(
                f"{role.removesuffix(':')} {name!r} of {owner} cannot answer prompts: name the adapter of a model"
            )
        self.models.append(backend)
        return Judge(
            name,
            identity=backend.identity,
            generate=backend.generate,
            parameters=opened.arm.parameters,
            simulated=backend.simulated,
            system=system_prompt(backend),
            role=role,
        )

    # -- preparations ---------------------------------------------------------------------------------------------------

    def make_ready(self, opened: OpenedArm) -> bool:
        """Prepare an arm, such as by its training; return whether it has to be opened again. Raises SpecError."""
        if missing := explain_missing([opened], self.context.settings.option):
            raise SpecError("\n".join(missing))
        pending = find_pending([opened])
        if not pending or self.context.shared.on_unsent is not None:
            return False
        self.prepare(pending)
        return True

    def prepare(self, pending: Sequence[Pending]) -> bool:
        """Prepare adapters. They, and ensembles of them, are opened again when they are next named.

        Returns whether a service was lost and opened again, so that all arms have to be. Raises SpecError when it fails.
        """
        if not pending:
            return False
        for preparation in dict.fromkeys(adapter.preparation for adapter in pending):
            group = [adapter for adapter in pending if adapter.preparation is preparation]
            self._prepared |= preparation.prepare(group, self.context)
        # Placeholders, and ensembles that have one as a member, are forgotten.
        is_recovered = any(adapter.needs_reopening for adapter in pending)
        opened = {} if is_recovered else self._opened
        self._opened = {name: arm for name, arm in opened.items() if not find_pending([arm])}
        return is_recovered


def open_arms(opener: Opener, settings: Settings) -> tuple[OpenedArm, ...]:
    """Open the candidate, then the baselines; some may have to be prepared yet.

    Raises SpecError, which names every adapter that is unknown or missing. `check_distinct` comes after it.
    """
    if settings.adapter is None:
        if settings.compare:
            raise SpecError(
                f"--compare={settings.compare[0]} has no candidate to compare with: name one with --crucible-adapter=NAME"
            )
        return (OpenedArm(Arm(name=NAMELESS, role="candidate", adapter="", identity=""), None),)
    roles: list[tuple[str, Role]] = [(settings.adapter, "candidate")]
    roles += [(name, "baseline") for name in settings.compare]
    opened, problems = [], []
    # All problems are collected, so that a user can mend them together.
    for name, role in roles:
        try:
            opened.append(opener.open(name, role))
        except SpecError as error:
            problems.append(str(error))
    # A missing preparation is one problem among the others; if the session prepares, it does so after all checks.
    problems += explain_missing(opened, settings.option)
    if problems:
        # Two arms may have one problem, such as an unknown member of two ensembles.
        raise SpecError("\n".join(dict.fromkeys(problems)))
    return tuple(opened)


def check_distinct(opened: Sequence[OpenedArm], typed: Mapping[str, str]) -> None:
    """Raise SpecError for an arm that would be compared with itself, also as a member of a family."""
    candidate, *baselines = opened
    for competitor in candidate.competitors or (candidate,):
        check_arms([competitor.arm, *(arm.arm for arm in baselines)], typed)


def prepare_arms(opener: Opener, opened: Sequence[OpenedArm], names: Container[str]) -> tuple[OpenedArm, ...]:
    """Prepare the named arms that cannot answer yet; under --collect-only, show that they would be.

    Raises SpecError when a preparation fails, or when it makes the same adapter as another arm's.
    """
    all_again = opener.prepare(find_pending([arm for arm in opened if arm.arm.name in names]))
    prepared = tuple(
        opener.open(arm.arm.name, arm.arm.role) if all_again or find_pending([arm]) else arm for arm in opened
    )
    check_distinct(prepared, opener.context.typed_names)
    return prepared


def is_stored(name: str) -> bool:
    """Return whether an arm's name means a stored run, as in `--compare=run:ID` and `--compare=tag:NAME`.

    >>> is_stored("run:4f1c"), is_stored("tag:nightly"), is_stored("v2")
    (True, True, False)
    """
    return name.startswith((STORED, TAGGED))


def _stored_arm(name: str, role: Role) -> OpenedArm:
    """Return the baseline whose replies are stored. Raises SpecError for the role of a candidate."""
    if role == "candidate":
        raise SpecError(f"--crucible-adapter={name}: a stored run can only be a baseline: name it with --compare")
    return OpenedArm(
        Arm(name=name, role=role, adapter=name, identity=name, stored_run=name.removeprefix(STORED)), backend=None
    )
