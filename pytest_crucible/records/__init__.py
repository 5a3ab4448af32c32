"""Frozen records that the stages exchange. Fields are JSON scalars, tuples, mappings and other records.

`records.serialize` turns them into plain JSON and back. Names resolve on first use, because importing all records takes
milliseconds that a pytest session without experiments should not pay.
"""

from pytest_crucible.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
