"""Samples, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.records.variants import NoTwin, Twin


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample. Its id is stable across runs and machines: arms are paired by it."""

    id: str
    input: Any
    expected: Any = None
    group: str | None = None
    """Samples that share a passage, a repository or a template share a group: they are one cluster."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Twin | NoTwin] = field(default_factory=dict)
    """Its twins by the name of their variant (`records.variants`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The samples of one experiment, with a hash that is equal for two runs on the same samples."""

    name: str
    sha256: str
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source of a dataset, so that a run can name the version that it used."""

    source: str
    licence: str
    files: Mapping[str, str] = field(default_factory=dict)
    """File -> its SHA-256 when it was read."""
    official: bool | None = None
    """True when every file is, byte for byte, the published one; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected part of a dataset, where it is not the whole."""

    of: int
    """Number of samples in the whole dataset."""
    seed: int
    """The seed with which `limit` draws."""
    split: str | None = None
    fold: str | None = None
    limit: int | None = None
    stratify: str | None = None
