"""The arms of a session: the adapter that is judged, and those that it is compared with, each with its backend opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from pytest_crucible.backends import Backend
from pytest_crucible.builtin import BACKENDS
from pytest_crucible.errors import Refused, SpecError
from pytest_crucible.options import Settings
from pytest_crucible.plan.adapters import find_adapter, read_adapters
from pytest_crucible.plan.arms import check_arms
from pytest_crucible.records import Adapter, Arm, Reply, Request, Role

STORED = "run:"
URI_SCHEMES = ("recorded", "local", "tinker")
TYPED_PATHS = {"recorded": "path", "local": "checkpoint"}
"""What the path of a URI is called in the configuration."""
NAMELESS = "candidate"
"""The arm of a session without an adapter: tests that ask their own model need none."""


@dataclass(frozen=True)
class Contender:
    """An arm and who answers for it: nobody, for stored answers and for tests that ask their own model."""

    arm: Arm
    backend: Backend | None


def contenders(config: pytest.Config, settings: Settings) -> tuple[Contender, ...]:
    """The candidate, then the baselines. Raises SpecError for what is unknown or would compare a model with itself."""
    opened = Opener(config, settings)
    if settings.adapter is None:
        if settings.compare:
            raise SpecError(
                f"--compare={settings.compare[0]} compares with nothing: name the candidate with --crucible-adapter=NAME"
            )
        return (Contender(Arm(name=NAMELESS, role="candidate", adapter="", identity=""), None),)
    found = [opened.contender(settings.adapter, "candidate")]
    found += [opened.contender(name, "baseline") for name in settings.compare]
    check_arms([one.arm for one in found])
    return tuple(found)


class Opener:
    """Opens adapters by name, from the configuration beside pytest's own."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._adapters = read_adapters(config.rootpath)
        self._open: Callable[..., Backend | None] = config.hook.pytest_crucible_backend

    def contender(self, name: str, role: Role) -> Contender:
        if name.startswith(STORED):
            return _stored(name, role)
        adapter = find_adapter(name, self._adapters, URI_SCHEMES)
        if name not in self._adapters and adapter.backend in TYPED_PATHS:
            adapter = self._from_here(adapter)
        if adapter.backend == "local":
            adapter = replace(adapter, parameters={"seed": self._settings.seed, **adapter.parameters})
        backend = self._backend(adapter)
        if backend is None:
            raise SpecError(
                f"adapter {name!r} has backend {adapter.backend!r}, which nothing provides: "
                f"built in are {', '.join(BACKENDS)}"
            )
        arm = Arm(
            name=name,
            role=role,
            adapter=f"{adapter.backend}:{name}",
            identity=backend.identity,
            parameters=adapter.parameters,
            simulated=backend.simulated,
        )
        return Contender(arm, backend)

    def _backend(self, adapter: Adapter) -> Backend | None:
        if adapter.backend == "local" and "recipe" in adapter.options:
            from pytest_crucible.lessons import trained  # it opens the embedded model, which others do without

            checkpoint = trained(adapter, self._config, self._settings)
            if checkpoint is None:
                return Untrained(adapter.name)
            base = {name: value for name, value in adapter.options.items() if name == "base"}
            adapter = replace(adapter, options={**base, "checkpoint": str(checkpoint)})
        backend: Backend | None = self._open(config=self._config, adapter=adapter)
        return backend

    def _from_here(self, adapter: Adapter) -> Adapter:
        """A path that was typed counts from where it was typed, one in the configuration from the configuration."""
        path = self._config.invocation_params.dir / adapter.options["path"]
        return replace(adapter, options={TYPED_PATHS[adapter.backend]: str(path)})


class Untrained:
    """Stands for an adapter that would be trained, where only plans are asked for."""

    simulated = False

    def __init__(self, name: str) -> None:
        self.identity = f"untrained {name}"

    async def generate(self, request: Request) -> Reply:
        raise Refused(f"there is only a plan of this adapter yet ({self.identity}): nothing can be asked")


def _stored(name: str, role: Role) -> Contender:
    if role == "candidate":
        raise SpecError(f"--crucible-adapter={name}: a stored run can be compared with, not judged again")
    run = name.removeprefix(STORED)
    return Contender(Arm(name=name, role=role, adapter=name, identity=name, stored_run=run), None)
