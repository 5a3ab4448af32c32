"""Opens the backend of an adapter, or replays it from the reply cache: by its settings, without opening a model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import Pending
from pytest_crucible.adapters.kinds import LocatedAdapter, all_kinds
from pytest_crucible.backends import Backend
from pytest_crucible.backends.cache import CacheOnlyBackend, CachePolicy, KnownAdapter, settings_key
from pytest_crucible.backends.protocol import limit_facts, read_reply_limit
from pytest_crucible.backends.stack import is_cached
from pytest_crucible.records import Plan, Sample
from pytest_crucible.records.errors import CrucibleError, Refused, SpecError


def open_backend(located: LocatedAdapter, context: AdapterContext, prepared: Any = None) -> Backend:
    """Return the adapter's backend, without wrappers, or in a replay a stand-in with the identity that it had.

    `prepared` is the result of its preparation in this session. Raises SpecError for settings that cannot be opened, for an
    unknown backend, and for an adapter that would have to be called in a replay.
    """
    adapter, cache = located.adapter, context.shared.cache
    is_replayed = context.is_replay and not located.kind.is_offline
    if is_replayed:
        identity = _find_identity(located, context)
        if identity is not None:
            return CacheOnlyBackend(identity)
        if located.kind.name in all_kinds():
            raise SpecError(_NO_REPLIES.format(adapter.name))
    try:
        backend = _open_now(located, context, prepared)
    # In a replay the hook of a user may open a backend that is never cached; what it lacks, such as a key, is beside the point.
    except CrucibleError:
        if is_replayed:
            raise SpecError(_NO_REPLIES.format(adapter.name)) from None
        raise
    if backend is None:
        raise SpecError(
            f"adapter {adapter.name!r} has backend {adapter.backend!r}, which neither the package nor a plugin "
            f"provides: write one of {', '.join(sorted(all_kinds()))}"
        )
    if cache is None or isinstance(backend, Pending) or (context.is_replay and not is_replayed):
        return backend
    if is_cached(backend, adapter):
        if is_replayed:
            raise SpecError(_NO_REPLIES.format(adapter.name))
        # A replay recognises it by this, without opening it.
        key, files = _describe_settings(located, context)
        cache.replies.remember_adapter(KnownAdapter(settings=key, identity=backend.identity, files=files))
    return backend


_NO_REPLIES = (
    "the run store has no replies of adapter {!r} as it is configured now: run once without --crucible-cache=only"
)


def _open_now(located: LocatedAdapter, context: AdapterContext, prepared: Any) -> Backend | None:
    """Open the adapter, or return a placeholder where it is not prepared yet; None for an unknown backend."""
    adapter = located.adapter
    if located.preparation is not None:
        ready = located.preparation.open(adapter, context, prepared)
        if isinstance(ready, Pending):
            return ready
        adapter = ready
    # The hook comes first, so that a conftest.py can replace a built-in kind, in a test for instance.
    backend = context.open_user_backend(adapter)
    return located.kind.open(adapter, context) if backend is None else backend


def _find_identity(located: LocatedAdapter, context: AdapterContext) -> str | None:
    """Return the identity that the adapter had when its replies were cached; None without any.

    Raises SpecError for an adapter that is never cached, and for one whose files have changed.
    """
    adapter, cache = located.adapter, context.shared.cache
    if adapter.asking.get("cache") is False:
        raise SpecError(
            f"adapter {adapter.name!r} has cache = false, and --crucible-cache=only calls no model: remove one of them"
        )
    recognised = None if cache is None else cache.replies.find_adapter(_describe_settings(located, context)[0])
    if recognised is None:
        return None
    _check_files(recognised, adapter.name, context.root)
    return recognised.identity


def _describe_settings(located: LocatedAdapter, context: AdapterContext) -> tuple[str, Mapping[str, str]]:
    """Return the key of an adapter's settings, and the files that its replies depend on, with their SHA-256."""
    adapter = located.adapter
    origin = (located.preparation or located.kind).find_origin(adapter, context)
    return settings_key(adapter, *origin.facts, *limit_facts(read_reply_limit(adapter))), origin.files


def _check_files(recognised: KnownAdapter, adapter: str, root: Path) -> None:
    """Raise SpecError for a file that has changed: it makes another adapter. A missing file changes nothing."""
    for name, sha256 in recognised.files.items():
        if (root / name).is_file() and hashlib.sha256((root / name).read_bytes()).hexdigest() != sha256:
            raise SpecError(
                f"{name} has changed since replies of adapter {adapter!r} were cached: "
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
