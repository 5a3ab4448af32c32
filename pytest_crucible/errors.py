"""Every error that a user can meet. Each class is a decision that somebody takes.

    CrucibleError
    +- SpecError       a marker, option or configuration value is wrong     -> usage error (exit 4) before sampling
    |  +- DatasetError a dataset that is missing or malformed
    +- BackendError    one answer could not be had                          -> that sample is lost
    |  +- Refused      every answer would be refused                        -> the experiment stops
    +- StoreError      the run store cannot be read or written              -> nothing is sampled any more
    +- NotEnoughData   raised inside `stats` only                           -> analyse turns it into a note

Messages are sentences without capital and full stop: what was given, what was wanted, what to do.
"""

from __future__ import annotations


class CrucibleError(Exception):
    """Base of all errors that this package raises on purpose."""


class SpecError(CrucibleError):
    """A marker, an option or a configuration value that cannot be meant."""


class DatasetError(SpecError):
    """A dataset that is missing, empty or malformed."""


class BackendError(CrucibleError):
    """A backend could not answer one request."""


class Refused(BackendError):
    """A backend that would refuse every request: a bad key, no such model."""


class StoreError(CrucibleError):
    """The run store cannot be opened, read or written."""


class NotEnoughData(CrucibleError):
    """A statistic that these data cannot carry."""
