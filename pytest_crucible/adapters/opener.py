"""Opens arms by the names of their adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.arm_makers import find_maker, find_named_adapter
from pytest_crucible.adapters.config import find_adapter, read_adapters
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_settings import open_wrappers
from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.open_backend import open_backend, prepare_adapter
from pytest_crucible.adapters.opened_arm import OpenedArm, describe_arm
from pytest_crucible.adapters.preparations import Pending, explain_missing, find_pending
from pytest_crucible.adapters.stored_arms import is_stored, stored_arm
from pytest_crucible.adapters.training_files import find_training_files
from pytest_crucible.backends import Backend
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.features import left_out_sentence, owner_of_name
from pytest_crucible.records import JUDGE, Adapter, Role
from pytest_crucible.records.errors import SpecError

if TYPE_CHECKING:
    from pytest_crucible.metrics.models.scorers import Judge


class Opener:
    """Opens the arms of a session. An adapter that several arms name is opened once."""

    def __init__(self, context: AdapterContext) -> None:
        """Raises SpecError for a configuration that cannot be read."""
        self._context = replace(context, open_model=self.open_model)
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
            return stored_arm(name, role)
        if self._is_named(name):
            return self._open_named(name, role)
        adapter = find_adapter(name, self._configured)
        if name in self._configured:
            return self._open_configured(adapter, role)
        return self.open_single(adapter, role, typed_in=self._context.invocation_folder)

    @property
    def context(self) -> AdapterContext:
        """The session as adapters see it."""
        return self._context

    @property
    def parents(self) -> Sequence[str]:
        """The arms that the present one is a part of, the outermost first."""
        return self._making[:-1]

    def find_part(self, name: str) -> Adapter | None:
        """Return the adapter of a part; None for one that a feature knows by its name. Raises SpecError for an unknown name."""
        return None if self._is_named(name) else find_adapter(name, self._configured)

    def open_part(self, adapter: Adapter, role: Role) -> OpenedArm:
        """Return the arm of an adapter that is a part of another one's. Raises SpecError."""
        return self._open_configured(adapter, role)

    def open_named_part(self, name: str, role: Role) -> OpenedArm:
        """Return the arm that a name means, as a part of another one. Raises SpecError."""
        adapter = self.find_part(name)
        if adapter is None:
            return self._open_named(name, role)
        is_configured = name in self._configured
        return self._open_configured(adapter, role) if is_configured else self.open_single(adapter, role)

    def make_ready(self, opened: OpenedArm) -> bool:
        """Prepare an arm, such as by its training; return whether it has to be opened again. Raises SpecError."""
        if missing := explain_missing([opened], self._context.settings.option):
            raise SpecError("\n".join(missing))
        pending = find_pending([opened])
        if not pending or self._context.shared.on_unsent is not None:
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
            self._prepared |= preparation.prepare(group, self._context)
        # Placeholders, and ensembles that have one as a member, are forgotten.
        is_recovered = any(adapter.needs_reopening for adapter in pending)
        opened = {} if is_recovered else self._opened
        self._opened = {name: arm for name, arm in opened.items() if not find_pending([arm])}
        return is_recovered

    def _is_named(self, name: str) -> bool:
        """Return whether a feature knows an adapter by its name. A configured adapter comes first."""
        return name not in self._configured and owner_of_name(name) is not None

    def _open_configured(self, adapter: Adapter, role: Role) -> OpenedArm:
        """Open an adapter once, although it may be an arm and a part of others."""
        if adapter.name not in self._opened:
            self._opened[adapter.name] = self._open_new(adapter, role)
        # One backend may stand in both roles, as the candidate and as a member of a baseline.
        opened = self._opened[adapter.name]
        if opened.competitors and role != "candidate":
            raise SpecError(
                f"adapter {adapter.name!r} is a family, so it can only be the candidate: name one of its members"
            )
        return replace(opened, arm=replace(opened.arm, role=role))

    def _open_named(self, name: str, role: Role) -> OpenedArm:
        """Open an adapter that a feature knows by its name. Raises SpecError if it has another identity than there."""
        named = find_named_adapter(name, self._context)
        opened = self._open_configured(named.adapter, role)
        if opened.arm.identity != named.identity:
            raise SpecError(named.changed)
        return opened

    def _open_new(self, adapter: Adapter, role: Role) -> OpenedArm:
        row = find_maker(adapter)
        if row is not None:
            feature, maker = row
            if self._context.is_left_out(feature.plugin_name):
                raise SpecError(left_out_sentence(f"adapter {adapter.name!r} with {maker.key}", feature))
            self._making.append(adapter.name)
            try:
                return maker.open(adapter, role, self)
            finally:
                self._making.pop()
        return self.open_single(adapter, role)

    def open_single(self, adapter: Adapter, role: Role, typed_in: Path | None = None) -> OpenedArm:
        """Return the arm of an adapter that is one model, and that no name means. Raises SpecError."""
        context = self._context
        adapter = prepare_adapter(adapter, context, self._configured, typed_in)
        backend = open_backend(adapter, context, self._prepared.get(adapter.name))
        # Described before it is wrapped: wrappers do not know how the weights behind them were trained.
        files = find_training_files(adapter, backend, context.root)
        outer = open_wrappers(adapter, context)
        arm = describe_arm(adapter, role, backend, root=context.root, trained_on=files, outer=outer)
        is_free = kind_of(adapter).is_free
        wrap = partial(wrap_backend, backend, adapter, context.shared, is_free=is_free, outer=outer)
        if not isinstance(backend, Pending):
            backend = wrap()
        elif context.shared.on_unsent is not None:
            backend.estimating = wrap()
        return OpenedArm(arm, backend, adapter=adapter)

    def open_model(self, name: str, owner: str, role: str = JUDGE) -> Judge:
        """Return an adapter as a model that `owner` queries in a role. Raises SpecError if it cannot answer prompts."""
        from pytest_crucible.adapters.judge import open_judge

        model, backend = open_judge(self.open, name, owner, role)
        self.models.append(backend)
        return model

    @property
    def typed_names(self) -> Mapping[str, str]:
        """The names of the command line, by those that they mean: `production` by `claims@4`."""
        return self._context.typed_names
