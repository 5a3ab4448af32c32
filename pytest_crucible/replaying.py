"""Adapters of which only kept replies are wanted: recognised by their settings, without being opened, asked or paid for."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_crucible.backends import Backend
from pytest_crucible.backends.cache_keys import settings_key
from pytest_crucible.backends.cached import Unopened
from pytest_crucible.backends.caching import Caching, KnownAdapter, ReplyCache
from pytest_crucible.backends.stack import is_cached
from pytest_crucible.builtin import BACKENDS
from pytest_crucible.errors import CrucibleError, Refused, SpecError
from pytest_crucible.options import Settings
from pytest_crucible.records import Adapter, Plan, Sample

OFFLINE = ("recorded", "scripted")
"""Built-in backends that are never cached: they have nothing to pay for, and are opened as ever."""


def introduce(cache: ReplyCache, adapter: Adapter, backend: Backend, config: pytest.Config, settings: Settings) -> None:
    """Have an adapter that was opened remembered, so that it can be recognised where it cannot be."""
    if is_cached(backend, adapter):
        key, files = _origin(adapter, config, settings)
        cache.introduce(KnownAdapter(settings=key, identity=backend.identity, files=files))


def replayed(
    cache: ReplyCache,
    adapter: Adapter,
    opened: Callable[[Adapter], Backend | None],
    config: pytest.Config,
    settings: Settings,
) -> Backend | None:
    """A stand-in with the identity that the adapter had when its replies were kept, or the backend of one that is never cached.

    Raises SpecError for one that would have to be asked, and for one that is not what it was.
    """
    if adapter.backend in OFFLINE:
        return opened(adapter)
    if adapter.asking.get("cache") is False:
        raise SpecError(f"adapter {adapter.name!r} has cache = false, and with --crucible-cache=only nobody is asked")
    key, _ = _origin(adapter, config, settings)
    known = cache.recognise(key)
    if known is not None:
        _check_files(known, adapter, config.rootpath)
        return Unopened(known.identity)
    if adapter.backend not in BACKENDS:  # a hook's, which may be one that is never cached
        with contextlib.suppress(CrucibleError):  # of a key that is missing here, say
            backend = opened(adapter)
            if backend is None or not is_cached(backend, adapter):
                return backend
    raise SpecError(
        f"no replies of adapter {adapter.name!r}, as it is configured now, are in the run store: "
        "ask it once without --crucible-cache=only"
    )


def check_complete(caching: Caching, plan: Plan, samples: Sequence[Sample]) -> None:
    """Raise Refused when replies were missing, with their number and the first sample, in the dataset's order."""
    tallies = {arm: tally for (nodeid, arm), tally in caching.tallies.items() if nodeid == plan.nodeid}
    missing = {(sample, epoch, arm) for arm, tally in tallies.items() for sample, epoch in tally.missing}
    if not missing:
        return
    place = {sample.id: position for position, sample in enumerate(samples)}
    sample, epoch, arm = min(missing, key=lambda unit: (place[unit[0]], *unit))
    repeat = f" (repeat {epoch + 1})" if plan.epochs > 1 else ""
    wanted = plan.selected * plan.epochs * len(tallies)
    raise Refused(
        f"{len(missing):,} of {wanted:,} answers cannot be replayed: the first that is not in the reply cache is that of "
        f"{arm!r} to sample {sample!r}{repeat}; ask once without --crucible-cache=only"
    )


def _origin(adapter: Adapter, config: pytest.Config, settings: Settings) -> tuple[str, Mapping[str, str]]:
    """What an adapter is recognised by, and the files that it is made of."""
    service = (settings.tinker, settings.tinker_base) if adapter.backend == "tinker" else ()
    if adapter.backend != "local" and not (service and "recipe" in adapter.options):
        return settings_key(adapter, *service), {}
    from pytest_crucible.lessons import origin  # it opens the embedded model, which others do without

    made_by, files = origin(adapter, config, settings)
    return settings_key(adapter, made_by, *service), files


def _check_files(known: KnownAdapter, adapter: Adapter, root: Path) -> None:
    """A file that is not here changes nothing; one that is another than it was makes another adapter."""
    for name, sha256 in known.files.items():
        if (root / name).is_file() and hashlib.sha256((root / name).read_bytes()).hexdigest() != sha256:
            raise SpecError(
                f"{name} has changed since replies of adapter {adapter.name!r} were kept: "
                "ask it once without --crucible-cache=only"
            )
