"""The arms of a session: the adapter that is judged, and those that it is compared with, each with its backend opened."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.backends import Backend
from pytest_crucible.backends.sharing import Shared
from pytest_crucible.backends.stack import stacked
from pytest_crucible.builtin import BACKENDS
from pytest_crucible.errors import SpecError
from pytest_crucible.options import Settings
from pytest_crucible.plan.adapters import ENSEMBLE, find_adapter, read_adapters
from pytest_crucible.plan.arms import check_arms
from pytest_crucible.records import Adapter, Arm, Role, TrainingResult
from pytest_crucible.replaying import introduce, replayed
from pytest_crucible.untrained import Untrained, not_trained, untrained

if TYPE_CHECKING:
    from pytest_crucible.training import Recipe, Trained

STORED, TAGGED = "run:", "tag:"
"""Before a run's id, and before a name that `crucible promote` or --crucible-tag gave it."""
SEEDED = ("local", "tinker")
"""Backends that draw by the session's seed, so that it is one of their parameters, and whose adapters a recipe may make."""
NAMELESS = "candidate"
"""The arm of a session without an adapter: tests that ask their own model need none."""


@dataclass(frozen=True)
class Contender:
    """An arm and who answers for it: nobody, for stored answers and for tests that ask their own model."""

    arm: Arm
    backend: Backend | None
    members: tuple[Contender, ...] = ()
    """Who answers together, where the arm is an ensemble."""


def contenders(opener: Opener, settings: Settings) -> tuple[Contender, ...]:
    """The candidate, then the baselines, of which some may have to be trained yet.

    Raises SpecError, which names all adapters that are unknown or missing, or for what would compare a model with itself.
    """
    if settings.adapter is None:
        if settings.compare:
            raise SpecError(
                f"--compare={settings.compare[0]} compares with nothing: name the candidate with --crucible-adapter=NAME"
            )
        return (Contender(Arm(name=NAMELESS, role="candidate", adapter="", identity=""), None),)
    wanted: list[tuple[str, Role]] = [(settings.adapter, "candidate"), *((one, "baseline") for one in settings.compare)]
    found, wrong = [], []
    for name, role in wanted:
        try:
            found.append(opener.contender(name, role))
        except SpecError as error:
            wrong.append(str(error))
    missing = untrained(found)
    if missing and not settings.train:
        wrong.append(not_trained(missing))
    if wrong:
        raise SpecError("\n".join(dict.fromkeys(wrong)))
    check_arms([one.arm for one in found])
    return tuple(found)


def trained(opener: Opener, found: Sequence[Contender], asked: Container[str]) -> tuple[Contender, ...]:
    """The contenders, of the asked arms those trained that were not; with --co it is told that they would be.

    Raises SpecError when a training fails, or makes what another contender is.
    """
    opener.train(untrained([one for one in found if one.arm.name in asked]))
    taught = tuple(opener.contender(one.arm.name, one.arm.role) if untrained([one]) else one for one in found)
    check_arms([one.arm for one in taught])
    return taught


def backends_of(found: Iterable[Contender]) -> tuple[Backend, ...]:
    """All that are asked, members of ensembles among them, each once."""
    known: dict[int, Backend] = {}
    for one in found:
        known |= {id(backend): backend for backend in backends_of(one.members)}
        if one.backend is not None:
            known[id(one.backend)] = one.backend
    return tuple(known.values())


def names_of(found: Iterable[Contender]) -> list[str]:
    """Of all that are asked, members of ensembles among them."""
    return [name for one in found for name in (one.arm.name, *names_of(one.members))]


class Opener:
    """Opens adapters by name, from the configuration beside pytest's own."""

    def __init__(self, config: pytest.Config, settings: Settings, shared: Shared) -> None:
        self._config = config
        self._shared = shared
        self._settings = settings
        self._adapters = read_adapters(config.rootpath)
        self._open: Callable[..., Backend | None] = config.hook.pytest_crucible_backend
        self._known: dict[str, Contender] = {}
        self._made: dict[str, Trained] = {}
        """Adapters that were trained just now."""

    def contender(self, name: str, role: Role) -> Contender:
        if name.startswith((STORED, TAGGED)):
            return _stored(name, role)
        adapter = find_adapter(name, self._adapters)
        if name in self._adapters:
            return self._once(adapter, role, ())
        return self._opened_anew(adapter, role, typed_in=self._config.invocation_params.dir)

    def train(self, recipes: Iterable[Recipe]) -> None:
        """Run recipes, one after the other; their adapters and the ensembles of these are then opened anew. Raises SpecError."""
        from pytest_crucible import lessons  # it opens the embedded model, which others do without

        for recipe in recipes:
            made = lessons.train(recipe, self._config, self._settings, self._shared.emit)
            if made is not None:
                self._made[recipe.adapter] = made
        self._known = {name: one for name, one in self._known.items() if not untrained([one])}

    def _once(self, adapter: Adapter, role: Role, above: tuple[str, ...]) -> Contender:
        """What is an arm and a member of ensembles is opened once. `above` are the ensembles that it is to be a member of."""
        if adapter.name not in self._known:
            anew = (
                self._ensemble(adapter, role, above)
                if adapter.backend == ENSEMBLE
                else self._opened_anew(adapter, role)
            )
            self._known[adapter.name] = anew
        known = self._known[adapter.name]
        return replace(known, arm=replace(known.arm, role=role))

    def _ensemble(self, adapter: Adapter, role: Role, above: tuple[str, ...]) -> Contender:
        if adapter.name in above:
            chain = " > ".join((*above[above.index(adapter.name) :], adapter.name))
            raise SpecError(
                f"adapter {adapter.name!r} is an ensemble of itself ({chain}): name other adapters as members"
            )
        from pytest_crucible.backends.ensembles.ensemble import ensemble
        from pytest_crucible.backends.ensembles.polling import Member
        from pytest_crucible.backends.ensembles.rules import read_rules

        rules = read_rules(adapter)
        members = tuple(self._member(name, role, (*above, adapter.name)) for name in rules.ensemble)
        asked = [
            Member(name=one.arm.name, backend=one.backend, parameters=one.arm.parameters)
            for one in members
            if one.backend is not None
        ]
        backend = ensemble(adapter.name, asked, rules, self._shared.emit)
        return Contender(replace(_arm(adapter, role, backend), members=rules.ensemble), backend, members)

    def _member(self, name: str, role: Role, above: tuple[str, ...]) -> Contender:
        """A member is written in the configuration, and so its path counts from there."""
        try:
            adapter = find_adapter(name, self._adapters)
        except SpecError as error:
            raise SpecError(f"ensemble {above[-1]!r}: {error}") from None
        if name in self._adapters:
            return self._once(adapter, role, above)
        return self._opened_anew(adapter, role)

    def _opened_anew(self, adapter: Adapter, role: Role, typed_in: Path | None = None) -> Contender:
        """A path that was typed counts from where it was typed, one in the configuration from the configuration."""
        if typed_in is not None and adapter.backend == "recorded":
            adapter = replace(adapter, options={"path": str(typed_in / adapter.options["path"])})
        if adapter.backend == "local" and "checkpoint" in adapter.options:
            from pytest_crucible.checkpoints import resolved

            with contextlib.suppress(SpecError) if self._replays else contextlib.nullcontext():
                adapter = resolved(adapter, self._adapters, self._config, self._settings, typed_in=typed_in)
        if adapter.backend in SEEDED:
            adapter = replace(adapter, parameters={"seed": self._settings.seed, **adapter.parameters})
        backend = self._backend(adapter)
        if backend is None:
            raise SpecError(
                f"adapter {adapter.name!r} has backend {adapter.backend!r}, which nothing provides: "
                f"built in are {', '.join(BACKENDS)}"
            )
        asked = backend if isinstance(backend, Untrained) else stacked(backend, adapter, self._shared)
        return Contender(_arm(adapter, role, backend), asked)

    @property
    def _replays(self) -> bool:
        """Nobody is asked: what an adapter is made of need not be here."""
        return self._shared.cache is not None and self._shared.cache.only

    def _backend(self, adapter: Adapter) -> Backend | None:
        cache = self._shared.cache
        if cache is not None and self._replays:
            return replayed(cache.replies, adapter, self._opened, self._config, self._settings)
        backend = self._opened(adapter)
        if cache is not None and backend is not None and not isinstance(backend, Untrained):
            introduce(cache.replies, adapter, backend, self._config, self._settings)
        return backend

    def _opened(self, adapter: Adapter) -> Backend | None:
        if adapter.backend in SEEDED and "recipe" in adapter.options:
            from pytest_crucible import lessons

            recipe = lessons.recipe_of(adapter, self._config)
            made = self._made.get(adapter.name) or lessons.find(recipe, self._config, self._settings)
            if made is None:
                return Untrained(recipe)
            adapter = lessons.opened_as(adapter, made)
        backend: Backend | None = self._open(config=self._config, adapter=adapter)
        return backend


def _arm(adapter: Adapter, role: Role, backend: Backend) -> Arm:
    return Arm(
        name=adapter.name,
        role=role,
        adapter=f"{adapter.backend}:{adapter.name}",
        identity=backend.identity,
        parameters=adapter.parameters,
        simulated=backend.simulated,
        training=_training(backend),
    )


def _training(backend: Backend) -> TrainingResult | None:
    """How the weights behind a backend were trained, where it says so."""
    said = getattr(backend, "training", None)
    return said if isinstance(said, TrainingResult) else None


def _stored(name: str, role: Role) -> Contender:
    if role == "candidate":
        raise SpecError(f"--crucible-adapter={name}: a stored run can be compared with, not judged again")
    run = name.removeprefix(STORED)
    return Contender(Arm(name=name, role=role, adapter=name, identity=name, stored_run=run), None)
