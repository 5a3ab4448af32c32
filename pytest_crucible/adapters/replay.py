"""Replays adapters from the reply cache: they are recognised by their settings, without opening a model."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.kinds import all_kinds, kind_of
from pytest_crucible.adapters.origin import Origin
from pytest_crucible.backends import Backend
from pytest_crucible.backends.cache import CacheOnlyBackend, CachePolicy, KnownAdapter, settings_key
from pytest_crucible.backends.protocol import limit_facts, read_reply_limit
from pytest_crucible.backends.stack import is_cached
from pytest_crucible.records import Adapter, Plan, Sample
from pytest_crucible.records.errors import CrucibleError, Refused, SpecError


def remember_adapter(adapter: Adapter, backend: Backend, context: AdapterContext) -> None:
    """Store an opened adapter's identity, so that a replay recognises it without opening it."""
    cache = context.shared.cache
    if cache is not None and is_cached(backend, adapter):
        origin = kind_of(adapter).find_origin(adapter, context)
        cache.replies.remember_adapter(
            KnownAdapter(settings=_settings_key(adapter, origin), identity=backend.identity, files=origin.files)
        )


def replay_backend(
    adapter: Adapter, context: AdapterContext, open_now: Callable[[Adapter], Backend | None]
) -> Backend | None:
    """Return a stand-in with the identity that the adapter had when its replies were cached.

    A backend that is never cached is opened as usual. Raises SpecError for an adapter that would have to be called, and for
    one whose files have changed.
    """
    kind, cache = kind_of(adapter), context.shared.cache
    if kind.is_offline or cache is None:
        return open_now(adapter)
    if adapter.asking.get("cache") is False:
        raise SpecError(
            f"adapter {adapter.name!r} has cache = false, and --crucible-cache=only calls no model: remove one of them"
        )
    recognised = cache.replies.find_adapter(_settings_key(adapter, kind.find_origin(adapter, context)))
    if recognised is not None:
        _check_files(recognised, adapter, context.root)
        return CacheOnlyBackend(recognised.identity)
    if kind.name not in all_kinds():  # the hook of a user may open a backend that is never cached
        with contextlib.suppress(CrucibleError):  # a missing key, for instance: the sentence below says more
            backend = open_now(adapter)
            if backend is None or not is_cached(backend, adapter):
                return backend
    raise SpecError(
        f"the run store has no replies of adapter {adapter.name!r} as it is configured now: "
        "run once without --crucible-cache=only"
    )


def check_all_replayed(caching: CachePolicy, plan: Plan, samples: Sequence[Sample]) -> None:
    """Raise Refused when the cache lacked replies, with their number and the first sample in the dataset's order."""
    tallies = {arm: tally for (nodeid, arm), tally in caching.tallies.items() if nodeid == plan.nodeid}
    missing = {(sample, repeat, arm) for arm, tally in tallies.items() for sample, repeat in tally.missing}
    if not missing:
        return
    # The first in the dataset's order is the same in every run, no matter in which order requests were sent.
    place = {sample.id: position for position, sample in enumerate(samples)}
    sample, number, arm = min(missing, key=lambda unit: (place[unit[0]], *unit))
    repeat = f" (repeat {number + 1})" if plan.draws(0).size > 1 else ""
    if number >= plan.draws(0).size:
        repeat = f" ({plan.draw_text(0, number)})"
    total = sum(plan.count_replies(place) for place in range(len(tallies)))
    raise Refused(
        f"{len(missing):,} of {total:,} replies are not in the reply cache, first the reply of {arm!r} to "
        f"sample {sample!r:.200}{repeat}: run once without --crucible-cache=only"
    )


def _settings_key(adapter: Adapter, origin: Origin) -> str:
    return settings_key(adapter, *origin.facts, *limit_facts(read_reply_limit(adapter)))


def _check_files(recognised: KnownAdapter, adapter: Adapter, root: Path) -> None:
    """Raise SpecError for a file that has changed: it makes another adapter. A missing file changes nothing."""
    for name, sha256 in recognised.files.items():
        if (root / name).is_file() and hashlib.sha256((root / name).read_bytes()).hexdigest() != sha256:
            raise SpecError(
                f"{name} has changed since replies of adapter {adapter.name!r} were cached: "
                "run once without --crucible-cache=only"
            )
