"""Suspects: what in a store depends on a file, a checkpoint or a commit that may be wrong."""

from __future__ import annotations

from pytest_crucible.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """The hashes, adapters and runs in a store that depend on a file, a checkpoint or a commit that may be wrong."""

    hashes: frozenset[str]
    """SHA-256 of files and weights; of weights on a service, their path."""
    identities: frozenset[str]
    """Of adapters."""
    runs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependent:
    """A record of a feature that depends on suspects, such as a registered version."""

    kind: str
    """`registered version`."""
    name: str
    """`claims@4`."""
    state: str
    """`production`."""
    because: str
    """`its adapter is v2`, or `run 3f2a is the proof of its promotion`."""
    depends_on: str
    """One of the hashes, identities or runs of the suspects."""
