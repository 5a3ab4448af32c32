"""Checkpoints of local adapters by name: `local:NAME`, or `checkpoint = "NAME"`, besides the path of a file or directory.

A name is that of another local adapter in the configuration, of which it has all settings; of a trained adapter in
`.crucible/adapters` (its directory, or what its adapter was called, then the newest); or of sampler weights that were saved
on the local Tinker (the newest). They are looked for in this order.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_crucible.errors import SpecError
from pytest_crucible.options import Settings
from pytest_crucible.records import Adapter

TINKER = Path(".crucible") / "tinker"
"""Where the local Tinker keeps what is saved on it, below pytest's root directory."""


def resolved(
    adapter: Adapter,
    configured: Mapping[str, Adapter],
    config: pytest.Config,
    settings: Settings,
    *,
    typed_in: Path | None,
) -> Adapter:
    """The adapter with the path of its checkpoint. A path that was typed counts from where it was typed.

    Raises SpecError with the nearest names for a checkpoint that is neither a path nor a name.
    """
    given = adapter.options["checkpoint"]
    if not isinstance(given, str):
        return adapter  # whoever opens it says what is wrong
    path = (typed_in or config.rootpath) / Path(given).expanduser()
    if path.exists():  # one of the configuration stays as it is written: by it an adapter is known elsewhere
        return adapter if typed_in is None else _at(adapter, path)
    other = configured.get(given)
    if other is not None and other.backend == "local" and other.options.get("checkpoint") != given:
        return replace(other, name=adapter.name, parameters={**other.parameters, **adapter.parameters})
    from pytest_crucible.lessons import adapters_folder  # it opens the embedded model, which others do without

    named = _named(adapters_folder(config, settings), config.rootpath / TINKER)
    if given in named:
        return _at(adapter, named[given])
    if any(mark in given for mark in "/\\.~"):
        raise SpecError(f"adapter {adapter.name!r} cannot be opened: there is no {path}")
    raise SpecError(
        f"adapter {adapter.name!r} cannot be opened: there is no file {given!r}, and {_known(given, configured, named)}"
    )


def _at(adapter: Adapter, path: Path) -> Adapter:
    return replace(adapter, options={**adapter.options, "checkpoint": str(path)})


def _named(adapters: Path, tinker: Path) -> dict[str, Path]:
    """All names but those in the configuration; the first of a kind wins, and of equal ones the newest."""
    found: dict[str, Path] = {}
    for name, path in (*_trained(adapters), *_saved(tinker)):
        found.setdefault(name, path)
    return found


def _trained(folder: Path) -> Iterator[tuple[str, Path]]:
    from pytest_crucible.training import trained_adapters

    trained = [one for one in trained_adapters(folder) if one.lineage.adapter_sha256]  # others are with a service
    yield from ((one.path.name, one.path) for one in trained)
    called = ((one.lineage.adapter.removeprefix("local:"), one) for one in trained if not one.lineage.stopped)
    yield from ((name, one.path) for name, one in called if name)


def _saved(directory: Path) -> Iterator[tuple[str, Path]]:
    from pytest_crucible.embedded.server.archive import SAMPLER, Archive

    if (directory / "checkpoints").is_dir():
        saved = Archive(directory).all()
        yield from ((one.path.name, one.directory) for one in saved if one.path.kind == SAMPLER)


def _known(given: str, configured: Mapping[str, Adapter], named: Iterable[str]) -> str:
    names = sorted({name for name, one in configured.items() if one.backend == "local"} | set(named))
    if not names:
        return "nothing has been trained or saved here under a name"
    near = difflib.get_close_matches(given, names, n=3, cutoff=0.5)  # v2 for v3
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(names[:10])}"
    return f"no checkpoint of that name: {hint}"
